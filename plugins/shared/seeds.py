"""The seeds that several arms share, and what so many of them can show."""

import math
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from scipy.special import stdtrit

from harness.comparison.paired import POWER, Difference, Values, by_pretraining, grouped, half_intervals
from harness.metrics import FEWEST_REPLICATES


def in_common(values: Sequence[Values]) -> list[list[float]]:
    """Values of each arm by what all have: pretrainings where there are several, else seeds; its mean where they share none.

    An arm that was not pretrained shares the seeds of fine-tuning with the others.
    """
    shared = sorted(set.intersection(*map(set, values)))
    if not shared:
        by_seed = [grouped((replicate.seed, value) for replicate, value in of_arm.items()) for of_arm in values]
        seeds = sorted(set.intersection(*map(set, by_seed)))
        return [[fmean(of_arm[seed]) for seed in seeds] or [fmean(chain(*of_arm.values()))] for of_arm in by_seed]
    return [by_pretraining({replicate: of_arm[replicate] for replicate in shared}) for of_arm in values]


def smallest_difference(n: int, sd: float, factor: float = 1.0, looks: float = 1.0, items: float = 0.0) -> float:
    """The smallest true difference that the test of n pairs of this scatter shows with a power of POWER."""
    scatter = math.hypot(sd / math.sqrt(n), items)
    return half_intervals(n, sd, factor, looks, items)[0] + float(stdtrit(n - 1, POWER)) * scatter


def has_enough(difference: Difference) -> bool:
    """Whether there are replicates enough for a verdict on a score."""
    return difference.error is not None and difference.replicates >= FEWEST_REPLICATES
