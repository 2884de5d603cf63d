"""Which head predicted the masked tokens of a pretraining: the objective's own, or a probe on the frozen encoder."""

from collections.abc import Iterable

from harness.plateau import MASKED, PROBE
from reports.comparison.statistics import Change, Verdict
from reports.reading.store import Run


def judged_with_one_head(found: Change | None, name: str, before: Iterable[Run], after: Iterable[Run]) -> Change | None:
    """The change, without a verdict where the metric is of masked tokens and the two sides have other heads."""
    if found is None or name not in MASKED or heads_of(before) == heads_of(after):
        return found
    return Change(found.n, found.baseline_mean, found.absolute, None, Verdict.OPEN)


def heads_of(runs: Iterable[Run]) -> set[float]:
    """Steps that the probes of these pretrainings were trained for; 0 stands for the objective's own head."""
    return {run.metrics[PROBE] for run in runs if PROBE in run.metrics}


def have_probes(runs: Iterable[Run]) -> bool:
    """Whether a probe answers for any of these pretrainings."""
    return any(heads_of(runs))
