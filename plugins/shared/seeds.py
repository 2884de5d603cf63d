"""Seeds that arms share, and the smallest difference that so many can show."""

import math
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

import numpy as np
from scipy.special import chdtri, ndtr

from harness.comparison.paired import POWER, Difference, Values, by_pretraining, grouped, quantiles, smallest_p, with_seeds
from harness.metrics import FEWEST_REPLICATES

SHARES = np.linspace(0.0025, 0.9975, 200)
"""Quantiles that stand for a distribution."""


def in_common(values: Sequence[Values]) -> list[list[float]]:
    """Values of each arm by what all have: pretrainings where there are several, else seeds; its mean where they share none.

    An arm that was not pretrained shares the seeds of fine-tuning with the others, one that no seed changes has all of them.
    """
    values = with_seeds(values)
    shared = sorted(set.intersection(*map(set, values)))
    if not shared:
        by_seed = [grouped((replicate.seed, value) for replicate, value in of_arm.items()) for of_arm in values]
        seeds = sorted(set.intersection(*map(set, by_seed)))
        return [[fmean(of_arm[seed]) for seed in seeds] or [fmean(chain(*of_arm.values()))] for of_arm in by_seed]
    return [by_pretraining({replicate: of_arm[replicate] for replicate in shared}) for of_arm in values]


def smallest_difference(n: int, sd: float, factor: float = 1.0, looks: float = 1.0, items: float = 0.0) -> float:
    """The smallest true difference that the test of n pairs of this scatter shows with a power of POWER.

    The test measures the scatter over replicates, whose distribution is averaged over.
    """
    scatter = math.hypot(sd / math.sqrt(n), items)
    measured = sd * np.sqrt(chdtri(n - 1, SHARES) / (n - 1))
    (t, _), (z, _) = quantiles(factor, looks, n), quantiles(factor, looks)
    halves = np.hypot(t * measured, z * items)
    most = float(halves.max()) + 9 * scatter
    return most and most * smallest_p(lambda part: float(ndtr((most * part - halves) / scatter).mean()) >= POWER)


def has_enough(difference: Difference) -> bool:
    """Whether there are enough replicates for a verdict on a score."""
    return difference.error is not None and difference.replicates >= FEWEST_REPLICATES
