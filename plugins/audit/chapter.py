"""Claims of papers and other sources, and the verdicts of the last `python -m harness audit`."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from harness.comparison.paired import grouped
from harness.document import DASH, Block, Cell, Picture, Section
from harness.plugins.audit.record import COMMANDS, Claim, Reading, Record
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle
from harness.plugins.shared.untrusted_json import json_of
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.reading.untrusted import command_of
from harness.reports.writing import formats
from harness.reports.writing.formats import SHOWN_VALUES, Chapter, bullets, code, escape, listed

HEADING = "Claims and measurements"
INTRO = """\
{count} claims, audited on {days} ({machines}): {verdicts}. Counts are at the model size of each claim. A claim with several
readings has a row for each: one decides, those in *italics* explain. Values *stated* in a paper are quoted, not measured here.
The tests of a reading are one family: 95 % intervals for one test, wider ones for several (Holm)."""


def chapter(study: Study) -> Chapter:
    """A table for each source; empty without an audit. InputError for a record of another kind."""
    if study.options.audit is None:
        return Chapter()
    claims = json_of(study.options.audit, Record, "audit= (audit.json)", "the file that `python -m harness audit` wrote").claims
    intro = INTRO.format(
        count=len(claims),
        days=listed(
            sorted(f"{datetime.fromtimestamp(claim.time / 1000, tz=UTC):%Y-%m-%d}" for claim in claims), most=SHOWN_VALUES
        ),
        machines=listed((claim.machine for claim in claims), most=SHOWN_VALUES),
        verdicts=", ".join(f"{count} {text}" for text, count in Counter(claim.verdict for claim in claims).most_common()),
    )
    blocks: list[Block] = [intro]
    for source, of_source in grouped((claim.source, claim) for claim in claims).items():
        rows = [row for claim in of_source for row in _rows(claim)]
        table = formats.table(["claim", "claimed", "measured here", "verdict"], rows, left=4)
        blocks.append(Section(escape(source[:1].upper() + source[1:]), [table]))
    pictures, files = by_length(claims)
    after: list[Block] = [*pictures]
    readings = [reading for claim in claims for reading in claim.readings]
    notes = [escape(f"{reading.name}: {reading.note}") for reading in readings if reading.note]
    words = filter(None, (command_of(reading.command) for reading in readings))
    commands = [code(shlex.join(["python", "-m", *one])) for one in words]
    for heading, lines in (("How it was measured:", notes), (COMMANDS, commands)):
        after += [heading, *bullets(dict.fromkeys(lines))] if lines else []
    return Chapter([Section(HEADING, [*blocks, Section("", after)])], files)


def _rows(claim: Claim) -> list[list[Cell | str]]:
    """One for the claim, and one below it for each of several readings; those that explain are in italics."""
    readings = claim.readings
    conditions = f"({escape(claim.conditions)})" if claim.conditions else ""
    text, verdict = escape(claim.claim), escape(claim.text)
    if len(readings) == 1:
        return [[Cell(text, change=conditions), escape(readings[0].claimed), _measured(readings[0]), verdict]]
    rows: list[list[Cell | str]] = [[Cell(f"**{text}**", change=conditions), "", "", f"**{verdict}**"]]
    for reading in readings:
        cells = [escape(reading.name), escape(reading.claimed), _measured(reading)]
        rows.append([*(f"*{cell}*" for cell in cells), ""] if reading.beside else [*cells, escape(reading.verdict)])
    return rows


def _measured(reading: Reading) -> str:
    family = f"; {reading.family}" if reading.family else ""
    return DASH if reading.measured == "-" else escape(reading.measured + family)


FEWEST = 3
"""Lengths of a reading that make a curve."""

KINDS = {"flops": "counted", "speed": "timed"}
"""Kind of measuring -> the title of its panel."""

CAPTION = "{claim}: relative change by length; bars are 95 % intervals, the dotted line is the claimed value"


def by_length(claims: list[Claim]) -> tuple[list[Picture], dict[str, plots.Picture]]:
    """Pictures and their files, one for each claim with a curve.

    Drawn are the readings with a relative change at several lengths, timed ones at two or more where there are any.
    """
    pictures = {}
    for claim in claims:
        shares = [reading for reading in claim.readings if not reading.beside and reading.unit == "share"]
        curves = [reading for reading in shares if _line(reading)]
        if any(len(_line(reading)) >= FEWEST for reading in curves):
            name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"claim_{claim.name}.svg")
            pictures[name] = CAPTION.format(claim=escape(claim.claim)), panels, curves
    return plots.drawn(pictures)


def _line(reading: Reading) -> dict[float, list[float]]:
    """Length -> value and both ends, of points with numbers."""
    points = [(*point.where.values(), point.value, *point.interval) for point in reading.points if {*point.where} == {"length"}]
    numbers = [[one for one in parts if isinstance(one, int | float) and not isinstance(one, bool)] for parts in points]
    line = {length: values for length, *values in numbers if len(values) == 3}
    return line if len(line) > 1 else {}


def panels(readings: list[Reading]) -> Figure | None:
    """One for what is counted and one for what is timed; None without a curve."""
    groups = {kind: {reading.name: reading for reading in readings if reading.measure == kind} for kind in KINDS}

    def draw(panel: Axes, kind: str, of_kind: Mapping[ArmStyle, Reading]) -> None:
        for arm, reading in of_kind.items():
            line = _line(reading)
            values = [value for value, _, _ in line.values()]
            bars = [[value - low, high - value] for value, low, high in line.values()]
            style = arm.line_and_marker | {"markersize": 5, "capsize": 2, "label": arm.label}
            panel.errorbar(list(line), values, yerr=np.transpose(bars), **style)
            if isinstance(reading.claimed_number, int | float):
                panel.axhline(reading.claimed_number, color="grey", linestyle=":")
        panel.set(xscale="log", xlabel="length (tokens)", ylabel="change", title=KINDS[kind])
        plots.ticks_at_lengths(panel, sorted({length for reading in of_kind.values() for length in _line(reading)}))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))

    drawn = {kind: of_kind for kind, of_kind in groups.items() if of_kind}
    labels = ["", *(reading.name for reading in readings)]  # none is the baseline
    return plots.panels(labels, drawn, draw, wide=4.2, high=3.6, most=2, margin=2.6)


CHAPTER = Added(chapter, before=timing.chapter, order=6)
