"""What a verdict on trained models takes, in every place that gives one: replicates, items, and a task that can tell.

`python -m reports`, `pick`, `gate` and `python -m harness audit` decide by these rules, of scores and held-out losses. What is
counted is exact and needs none; times have a noise floor of their own.
"""

import enum
import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from scipy.special import ndtri

from harness.paired import CONFIDENCE, Difference, of_differences

LEVEL = 1 - CONFIDENCE
FEWEST_REPLICATES = 3
"""Pairs or clusters of pairs below which a score carries no verdict: of two differences any may be equal by chance."""
TRAINED_UNITS = ("score", "share", "nats", "bits/byte", "loss")
"""Units of what scatters from one training to the next."""
CORRELATIONS = ("matthews", "pearson", "spearman")
"""Scores from -1 to 1; all others are shares of items, from 0 to 1, or are taken for such."""


class Tells(enum.Enum):
    """What a task can say of two arms."""

    EVERYTHING = ""
    NO_EQUALITY = "both arms solve the task, which cannot tell them apart"
    NOTHING = "neither arm is shown to beat the constant answer"


def has_enough(found: Difference) -> bool:
    """Whether there are replicates enough for a verdict on a score."""
    return found.error is not None and found.replicates >= FEWEST_REPLICATES


def ends(headline: str | None) -> tuple[float, float]:
    """Smallest and largest value of a score."""
    return (-1.0 if headline in CORRELATIONS else 0.0), 1.0


def item_error(score: float, items: float, headline: str | None = None) -> float:
    """Standard error of a score over the validation items.

    Binomial, with two items more on either side (Agresti and Coull, The American Statistician 52, 1998), so that it is not
    0 for a perfect score; of a correlation the usual (1 - r^2) / sqrt(n - 1), at least one item.
    """
    share = (min(max(score, 0.0), 1.0) * items + 2) / (items + 4)
    binomial = math.sqrt(share * (1 - share) / (items + 4))
    if headline in CORRELATIONS:
        least = 1 / (items + 4)
        return max((1 - score**2) / math.sqrt(max(1.0, items - 1)), least)
    return binomial


def items_error(before: float, after: float, items: float, headline: str | None = None, apart: float = 1.0) -> float:
    """Standard error of the difference of two scores on the same items; `apart`: the share of the scatter not common to both.

    Without predictions nothing is known to be common: `apart` is 1, the largest that it is for arms that err on the same items.
    """
    return math.sqrt(apart) * math.hypot(item_error(before, items, headline), item_error(after, items, headline))


def share_apart(before: np.ndarray, after: np.ndarray) -> float:
    """Share of the scatter over items that two arms do not have in common, from the scores of each item: (seeds, items) each.

    The variance of the differences of single items, means over seeds, over that of single runs. One item more or less counts.
    """
    items = before.shape[1]
    common = items * float(np.var(before, axis=1).mean() + np.var(after, axis=1).mean())
    return min(1.0, (items * float(np.var(np.mean(after - before, axis=0))) + 1) / (common + 1))


def over_tasks(errors: Sequence[float]) -> float:
    """Standard error over the items of a mean over tasks, whose items are others."""
    return math.hypot(*errors) / max(1, len(errors))


def tells_of_tasks(each: Sequence[Tells]) -> Tells:
    """What several tasks say together: as much as the one that can say most."""
    return next((one for one in Tells if one in each), Tells.EVERYTHING)


def beats_constant(scores: Sequence[float], constant: float, item: float = 0.0) -> bool:
    """Whether scores of independent replicates are shown to be better than the constant answer (one-sided t test at 5 %).

    `item`: their standard error over the items. One score, or equal ones without it, must be better.
    """
    found = of_differences(scores).with_items(item)
    if not found.error:
        return found.mean > constant
    return found.t_test_p(constant, 1) <= LEVEL


def is_solved(score: float, margin: float, items: float | None = None, headline: str | None = None) -> bool:
    """Whether what is left to a perfect score could be the margin, or less: then nothing can be better by the margin.

    As far as the items can tell: up to the largest error that a quality of 1 - margin has in 95 of 100 samples of them.
    """
    room = margin + (float(ndtri(CONFIDENCE)) * item_error(1 - margin, items, headline) if items else 0.0)
    return 1 - score <= room * (1 + 1e-9)


def tells(
    before: Sequence[float],
    after: Sequence[float],
    constant: float | None,
    margin: float,
    items: float | None = None,
    headline: str | None = None,
) -> Tells:
    """What a task says of two arms by the scores of their replicates; `constant` is that of the constant answer."""
    sides = [(list(side), item_error(fmean(side), items, headline) if items else 0.0) for side in (before, after)]
    if constant is not None and not any(beats_constant(side, constant, item=item) for side, item in sides):
        return Tells.NOTHING
    if all(is_solved(fmean(side), margin, items, headline) for side, _ in sides):
        return Tells.NO_EQUALITY
    return Tells.EVERYTHING
