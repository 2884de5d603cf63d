"""How cost grows with the length of the text: the exponent, and the lengths at which an arm beats the baseline.

A length is one point, the geometric mean of its launches and seeds. Fitting all launches instead gives the same exponent,
but an interval that counts every launch as one more length: the deviation of a length from the line (tiles of a kernel, the
bend of b T + c T^2 itself) is the same in all launches, and such an interval misses the exponent far too often.
"""

import math
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from harness.comparison.paired import ROUNDING, Replicate, compare_independent, t_quantile
from harness.metrics import Direction

Replicates = dict[int, list[float]]
"""Length in tokens -> values of its launches and seeds."""


@dataclass(frozen=True)
class PowerLaw:
    """quantity ~ length ** exponent. `deviation` is the largest distance of a point from the line, as a share of the line."""

    exponent: float
    interval: tuple[float, float] | None  # None below three lengths, and of what is counted
    deviation: float
    last: float  # exponent between the lengths of `doubling` alone
    doubling: tuple[int, int]


@dataclass(frozen=True)
class Crossing:
    """Where an arm begins or ceases to win; an end of the interval is None where no measured length excludes it."""

    length: float
    begins: bool
    interval: tuple[float | None, float | None] | None  # None without replicates


@dataclass(frozen=True)
class Race:
    """An arm against the baseline: the log of how many times it is better, by length, and the half-widths of that."""

    lengths: tuple[int, ...]
    lead: tuple[float, ...]
    half: tuple[float, ...] | None  # None without replicates
    crossings: tuple[Crossing, ...]

    @property
    def unclear(self) -> list[int]:
        """Lengths at which the interval of the lead includes 0; none without replicates."""
        each = zip(self.lengths, self.lead, self.half or [0.0] * len(self.lengths), strict=True)
        return [length for length, lead, half in each if half and abs(lead) <= half]


def centres(points: Replicates) -> dict[int, float]:
    """Length -> geometric mean, shortest first; empty unless all values are positive."""
    if any(value <= 0 for values in points.values() for value in values):
        return {}
    return {length: geometric_mean(points[length]) for length in sorted(points) if points[length]}


def fit(points: Replicates, counted: bool = False) -> PowerLaw | None:
    """Least squares through the logs, one point a length, with Student's t interval; None below two lengths."""
    by_length = centres(points)
    if len(by_length) < 2:
        return None
    lengths = list(by_length)
    x, y = np.log(lengths), np.log(list(by_length.values()))
    spread = x - x.mean()
    exponent = float(spread @ y / (spread @ spread))
    left = y - y.mean() - exponent * spread
    begin = max((length for length in lengths if 2 * length <= lengths[-1]), default=lengths[-2])
    last = math.log(by_length[lengths[-1]] / by_length[begin]) / math.log(lengths[-1] / begin)
    freedom = len(left) - 2
    interval = None
    if freedom > 0 and not counted:
        half = t_quantile(freedom) * math.sqrt(float(left @ left) / freedom / float(spread @ spread))
        interval = exponent - half, exponent + half
    return PowerLaw(exponent, interval, float(np.abs(np.expm1(left)).max()), last, (begin, lengths[-1]))


def race(before: Replicates, after: Replicates, direction: Direction) -> Race | None:
    """Compares both at their common lengths; None where there are none, or a value is not positive."""
    first, second = centres(before), centres(after)
    lengths = [length for length in first if length in second]
    if not lengths:
        return None
    sign = -1 if direction is Direction.LOWER else 1
    lead = [sign * math.log(second[length] / first[length]) for length in lengths]
    lead = [0.0 if abs(one) < 1e-12 else one for one in lead]
    widths = [_welch(before[length], after[length]) for length in lengths]
    half = None if None in widths else tuple(width for width in widths if width is not None)
    return Race(tuple(lengths), tuple(lead), half, tuple(_crossings(np.log(lengths), np.array(lead), half)))


def _welch(*sides: list[float]) -> float | None:
    """Half-width of Welch's interval of the difference of logarithms; None unless both were measured again."""
    logs = ({Replicate("", str(place)): math.log(value) for place, value in enumerate(values)} for values in sides)
    difference = compare_independent(*logs)
    if difference is None or difference.interval is None:
        return None
    half = difference.interval[1] - difference.mean
    return half if half > ROUNDING else 0.0


def _crossings(x: np.ndarray, lead: np.ndarray, half: tuple[float, ...] | None) -> list[Crossing]:
    """Sign changes of the lead, straight between measured lengths on logarithmic axes; a tie does not count."""
    found, interval = [], None
    for index in range(len(x) - 1):
        here, there = lead[index], lead[index + 1]
        if (here > 0) != (there > 0):
            place = float(x[index] - here / (there - here) * (x[index + 1] - x[index]))
            if half is not None:  # the lengths around it at which the interval of the lead includes 0
                ends = np.array([*_roots(x, lead - half), *_roots(x, lead + half)])
                below, above = ends[ends <= place + 1e-12], ends[ends >= place - 1e-12]
                interval = math.exp(below.max()) if len(below) else None, math.exp(above.min()) if len(above) else None
            found.append(Crossing(math.exp(place), bool(there > 0), interval))
    return found


def _roots(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Zeros of the piecewise linear curve through these points."""
    zeros = [float(place) for place, value in zip(x, y, strict=True) if value == 0]
    for index in np.flatnonzero(y[:-1] * y[1:] < 0):
        zeros.append(float(x[index] - y[index] / (y[index + 1] - y[index]) * (x[index + 1] - x[index])))
    return zeros
