"""Claims of papers and other sources, and the verdicts of the last `python -m harness audit`."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from reports.comparison.compare import Study
from reports.errors import ReportError
from reports.writing import formats, plots
from reports.writing.formats import DASH, Chapter, escape
from reports.writing.plots import ArmStyle, arm_styles, grid, handle, legend

HEADING = "## Claims and what is measured here"
STUDIES = "Studies that would settle the undecided ones:"
INTRO = """\
{count} claims, audited on {days} ({machines}): {verdicts}. Counts are those at the dimensions of each claim. A claim that can
be read in several ways has a row for each reading: one decides, those in *italics* explain. The tests of one reading are one
family: their intervals are of 95 % for one test, of more for several (Holm)."""


def chapter(study: Study) -> Chapter:
    """A table for each source; empty where no audit was made. ReportError for a record that cannot be read."""
    if study.options.audit is None:
        return Chapter()
    claims = _read(study.options.audit)
    count = Counter(claim["verdict"] for claim in claims)
    intro = INTRO.format(
        count=len(claims),
        days=formats.listed(datetime.fromtimestamp(claim["time"] / 1000, tz=UTC).date().isoformat() for claim in claims),
        machines=formats.listed(claim["machine"] for claim in claims),
        verdicts=", ".join(f"{number} {verdict}" for verdict, number in count.most_common()),
    )
    tables = []
    for source in dict.fromkeys(claim["source"] for claim in claims):
        rows = [row for claim in claims if claim["source"] == source for row in _rows(claim)]
        head = ["claim", "claimed", "measured here", "verdict"]
        tables += [f"### {escape(source[:1].upper() + source[1:])}", formats.table(head, rows, left=4)]
    captions, files = by_length(claims)
    after = [*_list("How it was measured:", _notes(claims)), *_list(STUDIES, _studies(claims))]
    return Chapter([HEADING, intro, *tables, *plots.pictured(captions, files), *after], files)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        claims = json.loads(path.read_text())["claims"]
        return [claim | {key: claim[key] for key in ("time", "machine", "source", "readings")} for claim in claims]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"--audit {str(path)!r}: expected the file that `python -m harness audit` wrote") from error


def _rows(claim: dict[str, Any]) -> list[list[str]]:
    """One for the claim, and one below it for each of several readings."""
    readings = claim["readings"]
    conditions = f"<br>({escape(claim['conditions'])})" if claim["conditions"] else ""
    text, verdict = escape(claim["claim"]), escape(claim["text"])
    if len(readings) == 1:
        return [[text + conditions, escape(readings[0]["claimed"]), _measured(readings[0]), verdict]]
    below = [_reading(reading) for reading in readings]
    return [[f"**{text}**{conditions}", "", "", f"**{verdict}**"], *below]


def _reading(reading: dict[str, Any]) -> list[str]:
    cells = [escape(reading["name"]), escape(reading["claimed"]), _measured(reading)]
    return [*(f"*{cell}*" for cell in cells), ""] if reading["beside"] else [*cells, escape(reading["verdict"])]


def _measured(reading: dict[str, Any]) -> str:
    family = f"; {reading['family']}" if reading.get("family") else ""
    return DASH if reading["measured"] == "-" else escape(reading["measured"] + family)


def _notes(claims: list[dict[str, Any]]) -> list[str]:
    found = (f"{one['name']}: {one['note']}" for claim in claims for one in claim["readings"] if one["note"])
    return [escape(note) for note in dict.fromkeys(found)]


def _studies(claims: list[dict[str, Any]]) -> list[str]:
    commands = dict.fromkeys(reading["command"] for claim in claims for reading in claim["readings"] if reading["command"])
    return [f"`{command}`" for command in commands]


def _list(heading: str, lines: list[str]) -> list[str]:
    return [f"{heading}\n\n" + "\n".join(f"- {line}" for line in lines)] if lines else []


FEWEST = 3
"""Lengths of a reading that make a curve."""

KINDS = {"flops": "counted", "speed": "timed"}
"""Kind of measuring -> the title of its panel."""

CAPTION = "{claim}: the relative change by length; bars are 95 % intervals, the dotted line is what is claimed"


def by_length(claims: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Captions and pictures by name of the file, one for each claim with a curve."""
    names = {re.sub(r"[^A-Za-z0-9_.-]+", "_", f"claim_{claim['name']}.svg"): claim for claim in claims}
    files = plots.drawn({name: (panels, _readings(claim)) for name, claim in names.items()})
    return {name: CAPTION.format(claim=escape(claim["claim"])) for name, claim in names.items()}, files


def _readings(claim: dict[str, Any]) -> list[dict[str, Any]]:
    """Those with a relative change at several lengths, and timed ones at two or more where there are any."""
    found = [one for one in claim["readings"] if not one["beside"] and one.get("unit") == "share" and _line(one)]
    return found if any(len(_line(one)) >= FEWEST for one in found) else []


def _line(reading: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Length -> point."""
    points = reading.get("points", [])
    line = {point["where"]["length"]: point for point in points if set(point["where"]) == {"length"}}
    return line if len(line) > 1 else {}


def panels(readings: list[dict[str, Any]]) -> Figure | None:
    """One for what is counted and one for what is timed; None without a curve."""
    groups = {kind: [one for one in readings if one["measure"] == kind] for kind in KINDS}
    groups = {kind: ones for kind, ones in groups.items() if ones}
    if not groups:
        return None
    styles = arm_styles(["", *(one["name"] for one in readings)])
    figure, axes = grid(len(groups), wide=4.2, high=3.6, most=2, margin=2.6)
    for panel, (kind, ones) in zip(axes, groups.items(), strict=True):
        _panel(panel, ones, styles)
        panel.set_title(KINDS[kind])
    legend(figure, [handle(styles[one["name"]], line=True, marked=True) for one in readings])
    return figure


def _panel(axes: Axes, readings: list[dict[str, Any]], styles: dict[str, ArmStyle]) -> None:
    for one in readings:
        line, style = _line(one), styles[one["name"]]
        values = [point["value"] for point in line.values()]
        ends = zip(values, (point["interval"] for point in line.values()), strict=True)
        bars = [(value - low, high - value) for value, (low, high) in ends]
        look = {"color": style.colour, "marker": style.marker, "linestyle": style.line, "markersize": 5, "capsize": 2}
        axes.errorbar(list(line), values, yerr=list(zip(*bars, strict=True)), label=one["name"], **look)
        if isinstance(one.get("claimed_number"), int | float):
            axes.axhline(one["claimed_number"], color="grey", linestyle=":")
    lengths = sorted({length for one in readings for length in _line(one)})
    axes.set(xscale="log", xlabel="length (tokens)", ylabel="change")
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
