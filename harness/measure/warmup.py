"""Warm-up until steady: calls are repeated until the last of them show no change of level, not a fixed number of times.

A change of level is found as a change point (after arXiv:1602.00602, which shows that a fixed warm-up guarantees nothing), by
medians of log times instead of means and variances: one call that the scheduler delayed is not a new level.
"""

import itertools
import math
from collections.abc import Iterable
from statistics import median

from harness.measure.records import WarmUp

SEGMENT = 5
"""Minimum number of calls of a level."""

STRETCH = 15
"""Calls without a change of level that count as steady."""

TAIL = 40
"""Number of last calls that are tested, so that the test is fast."""

SMALLEST = 0.02
"""Smallest relative change of level that counts."""

ERRORS = 4.0
"""Standard errors between two levels; more than the usual two, because the best of all splits is tested."""

MINIMUM, MAXIMUM = STRETCH + SEGMENT, 100
"""Calls of a warm-up: the minimum separates a slow start as long as STRETCH from the level after it."""

TO_SIGMA = 1.4826
"""Median absolute deviation -> standard deviation of a normal distribution."""

OF_MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, of a normal distribution."""


def until_steady(times: Iterable[float]) -> WarmUp:
    """Takes times until the last STRETCH of them have one level, at least MINIMUM and at most MAXIMUM."""
    values: list[float] = []
    for value in itertools.islice(times, MAXIMUM):
        values.append(value)
        tail = values[-TAIL:]
        if len(values) >= MINIMUM and len(tail) - last_change(tail) >= STRETCH:
            return WarmUp(len(values), True, values)
    return WarmUp(len(values), False, values)


def last_change(times: list[float]) -> int:
    """Where the last level begins: 0 when all calls have one level.

    The best split is applied if it is a change, and the part after it is split again, until there is no change.
    """
    logs, start = [math.log(value) for value in times], 0
    while len(last := logs[start:]) >= 2 * SEGMENT:
        split = min(range(SEGMENT, len(last) - SEGMENT + 1), key=lambda place: sum(_deviations(last, place)))  # called at once
        if not _is_change(last, split):
            break
        start += split
    return start


def _deviations(logs: list[float], place: int) -> list[float]:
    """Deviation of each call from the median of its own part."""
    parts = logs[:place], logs[place:]
    return [abs(value - level) for part, level in zip(parts, map(median, parts), strict=True) for value in part]


def _is_change(logs: list[float], place: int) -> bool:
    """Whether the levels are apart by more than SMALLEST and than ERRORS standard errors of their difference."""
    apart = abs(median(logs[place:]) - median(logs[:place]))
    steps = [abs(after - before) for before, after in itertools.pairwise(logs)]  # a drift adds almost nothing to one step
    sigma = TO_SIGMA * median(steps) / math.sqrt(2)
    error = OF_MEDIAN * sigma * math.sqrt(1 / place + 1 / (len(logs) - place))
    return apart > max(math.log1p(SMALLEST), ERRORS * error)
