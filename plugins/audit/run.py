"""Settles claims one after the other: each with its verdict as text, and as the record that the report shows."""

import functools
import math
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from harness import records
from harness.comparison.runs import Run
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware import facts
from harness.paths import audit_file, conf_directory
from harness.plugins.audit import verdicts
from harness.plugins.audit.claims import Claim, Reading, Relation
from harness.plugins.audit.measures import Instruments, Shapes, measure
from harness.plugins.audit.verdicts import SETTLED, Measured, Point, Settled, Verdict, conditions, shown
from harness.tracking.run_log import now_ms
from harness.tracking.trackers import complaint

PREFIXES = {"bytes": ((1e9, "GB"), (1e6, "MB")), "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"))}

SIGNS = {Relation.equal: "", Relation.at_most: "≤ ", Relation.at_least: "≥ "}


@dataclass(frozen=True)
class Line:
    """A reading of a claim with what was measured."""

    name: str
    reading: Reading
    measured: Measured
    settled: Settled

    @property
    def claimed(self) -> str:
        """The claimed value in the unit of what is measured, with its tolerance."""
        reading = self.reading
        if reading.relation in (Relation.better, Relation.no_difference):
            margin = f" (margin {number(reading.margin, self.measured.unit).lstrip('+')})" if reading.margin else ""
            return reading.relation.value.replace("_", " ") + margin
        if reading.claimed is None:
            return "-"
        values = reading.claimed if isinstance(reading.claimed, list) else [reading.claimed]
        tolerance = f" ± {100 * reading.tolerance:g} %" if reading.tolerance else ""
        return SIGNS[reading.relation] + ", ".join(number(value, self.measured.unit) for value in values) + tolerance

    @property
    def value(self) -> str:
        """What was measured, with where each value holds; a dash without a point."""
        points = self.measured.points
        if not points:
            return "-"
        values = ", ".join(point_text(point, points, self.measured.unit) for point in points)
        return f"{self.measured.origin}: {values}" if self.measured.origin else values

    @property
    def is_open(self) -> bool:
        """Whether more would have to be measured."""
        return self.settled.verdict is Verdict.UNDECIDED and not self.reading.beside

    @property
    def tests(self) -> int:
        """The number of its tests, which are one family."""
        return sum(point.is_test for point in self.measured.points)

    @property
    def family(self) -> str:
        """For how many tests its intervals are corrected; empty for one."""
        return f"{self.tests} tests in one family" if self.tests > 1 else ""

    def to_json(self) -> dict[str, object]:
        """With all points."""
        points = []
        for point in self.measured.points:
            interval = [None if isinstance(end, float) and not math.isfinite(end) else end for end in point.interval]
            points.append({"value": point.value, "interval": interval, "where": dict(point.where)})
        return {
            "name": self.name,
            "measure": self.reading.measure,
            "beside": self.reading.beside,
            "claimed": self.claimed,
            "claimed_number": self.reading.claimed,
            "measured": self.value,
            "verdict": str(self.settled),
            "note": self.measured.note,
            "family": self.family,
            "command": self.measured.command if self.is_open else "",
            "unit": self.measured.unit,
            "points": points,
        }


@dataclass(frozen=True)
class Row:
    """A claim with all of its readings."""

    claim: Claim
    lines: tuple[Line, ...]

    @property
    def deciding(self) -> Line:
        """The reading that decides the claim."""
        return next(line for line in self.lines if not line.reading.beside)

    @property
    def settled(self) -> Settled:
        """The verdict of the claim."""
        return self.deciding.settled

    @property
    def verdict(self) -> str:
        """With what explains it, where it is settled."""
        note = f" ({self.claim.note})" if self.claim.note and self.settled.verdict in SETTLED else ""
        return f"{self.settled}{note}"

    def to_json(self) -> dict[str, object]:
        """With all readings."""
        claim = self.claim
        return {
            "name": claim.name,
            "claim": claim.text,
            "source": claim.source,
            "conditions": claim.conditions,
            "note": claim.note,
            "verdict": self.settled.verdict.value,
            "text": self.verdict,
            "readings": [line.to_json() for line in self.lines],
        }


