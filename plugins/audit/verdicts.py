"""From claimed and measured values to a verdict: of each point, and of a reading over all of its points.

The points of a reading are one family of tests, each at a stricter confidence (Holm), as some of many would settle by chance. A
verdict does not depend on which other claims are audited.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from harness.comparison.paired import CONFIDENCE, Difference, holm, smallest_p
from harness.plugins.audit.claims import Reading, Relation, TableScore

Where = Mapping[str, Any]
"""Condition -> its value, such as {"length": 128}."""


PAIRS = "pairs"
"""Number of runs that a point compares: shown with its conditions, and not one of them."""


@dataclass(frozen=True)
class Point:
    """One value with its interval of 95 % or, where it is one of several tests, of more; counted, it is the value itself."""

    value: Any  # a number, or what is only equal or not
    where: Where
    low: float = math.nan
    high: float = math.nan
    difference: Difference | None = None  # whose interval it is; None without a test
    ratio: bool = False  # a relative change, whose difference is one of logarithms

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends; a counted value twice."""
        return (self.value, self.value) if math.isnan(self.low) else (self.low, self.high)

    @property
    def is_test(self) -> bool:
        """Whether its interval is that of a statistical test, and may mislead by chance."""
        return self.difference is not None and all(map(math.isfinite, self.interval))

    def at(self, confidence: float) -> "Point":
        """A copy whose interval is at this confidence; the same without a test."""
        ends = self.difference and self.difference.interval_at(confidence)
        if not ends:
            return self
        low, high = map(math.expm1 if self.ratio else float, ends)
        return replace(self, low=low, high=high)


@dataclass(frozen=True)
class Measured:
    """All points of a reading; where these do not settle it, `missing` says what would, and `command` how."""

    points: tuple[Point, ...] = ()
    unit: str = ""  # parameters, bytes, share, days, ...
    missing: str = ""
    incomplete: str = ""  # points that the claim speaks of and that are not there
    scope: str = ""  # conditions of all points that the claim does not name
    testable: bool = True
    origin: str = ""  # of values that are not counted, timed or trained here: extrapolated, stated in a paper
    command: str = ""
    options: str = ""  # of the audit itself, with which it would measure what is missing
    note: str = ""  # what a reader must know of the numbers


def shown(value: object) -> str:
    """A condition's value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def conditions(where: Where) -> str:
    """`length 64, batch 8`."""
    return ", ".join(f"{key} {shown(value)}" for key, value in where.items())


class Verdict(Enum):
    """The verdict on a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    HOLDS_WHERE = "holds only where"
    NOT_REPRODUCED = "not reproduced"
    REPRODUCED = "reproduced"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"


SETTLED = (Verdict.CONFIRMED, Verdict.REFUTED, Verdict.HOLDS_WHERE)


@dataclass(frozen=True)
class Settled:
    """A verdict with its range or reason."""

    verdict: Verdict
    text: str = ""

    def __str__(self) -> str:
        if not self.text:
            return self.verdict.value
        if self.verdict is Verdict.HOLDS_WHERE:
            return f"{self.verdict.value} {self.text}"
        return f"{self.verdict.value} ({self.text})"


def of_claim(settled: list[Settled]) -> Settled:
    """The verdict of the deciding reading, or of all scores of a table: the first one of `Verdict`, and the count of each."""
    if len(settled) == 1:
        return settled[0]
    counts = [(verdict, sum(each.verdict is verdict for each in settled)) for verdict in Verdict]
    of_table = [(verdict, count) for verdict, count in counts if count]
    return Settled(of_table[0][0], ", ".join(f"{count} {verdict.value}" for verdict, count in of_table))


def of_reading(reading: Reading, measured: Measured) -> Settled:
    """Confirmed or refuted where all points say so; undecided where some that the claim speaks of are missing.

    ValueError where claimed values and points are not of one number.
    """
    if isinstance(reading, TableScore):
        return _of_table(reading, measured)
    settled = _of_points(reading, measured)
    if measured.incomplete and settled.verdict in SETTLED:
        return Settled(Verdict.UNDECIDED, f"{settled}; not measured: {measured.incomplete}")
    return settled


def _of_table(reading: TableScore, measured: Measured) -> Settled:
    if not measured.points or measured.missing:
        return Settled(Verdict.NOT_COMPARABLE if measured.points else Verdict.NOT_RUN, measured.missing)
    low, high = measured.points[0].interval
    if math.isinf(high):
        return Settled(Verdict.UNDECIDED, "only 1 seed, no interval")
    return Settled(Verdict.REPRODUCED if low <= reading.claimed <= high else Verdict.NOT_REPRODUCED)


