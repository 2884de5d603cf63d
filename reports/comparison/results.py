"""Which metrics are results of a run, and which of them say how good it is."""

from harness import metrics
from reports.comparison.compare import HEADLINE, Section

CURVES = {
    f"{phase}/{name}"
    for phase in ("finetune", "pretrain")
    for name in ("loss", "learning_rate", "gradient_norm", "gradient_spread")
}
"""Curves by step: their last value is that of one batch, no result of a run."""
SERIES = (metrics.LENGTHS, metrics.LAUNCHES, metrics.BATCHES)
"""Phases whose steps are lengths, launches or batch sizes: their last value says nothing of the others."""

RESULTS = tuple(name for name in metrics.METRICS if name not in CURVES and not name.startswith(SERIES))
"""Metrics whose last value is a result of the run."""

MAJORITY = "eval/majority_score"
"""The headline score of the constant answer."""
LOSS, ACCURACY, UNIGRAM = "pretrain/masked_loss", "pretrain/masked_accuracy", "pretrain/unigram_entropy"


def headline(section: Section) -> str:
    """The quality metric: a task's headline score, of a pretraining the held-out masked accuracy."""
    return ACCURACY if section.is_pretraining else HEADLINE
