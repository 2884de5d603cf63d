"""Claims and their verdicts as text, and as the record that the report shows."""

from dataclasses import dataclass

from harness.audit.claims import Claim
from harness.audit.kinds import Reading, Relation
from harness.audit.measured import Measured, Point, conditions
from harness.audit.verdicts import SETTLED, Settled, Verdict

MOST = 4
"""Points that are shown each; of more the first and the last."""

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
        chosen = points if len(points) <= MOST else (points[0], points[-1])
        texts = [point_text(point, points, self.measured.unit) for point in chosen]
        return ", ".join(texts) if chosen is points else " ... ".join(texts)

    @property
    def is_open(self) -> bool:
        """Whether more would have to be measured."""
        return self.settled.verdict is Verdict.UNDECIDED

    def to_json(self) -> dict[str, object]:
        """With all points."""
        points = [{"value": one.value, "interval": one.interval, "where": dict(one.where)} for one in self.measured.points]
        return {
            "name": self.name,
            "measure": self.reading.measure,
            "beside": self.reading.beside,
            "claimed": self.claimed,
            "measured": self.value,
            "verdict": str(self.settled),
            "note": self.measured.note,
            "command": self.measured.command if self.is_open else "",
            "unit": self.measured.unit,
            "points": [point | {"interval": [_finite(end) for end in point["interval"]]} for point in points],
        }


@dataclass(frozen=True)
class Row:
    """A claim with all of its readings."""

    claim: Claim
    settled: Settled
    lines: tuple[Line, ...]

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


def cells(row: Row) -> list[tuple[str, str, str, str]]:
    """Claim, claimed, measured, verdict; a claim of several readings has a line for each below it."""
    if len(row.lines) == 1:
        return [(row.claim.text, row.lines[0].claimed, row.lines[0].value, row.verdict)]
    below = [(f"  {line.name}", line.claimed, line.value, _beside(line)) for line in row.lines]
    return [(row.claim.text, "", "", row.verdict), *below]


def _beside(line: Line) -> str:
    return f"beside: {line.settled}" if line.reading.beside else str(line.settled)


def point_text(point: Point, points: tuple[Point, ...], unit: str) -> str:
    """`−86.4 % (length 64)`, with its interval where it has one."""
    text = number(point.value, unit)
    low, high = point.interval
    if low != high and abs(low) != float("inf"):
        text += f" [{number(low, unit).split()[0]}, {number(high, unit).split()[0]}]"
    keys = [key for key in point.where if len(points) == 1 or len({str(one.where.get(key)) for one in points}) > 1]
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


def _finite(value: object) -> object:
    return value if not isinstance(value, float) or abs(value) != float("inf") else None