def texts(row: Row) -> tuple[str, list[str]]:
    """The claim with its verdict's reason, and a text for each reading: what was measured, and what was claimed of it.

    A reading that explains and does not decide is in brackets; a claimed value is stated where it differs from the one before.
    """
    reasons = [row.settled.text] if row.settled.text else []
    reasons += [row.claim.note] if row.claim.note and row.settled.verdict in SETTLED else []
    below, claimed = [], None
    for line in row.lines:
        parts = [line.value if line.measured.points or line.reading.beside else line.settled.text]
        parts += [line.family] if line.family else []
        parts += [f"claimed {line.claimed}"] if line.claimed not in (claimed, "-") else []
        text = (f"{line.name}: " if len(row.lines) > 1 else "") + "; ".join(parts)
        if len(row.lines) > 1 and line.measured.points and not line.reading.beside:
            text += f" → {line.settled}"
        below.append(f"[{text}]" if line.reading.beside else text)
        claimed = line.claimed
    return " · ".join([row.claim.text, *reasons]), below


def point_text(point: Point, points: tuple[Point, ...], unit: str) -> str:
    """`−86.4 % (length 64)`, with its interval where it has one; after the first point without the name of the condition."""
    text = number(point.value, unit)
    low, high = point.interval
    if low != high and abs(low) != float("inf"):
        text += f" [{number(low, unit).split()[0]}, {number(high, unit).split()[0]}]"
    keys = [key for key in point.where if len(points) == 1 or len({str(one.where.get(key)) for one in points}) > 1]
    if len(keys) == 1 and point is not points[0] and keys[0] in points[0].where:
        return f"{text} ({shown(point.where[keys[0]])})"
    return f"{text} ({conditions({key: point.where[key] for key in keys})})" if keys else text


def number(value: object, unit: str) -> str:
    """With thousands separators, in percent, or with the prefix of its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(getattr(value, "value", value))
    if unit == "share":
        return f"{100 * value:+.1f} %"
    if unit == "score":
        return f"{100 * value:+.1f} points"
    for factor, name in PREFIXES.get(unit, ()):
        if abs(value) >= factor:
            return f"{value / factor:,.4g} {name}"
    text = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.3g}"
    return text if unit in ("parameters", "1", "") else f"{text} {unit}"


def instruments(config_dir: str | None, timed: bool, vocab_file: str | None, uri: str | None, output: str) -> Instruments:
    """The tracking store is read when the first claim needs it."""
    return Instruments(Shapes(config_dir), timed, vocab_file, functools.cache(functools.partial(_finished_runs, uri, output)))


def _finished_runs(uri: str | None, output: str) -> list[Run]:
    from harness.tracking.mlflow_store import MlflowException, finished_runs  # MLflow takes seconds

    try:
        return finished_runs(uri, output)
    except (MlflowException, ImportError) as error:
        raise InputError(f"MLflow {complaint(error)}") from error


def measured(claim: Claim, tools: Instruments) -> list[Measured]:
    """What is measured for each reading; InputError, naming file and reading, for what cannot be measured."""
    return [_measured(claim, name, tools) for name in claim.readings]


def _measured(claim: Claim, name: str, tools: Instruments) -> Measured:
    reading = claim.readings[name]
    try:
        measured = measure(reading, tools)
        verdicts.with_claimed(reading, measured)
    except ValueError as error:
        raise InputError(f"{claim.file}: claims.{claim.name}.readings.{name}: {error}") from error
    if not measured.options:
        return measured
    config_dir = tools.shapes.config_dir
    found_by_name = any(claim.file.is_relative_to(folder) for folder in (conf_directory(), config_dir) if folder)
    more = ["--config-dir", config_dir] if config_dir else []
    claimed = f"claims={claim.name if found_by_name else claim.file}"
    return replace(measured, command=shlex.join(["python", "-m", "harness", "audit", *more, claimed, measured.options]))


def settle(claim: Claim, found: list[Measured]) -> Row:
    """The claim with its verdict, after Holm's correction over the points of each reading."""
    lines = []
    for (name, reading), measured in zip(claim.readings.items(), found, strict=True):
        corrected = verdicts.corrected(reading, measured)
        lines.append(Line(name, reading, corrected, verdicts.of_reading(reading, corrected)))
    return Row(claim, tuple(lines))


def write(rows: list[Row], output: str, keep_others: bool) -> Path:
    """The path that was written; `keep_others` keeps the claims that were not audited now, as an earlier audit found them."""
    path, now = audit_file(output), now_ms()
    machine = f"{facts.device_name(HardwareConfig())}, torch {torch.__version__}"
    claims = {(row.claim.source, row.claim.name): row.to_json() | {"time": now, "machine": machine} for row in rows}
    if keep_others and path.is_file():
        earlier = records.read(path, dict[str, list[dict[str, Any]]])["claims"]
        claims = {(claim["source"], claim["name"]): claim for claim in earlier} | claims
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, {"claims": list(claims.values())})
    return path
