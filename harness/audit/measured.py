"""What a reading of a claim measures: points with where they hold, or why there are none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.paired import Difference

Where = Mapping[str, object]
"""Condition -> its value, such as {"length": 128}."""


PAIRS = "pairs"
"""How many runs a point compares: shown beside its conditions, and none itself."""


@dataclass(frozen=True)
class Point:
    """One value with its interval of 95 % or, where it is one of several tests, of more; counted, it is the value itself."""

    value: object  # a number, or what is only equal or not
    where: Where
    low: float = math.nan
    high: float = math.nan
    difference: Difference | None = None  # whose interval it is; None without a test
    ratio: bool = False  # a relative change, whose difference is one of logarithms

    @property
    def interval(self) -> tuple[float, float]:
        """Of a counted value the value twice."""
        return (self.value, self.value) if math.isnan(self.low) else (self.low, self.high)

    @property
    def is_test(self) -> bool:
        """Whether its interval is that of a statistical test, and may mislead by chance."""
        return self.difference is not None and all(map(math.isfinite, self.interval))

    def at(self, confidence: float) -> "Point":
        """A copy whose interval is at this confidence."""
        low, high = map(math.expm1 if self.ratio else float, self.difference.interval_at(confidence))
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
    extrapolated: bool = False
    command: str = ""
    note: str = ""  # what a reader must know of the numbers


def counted(value: object, unit: str, **where: object) -> Measured:
    """One exact value."""
    return Measured((Point(value, where),), unit)


def shown(value: object) -> str:
    """A condition's value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def conditions(where: Where) -> str:
    """`length 64, batch 8`."""
    return ", ".join(f"{key} {shown(value)}" for key, value in where.items())
