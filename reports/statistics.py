"""What a handful of seeds can carry: seeds are replicates, differences are paired by seed.

No bootstrap: over a handful of seeds its intervals are far too narrow.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
EXACT_LIMIT = 14
"""Up to so many pairs all sign patterns are tried."""


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
    """Mean of the paired differences after - before; interval and p are None for a single pair."""

    n: int
    mean: float
    interval: tuple[float, float] | None
    p: float | None


def spread(values: Sequence[float]) -> Spread:
    """Count, mean, sample standard deviation and range; ValueError without values."""
    if not values:
        raise ValueError("a spread needs at least one value")
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(len(values), math.fsum(values) / len(values), sd, min(values), max(values))


def paired(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Student's t interval of the paired differences, and their exact sign-flip p; ValueError unless the lengths agree."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    mean, interval = mean_interval(differences)
    return Difference(len(differences), mean, interval, None if interval is None else sign_flip_p(differences))


def mean_interval(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """Mean and Student's t interval of it, None for a single value; ValueError without values."""
    seen = spread(values)
    if seen.sd is None:
        return seen.mean, None
    half = t_quantile(seen.n - 1) * seen.sd / math.sqrt(seen.n)
    return seen.mean, (seen.mean - half, seen.mean + half)


@functools.cache
def t_quantile(freedom: int) -> float:
    """Of Student's t at CONFIDENCE, two-sided."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))


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
