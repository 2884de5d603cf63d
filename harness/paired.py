"""Differences of a handful of replicates, paired by seed.

Seeds are replicates, on two levels: pretrainings, and the fine-tunings that start from each. The fine-tunings of one
pretraining share its luck, so that they are one cluster: intervals are over the means of the clusters (a nested model; why it
matters: Multi-Bootstrap, arXiv:2106.16163). No bootstrap: over a handful of seeds its intervals are far too narrow.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
EXACT_LIMIT = 14
"""Largest number of pairs for which all sign patterns are tried."""


class Replicate(NamedTuple):
    """Which repetition of its arm a run is, by both levels of seeds."""

    pretrain_seed: str  # empty without pretraining
    seed: str


Values = Mapping[Replicate, float]


@dataclass(frozen=True)
class Spread:
    """Values of one metric over seeds; `sd` (n - 1 in the denominator) is None for a single value."""

    n: int
    mean: float
    sd: float | None
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Difference:
    """Mean of the paired differences after - before; interval and p are None for a single pair.

    `pretrainings` counts the clusters among the `n` pairs: 0 where neither side was pretrained. `freedom` is that of the
    interval's t.
    """

    n: int
    mean: float
    interval: tuple[float, float] | None
    p: float | None
    pretrainings: int = 0
    freedom: float | None = None


def spread(values: Sequence[float]) -> Spread:
    """Count, mean, sample standard deviation and range; ValueError without values."""
    if not values:
        raise ValueError("a spread needs at least one value")
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(len(values), math.fsum(values) / len(values), sd, min(values), max(values))


def pair(before: Iterable[Replicate], after: Iterable[Replicate]) -> list[tuple[Replicate, Replicate]]:
    """(before, after) of the same seeds; where one side was not pretrained, of the same fine-tuning seed."""
    earlier, later = list(before), list(after)
    if all(one.pretrain_seed for one in earlier) == all(one.pretrain_seed for one in later):
        known = set(earlier)
        return [(one, one) for one in later if one in known]
    return [(one, other) for other in later for one in earlier if one.seed == other.seed]


def compare_paired(before: Values, after: Values) -> Difference | None:
    """Mean difference and its t interval, with fine-tunings of one pretraining as one cluster; None without a pair."""
    pairs = pair(before, after)
    if not pairs:
        return None
    seeds = [(one.pretrain_seed or other.pretrain_seed, other.seed) for one, other in pairs]
    differences = [after[other] - before[one] for one, other in pairs]
    pretrainings = len({pretrain_seed for pretrain_seed, _ in seeds if pretrain_seed})
    if pretrainings < 2:
        mean, interval = mean_interval(differences)
        p = None if interval is None else sign_flip_p(differences)
        return Difference(len(pairs), mean, interval, p, pretrainings, len(pairs) - 1)
    means = group_means([pretrain_seed for pretrain_seed, _ in seeds], differences)
    shared = len({seed for _, seed in seeds}) < len(seeds) and any(one != other for one, other in pairs)
    if not shared:
        mean, interval = mean_interval(means)
        return Difference(len(pairs), mean, interval, sign_flip_p(means), pretrainings, len(means) - 1)
    interval, freedom = _crossed_interval(means, group_means([seed for _, seed in seeds], differences))
    return Difference(len(pairs), spread(means).mean, interval, None, pretrainings, freedom)


def group_means(names: Sequence[str], values: Sequence[float]) -> list[float]:
    """The mean of the values of each name, in the order in which names first come."""
    groups: dict[str, list[float]] = {}
    for name, value in zip(names, values, strict=True):
        groups.setdefault(name, []).append(value)
    return [math.fsum(group) / len(group) for group in groups.values()]


def _crossed_interval(by_pretraining: list[float], by_seed: list[float]) -> tuple[tuple[float, float] | None, float | None]:
    """t interval of a mean that varies with the pretraining, and with the fine-tuning that all pretrainings are compared with.

    The two variances are added, which counts a part of the noise twice, with Satterthwaite's degrees of freedom, which come
    second; None where one fine-tuning seed says nothing of its own variance.
    """
    if len(by_seed) < 2:
        return None, None
    errors = [(spread(values).sd ** 2 / len(values), len(values) - 1) for values in (by_pretraining, by_seed)]
    total = sum(error for error, _ in errors)
    mean = spread(by_pretraining).mean
    if total == 0:
        return (mean, mean), len(by_seed) - 1
    freedom = total**2 / sum(error**2 / freedom for error, freedom in errors)
    half = t_quantile(freedom) * math.sqrt(total)
    return (mean - half, mean + half), freedom


def mean_interval(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """Mean and Student's t interval of it, None for a single value; ValueError without values."""
    over = spread(values)
    if over.sd is None:
        return over.mean, None
    half = t_quantile(over.n - 1) * over.sd / math.sqrt(over.n)
    return over.mean, (over.mean - half, over.mean + half)


@functools.cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Of Student's t, two-sided."""
    return float(stdtrit(freedom, (1 + confidence) / 2))


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Two-sided p: the share of all sign patterns whose mean is at least as far from 0; None above EXACT_LIMIT pairs."""
    if len(differences) > EXACT_LIMIT:
        return None
    patterns = np.indices((2,) * len(differences)).reshape(len(differences), -1) * 2 - 1  # (n, 2^n)
    sums = np.abs(np.asarray(differences, dtype=float) @ patterns)
    observed = abs(math.fsum(differences))
    return float(np.mean(sums >= observed - 1e-9 * max(observed, 1e-300)))


def sign_flip_floor(n: int) -> float:
    """The smallest p that n pairs can reach."""
    return 2 / 2**n
