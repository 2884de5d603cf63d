"""The interval of the median of raw call times: the calls of one launch share its speed, so launches are the replicates.

The scheme was chosen by coverage, nominal 95 %, in 1000 simulated studies of launches of 50 calls (speed of a launch log-normal
1 %, calls 2 %, every twentieth with a heavy tail). Ranks of the percentiles of resampled launches held the truth in 80 to 85 %
of studies of five launches, with calls resampled as well in 88 to 92 %: five launches underestimate their scatter. The
scatter of resampled launches as a standard error times Student's t held it, with 5 and with 20 launches, in 95 and 96 % for
the median; for rarer percentiles, where calls are few, less. With calls resampled on top of that it is too wide: 98 %.
"""

import math
from collections.abc import Sequence

import numpy as np

from harness.paired import t_quantile

RESAMPLES = 400


def median_interval(launches: Sequence[Sequence[float]], level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """(low, high) around the median of all calls together, in their unit; the same for the same seed.

    Whole launches are resampled; the scatter of the logarithms times Student's t with (launches - 1) degrees of freedom.
    ValueError for fewer than two launches, an empty one, or a time that is not above 0.
    """
    if len(launches) < 2:
        raise ValueError(f"an interval needs at least 2 launches, not {len(launches)}: one launch does not show how two differ")
    if not all(len(calls) and min(calls) > 0 for calls in launches):
        raise ValueError("every launch needs at least one call, and every call a time above 0")
    count = len(launches)
    error = float(np.std(np.log(resampled_medians(launches, seed)), ddof=1)) * math.sqrt(count / (count - 1))
    half = t_quantile(count - 1, level) * error
    middle = float(np.median(np.concatenate(launches)))
    return middle * math.exp(-half), middle * math.exp(half)


def resampled_medians(launches: Sequence[Sequence[float]], seed: int) -> list[float]:
    """Medians of all calls of as many launches, drawn with replacement."""
    stream, count = np.random.default_rng(seed), len(launches)
    drawn = stream.multinomial(count, np.full(count, 1 / count), RESAMPLES)
    return [np.median(np.concatenate([np.tile(calls, n) for calls, n in zip(launches, times, strict=True)])) for times in drawn]
