"""What a verdict is computed from, and the verdict."""

import bisect
import enum
import functools
import math
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit

from harness.metrics import HIGHEST_FLOOR, Direction
from harness.paired import ROUNDING, Difference
from harness.verdict_rules import LEVEL, Tells

EQUIVALENCE = 1 - 2 * LEVEL
"""Confidence of the interval that two one-sided tests at LEVEL keep within the margin."""


FEWEST_EXACT = 6
"""Pairs from which on the exact sign-flip test can reach LEVEL: then it must."""


FEWEST_PAIRS, MOST_PAIRS = 2, 1000
"""Beyond this no number of pairs is computed that would resolve a margin."""


class Verdict(enum.Enum):
    """What may be said of a change; DIRECTION_*: one seed or launch only, which is no evidence.

    SAME: by no more than the margin; NOT_RESOLVED: neither different nor the same; OPEN: what nothing can judge.
    """

    BETTER = "better"
    WORSE = "worse"
    DIRECTION_BETTER = "direction better"
    DIRECTION_WORSE = "direction worse"
    EQUAL = "equal"
    SAME = "same"
    NOT_RESOLVED = "not resolved"
    OPEN = "no verdict"


@dataclass(frozen=True)
class Evidence:
    """What a verdict is computed from; `found`, `margin` and `floor` are logarithms where `ratio`.

    A difference up to the floor is none: one item of the validation set, or what equal things may differ by; None if unknown.
    `timing`: there is no verdict without a floor, or with one above HIGHEST_FLOOR; `by_round`: rounds of one session, whose
    t test says what is different, so that it need not exceed the floor. `counted`: what is the same is asked before what is
    different; nothing scatters but with the seed, or with a budget in seconds. `fewest`: replicates that a verdict takes.
    """

    direction: Direction
    found: Difference
    margin: float
    floor: float | None = None
    ratio: bool = False
    timing: bool = False
    counted: bool = False
    by_round: bool = False
    fewest: int = 0
    tells: Tells = Tells.EVERYTHING

    @property
    def least(self) -> float:
        """Size of a difference up to which it is none."""
        return 0.0 if self.floor is None or self.by_round else self.floor * (1 + ROUNDING)

    @property
    def is_below_floor(self) -> bool:
        """Whether equal things may differ by more than the margin, so that nothing is shown to be the same."""
        return (self.floor or 0.0) * (1 + ROUNDING) > self.margin

    @property
    def has_enough(self) -> bool:
        """Whether there are as many replicates as a verdict takes."""
        return self.found.replicates >= self.fewest

    @property
    def is_too_noisy(self) -> bool:
        """Whether its floor is too high for any verdict."""
        return self.timing and self.floor is not None and self.floor > HIGHEST_FLOOR

    @property
    def is_test(self) -> bool:
        """Whether a test decides on it, which counts in a family of several tests."""
        open_ = self.tells is Tells.NOTHING or (self.timing and (self.floor is None or self.is_too_noisy))
        return self.direction is not Direction.NEITHER and self.found.error is not None and self.has_enough and not open_

    def verdict(self, factor: float = 1.0) -> Verdict | None:
        """Different where both tests and the floor allow it, else the same where two one-sided tests and the floor do.

        p of the difference is multiplied by `factor` (Holm). The tests of equivalence are not: they are no claims of a gain.
        """
        found = self.found
        if self.direction is Direction.NEITHER:
            return None
        if self.tells is Tells.NOTHING or (self.timing and (self.floor is None or self.is_too_noisy)):
            return Verdict.OPEN
        if found.mean == 0 and self.floor == 0:
            return Verdict.EQUAL
        if self.counted and abs(found.mean) < self.margin and (found.error is None or self._is_inside()):
            return Verdict.SAME
        if found.error is None:
            above = abs(found.mean) > (self.margin if self.floor is None else self.floor * (1 + ROUNDING))
            return judge(self.direction, found.mean, False) if above else Verdict.NOT_RESOLVED
        if not self.has_enough:
            return Verdict.NOT_RESOLVED
        if abs(found.mean) > self.least and factor * found.t_test_p() <= LEVEL and self._exact_agrees():
            return judge(self.direction, found.mean, True)
        can_be_same = self.tells is Tells.EVERYTHING and not self.is_below_floor
        return Verdict.SAME if can_be_same and self._is_inside() else Verdict.NOT_RESOLVED

    def _is_inside(self) -> bool:
        """Whether two one-sided tests show it within the margin."""
        return max(self.found.t_test_p(-self.margin, 1), self.found.t_test_p(self.margin, -1)) <= LEVEL

    def _exact_agrees(self) -> bool:
        found = self.found
        return found.p is None or found.independent < FEWEST_EXACT or found.p <= LEVEL

    def needed(self, factor: float = 1.0) -> int | None:
        """The fewest pairs, of the scatter measured, whose verdict must be different or the same.

        There the half intervals of both tests fit into the margin together. None where unknown, MOST_PAIRS + 1 where more.
        """
        if not self.found.error or self.found.independent is None:
            return None
        sd, items = self.found.replicates_error * math.sqrt(self.found.independent), self.found.items
        fewest = max(FEWEST_PAIRS, self.fewest)
        numbers = range(fewest, MOST_PAIRS + 1)
        fits = functools.partial(_fits, factor=factor, sd=sd, items=items, margin=self.margin)
        return fewest + bisect.bisect_left(numbers, True, key=fits)

    def items_reach(self, factor: float = 1.0) -> float:
        """What the items leave open with any number of replicates: of both tests together."""
        return self.found.items * sum(_items_quantiles(factor))


def _fits(n: int, factor: float, sd: float, items: float, margin: float) -> bool:
    """Whether the half intervals of both tests are together within the margin, for n pairs; true for more where for fewer."""
    of_items = _items_quantiles(factor)
    return sum(math.hypot(t * sd, z * items) for t, z in zip(_pair_quantiles(n, factor), of_items, strict=True)) <= margin


@functools.lru_cache(maxsize=65536)
def _pair_quantiles(n: int, factor: float) -> tuple[float, float]:
    """Half intervals of the test of a difference and of that of equivalence, for n pairs of a standard deviation of 1."""
    both = (1 - LEVEL / factor / 2, 1 - LEVEL)
    return tuple(float(stdtrit(n - 1, quantile)) / math.sqrt(n) for quantile in both)


@functools.lru_cache(maxsize=65536)
def _items_quantiles(factor: float) -> tuple[float, float]:
    return float(ndtri(1 - LEVEL / factor / 2)), float(ndtri(1 - LEVEL))


def judge(direction: Direction, absolute: float, sure: bool) -> Verdict | None:
    """Better or worse by the metric's own direction; None for a metric that is no merit."""
    if direction is Direction.NEITHER:
        return None
    if absolute == 0:
        return Verdict.EQUAL
    better = (absolute < 0) == (direction is Direction.LOWER)
    if sure:
        return Verdict.BETTER if better else Verdict.WORSE
    return Verdict.DIRECTION_BETTER if better else Verdict.DIRECTION_WORSE
