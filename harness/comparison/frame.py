"""Results of any tool as one frame: a row a value, of an arm on a task with a seed, over all items or of a single one.

What reads the files of a tool gives the columns that this tool states (`COLUMNS`). Here units and directions are filled in,
the values are checked and put into base units, and the frame says how its values compare: paired by seed, of independent
seeds, or by items alone. `runs` makes what every comparison, report and gate works on.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from harness import metrics, tags
from harness.comparison.items import MEAN, Errors
from harness.comparison.paired import Design
from harness.comparison.runs import Run
from harness.errors import InputError, on_one_line, some_of
from harness.metrics import Direction

COLUMNS = {
    "arm": "what is compared, such as a model",
    "task": "what it was tried on",
    "seed": "which repetition; missing where there is one",
    "round": "which of several measurements of one run",
    "metric": "what was measured",
    "value": "the number",
    "unit": "share, percent, s, ms, us, ns, bytes, tokens/s, nats, 1, ...",
    "direction": "higher or lower is better",
    "item": "row, question or query; missing for a value over all items",
    "items": "how many items a value is over",
    "error": "its standard error over the items",
}
"""Column of a frame -> what it says."""

SCORE = "score"
IN_BASE_UNITS = {"share": (SCORE, 1.0), "percent": (SCORE, 0.01), "us": ("ms", 1e-3), "ns": ("ms", 1e-6), "s": ("ms", 1e3)}
"""Unit -> the unit in which reports have it, and what one of it is there."""
SHARE, LOWER = ("share", "higher"), "lower"
KNOWN = {
    r"acc|accuracy|acc_norm|acc_mutual_info|balanced_accuracy|exact_match|em|quasi_exact_match|pass@\d+": SHARE,
    r"(macro_|micro_|weighted_|max_|entity_)?(f1|precision|recall|ap)(_macro|_micro|_weighted|_score)?": SHARE,
    r"mcc|matthews|matthews_correlation|pearson|pearsonr|spearman|spearmanr|cosine_(pearson|spearman)|kendall": SHARE,
    r"(ndcg|map|mrr|recall|precision|hit_rate|accuracy)(@|_at_)\d+|v_measure|(ro)?c_?auc|auroc|map|mrr|main_score": SHARE,
    r"(eval_|validation_)?loss|cross_entropy|nll|brier(_score)?|perplexity|(word|byte)_perplexity|bits_per_byte|wer|cer": ("1", LOWER),
    r"mae|mse|rmse|mean_(absolute|squared)_error": ("1", LOWER),
    r"(tokens|samples|requests|steps|texts)(_per_second|/s)|throughput": ("", "higher"),
    r"latency|(run|wall_?|train_|eval_)?time|duration|seconds|memory|peak_memory|parameters|params|flops": ("", LOWER),
}
"""Names of metrics, as a pattern -> unit and direction; no unit where tools differ in it."""
HEADLINES = {"mcc": "matthews", "matthews_correlation": "matthews", "pearsonr": "pearson", "cosine_pearson": "pearson"}
HEADLINES |= {"spearmanr": "spearman", "cosine_spearman": "spearman", "acc": "accuracy"}
"""Name of a score -> how it is called here."""


def known(metric: str) -> tuple[str, str]:
    """Unit and direction of a metric by its name, empty where the name does not say them; `acc,none` is `acc`."""
    name = re.sub(r"^(eval|test|validation|predict)_", "", metric.partition(",")[0].strip().casefold())
    return next((said for pattern, said in KNOWN.items() if re.fullmatch(pattern, name)), ("", ""))


@dataclass(frozen=True)
class Items:
    """Values of the items that all runs of a task have, in one order."""

    names: tuple[object, ...]  # N
    values: Mapping[tuple[str, str], np.ndarray]  # (arm, seed) -> (N,)


@dataclass(frozen=True)
class Frame:
    """Values over all items in base units, unique by arm, task, seed and metric; single items by (task, metric)."""

    rows: pd.DataFrame
    items: Mapping[tuple[str, str], Items] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def scores(self) -> list[str]:
        """Metrics that are shares, in the order of the files."""
        return [*self.rows.loc[self.rows["unit"] == SCORE, "metric"].unique()]

    @property
    def others(self) -> list[str]:
        """All other metrics, likewise."""
        return [*self.rows.loc[self.rows["unit"] != SCORE, "metric"].unique()]