def _of_points(reading: Reading, measured: Measured) -> Settled:
    if not measured.testable:
        return Settled(Verdict.NOT_TESTABLE, measured.missing)
    if not measured.points:
        return Settled(Verdict.UNDECIDED, f"needs {measured.missing}")
    found = dict(enumerate(holds(reading, point, value) for point, value in with_claimed(reading, measured)))
    true, false, open_ = ([measured.points[at] for at, held in found.items() if held is which] for which in (True, False, None))
    if len(true) == len(found):
        return Settled(Verdict.CONFIRMED, measured.scope)
    if len(false) == len(found):
        return Settled(Verdict.REFUTED, measured.scope)
    if true and len(found) > 1:
        undecided = f"; undecided where {where(open_, measured.points)}" if open_ else ""
        return Settled(Verdict.HOLDS_WHERE, where(true, measured.points) + undecided)
    also = [f"refuted where {where(false, measured.points)}"] if false else []
    also += [f"needs {measured.missing}"] if measured.missing else []
    return Settled(Verdict.UNDECIDED, "; ".join(also))


def with_claimed(reading: Reading, measured: Measured) -> list[tuple[Point, float]]:
    """Each point with the value that is claimed of it."""
    if not isinstance(reading.claimed, list):
        return [(point, reading.claimed) for point in measured.points]
    if measured.points and len(reading.claimed) != len(measured.points):
        raise ValueError(f"claimed: expected {len(measured.points)} values, one for each point, not {len(reading.claimed)}")
    return list(zip(measured.points, reading.claimed, strict=bool(measured.points)))


def holds(reading: Reading, point: Point, claimed: float) -> bool | None:
    """Whether the claim is true of the point; None where the interval leaves it open."""
    if reading.relation is Relation.better:  # refuted where nothing better by the margin is left, which more runs make so
        low, high = point.interval
        if high <= 0 or high < reading.margin:
            return False
        return True if low > 0 and point.value >= reading.margin else None
    if not isinstance(point.value, int | float) or isinstance(claimed, str):
        return bool(point.value == claimed)
    low, high = accepted(reading, claimed)
    if low <= point.interval[0] and point.interval[1] <= high:
        return True
    return False if point.interval[1] < low or high < point.interval[0] else None


def accepted(reading: Reading, claimed: float) -> tuple[float, float]:
    """Smallest and largest value of which the claim is true."""
    if reading.relation is Relation.no_difference:
        return -reading.margin, reading.margin
    slack = reading.tolerance * abs(claimed)
    low = -math.inf if reading.relation is Relation.at_most else claimed - slack
    return low, math.inf if reading.relation is Relation.at_least else claimed + slack


def where(selected: list[Point], points: tuple[Point, ...]) -> str:
    """`length ≥ 256`, `batch = 8, 16`, or the conditions of each chosen point, of the conditions that vary."""
    known = dict.fromkeys(key for point in points for key in point.where)
    keys = [key for key in known if key != PAIRS and len({str(point.where.get(key)) for point in points}) > 1]
    if len(keys) == 1:
        return _range(keys[0], [point.where.get(keys[0]) for point in selected], [point.where.get(keys[0]) for point in points])
    return "; ".join(conditions({key: point.where[key] for key in keys if key in point.where}) for point in selected)


def _range(key: str, selected: list[Any], values: list[Any]) -> str:
    names = ", ".join(map(shown, selected))
    if not all(isinstance(value, int | float) for value in values):
        return f"{key} {names}"
    ordered, chosen = sorted(values), sorted(selected)
    first, least, most = ordered.index(chosen[0]), shown(chosen[0]), shown(chosen[-1])
    if chosen == ordered[-len(chosen) :]:
        return f"{key} ≥ {least}"
    if chosen == ordered[first : first + len(chosen)]:
        return f"{key} ≤ {most}" if first == 0 else f"{key} from {least} to {most}" if len(chosen) > 1 else f"{key} = {names}"
    return f"{key} = {names}"


def corrected(reading: Reading, measured: Measured) -> Measured:
    """What was measured, each test with its interval at the confidence at which it must settle."""
    claimed = with_claimed(reading, measured)
    tests = {at: p_value(reading, point, value) for at, (point, value) in enumerate(claimed) if point.is_test}
    factors = dict(zip(tests, holm(list(tests.values())), strict=True))
    points = (
        point.at(1 - (1 - CONFIDENCE) / factors[at]) if at in factors else point for at, point in enumerate(measured.points)
    )
    return replace(measured, points=tuple(points))


def p_value(reading: Reading, point: Point, claimed: float) -> float:
    """The smallest p at which the point's interval settles what is claimed of it; 1 where it does so at none."""
    return smallest_p(lambda p: holds(reading, point.at(1 - p), claimed) is not None)
