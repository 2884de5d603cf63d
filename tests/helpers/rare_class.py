"""Simulated studies of F1 and Matthews' correlation where a class is rare.

Arms classify the same rows by a score that the label shifts: with luck of a row that all arms share, luck of the arm, and luck
of the seed. Rows are sampled anew for each study, and equal arms have the same F1 over all rows that there are.
"""

import functools
import math
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

from harness import metrics
from harness.comparison import influences, items, paired
from harness.comparison.items import CLASSES, Errors
from harness.comparison.paired import LEVEL, Replicate
from harness.comparison.verdicts import Change, change

SCORE = metrics.get("eval/score")
OF_ARM, OF_SEED = 0.7, 0.5
"""Standard deviations of the luck of an arm and of a seed on a row; that of the row itself is 1."""
TARGET = 0.6
SHARES = ((0.03, 1000), (0.1, 300), (0.1, 1000), (0.3, 300), (0.5, 300))
"""Share of the class, and rows."""


@functools.cache
def classifier(share: float, f1: float) -> tuple[float, float]:
    """Shift and threshold of the score with this F1, which names the class as often as it occurs."""
    scale = math.sqrt(1 + OF_ARM**2 + OF_SEED**2)

    def named(shift: float, threshold: float) -> tuple[float, float]:
        right = share * ndtr((shift - threshold) / scale)
        return right, right + (1 - share) * ndtr(-threshold / scale)

    def threshold_of(shift: float) -> float:
        return bisected(lambda threshold: named(shift, threshold)[1] < share)

    shift = bisected(lambda one: named(one, threshold_of(one))[0] / share > f1)
    return shift, threshold_of(shift)


def bisected(is_above: object) -> float:
    low, high = -20.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high


def studies(
    share: float, rows: int, seeds: int, count: int, drop: float = 0.0
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Labels, and predictions (seeds, rows) of the baseline and of an arm that is worse by `drop`."""
    rng = np.random.default_rng([round(1000 * share), rows, seeds, round(1000 * abs(drop))])
    for _ in range(count):
        labels, of_row = (rng.random(rows) < share).astype(int), rng.normal(size=rows)
        both = []
        for shift, threshold in (classifier(share, TARGET), classifier(share, TARGET - drop)):
            luck = of_row + rng.normal(0, OF_ARM, rows) + rng.normal(0, OF_SEED, (seeds, rows))
            both.append((shift * labels + luck > threshold).astype(int))
        yield labels, both


def f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    return float(2 * (labels * predicted).sum() / (labels.sum() + predicted.sum()))


def f1_macro(labels: np.ndarray, predicted: np.ndarray) -> float:
    return (f1(labels, predicted) + f1(1 - labels, 1 - predicted)) / 2


def matthews(labels: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.corrcoef(labels, predicted)[0, 1])


COMPUTE = {"f1": f1, "f1_macro": f1_macro, "matthews": matthews}


def judged(labels: np.ndarray, both: list[np.ndarray], score: str, how: str) -> Change:
    """By the predictions of both arms, by the interval that each run records, or as shares of all rows, as once."""
    values = [[COMPUTE[score](labels, one) for one in side] for side in both]
    errors = [
        [
            Errors(CLASSES, tuple(range(len(labels))), (one != labels) * 1.0, answers=("classification", labels, one))
            for one in side
        ]
        for side in both
    ]
    pair, means = items.of_both(zip(*errors, strict=True)), [float(np.mean(side)) for side in values]
    if how == "predictions":
        error = pair.error_of(score)
    elif how == "intervals":
        halves = [
            [1.96 * paired.influence_error(*influences.of_score("classification", score, labels, one)) for one in side]
            for side in both
        ]
        recorded = [
            [
                paired.rows_of(
                    {
                        "eval/examples": len(labels),
                        f"eval/{score}": value,
                    }
                    | dict(
                        zip((f"eval/{score}_low", f"eval/{score}_high"), paired.score_interval(value, half, score), strict=True)
                    ),
                    score,
                )
                for value, half in zip(*side, strict=True)
            ]
            for side in zip(values, halves, strict=True)
        ]
        error = paired.items_error(*means, [float(np.mean(side)) for side in recorded], score)
    else:
        error = paired.items_error(*means, [len(labels)] * 2, "accuracy", pair.share_apart)
    sides = [{Replicate("", str(seed)): value for seed, value in enumerate(side)} for side in values]
    return change(SCORE, *sides, 1 / len(labels), items=error)


def allowed(count: int) -> float:
    """5 % and two standard errors of it."""
    return LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / count)
