"""The record of an audit, written by the command and read by the chapter, also from a stranger's archive."""

from dataclasses import field
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from harness.plugins.shared.untrusted_json import PART, Entries, Line, Time

COMMANDS = "Commands that would settle undecided claims:"

Value = float | Line | bool | None


@dataclass(config=PART)
class Point:
    """A measured value under one condition, such as a length."""

    value: Value
    interval: tuple[Value, Value]
    where: dict[Line, Value]


@dataclass(config=PART)
class Reading:
    """One way to read a claim."""

    name: Line
    beside: bool
    claimed: Line
    measured: Line
    verdict: Line
    command: Line
    note: Line
    family: Line = ""
    unit: Line = ""
    measure: Line = ""
    claimed_number: Any = None
    points: Entries[Point] = field(default_factory=list)


@dataclass(config=PART)
class Claim:
    """A claim with all of its readings."""

    name: Line
    claim: Line
    source: Line
    conditions: Line
    verdict: Line
    text: Line
    time: Time
    machine: Line
    readings: Annotated[Entries[Reading], Field(min_length=1)]
    note: Line = ""
    reason: Line = ""


@dataclass(config=PART)
class Record:
    """An audit."""

    claims: Entries[Claim]
