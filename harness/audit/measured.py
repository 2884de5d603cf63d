"""What a reading of a claim measures: points with where they hold, or why there are none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Where = Mapping[str, object]
"""Condition -> its value, such as {"length": 128}."""


@dataclass(frozen=True)
class Point:
    """One value with its interval, which is the value itself where it is counted."""

    value: object  # a number, or what is only equal or not
    where: Where
    low: float = math.nan
    high: float = math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Of a counted value the value twice."""
        return (self.value, self.value) if math.isnan(self.low) else (self.low, self.high)


@dataclass(frozen=True)
class Measured:
    """All points of a reading; where these do not settle it, `missing` says what would, and `command` how."""

    points: tuple[Point, ...] = ()
    unit: str = ""  # parameters, bytes, share, days, ...
    missing: str = ""
    incomplete: str = ""  # points that the claim speaks of and that are not there
    scope: str = ""  # conditions of all points that the claim does not name
    testable: bool = True
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
