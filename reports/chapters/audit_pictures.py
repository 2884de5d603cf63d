"""Pictures of audited claims whose truth depends on the length of the text: what each reading measures at every length."""

import re
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from reports.writing import plots
from reports.writing.formats import escape
from reports.writing.plots import ArmStyle, arm_styles, grid, handle, legend

FEWEST = 3
"""Lengths of a reading that make a curve."""

KINDS = {"flops": "counted", "speed": "timed"}
"""Kind of measuring -> the title of its panel."""

CAPTION = "{claim}: the relative change by length; bars are 95 % intervals, the dotted line is what is claimed"


def by_length(claims: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Captions and pictures by name of the file, one for each claim with a curve."""
    names = {re.sub(r"[^A-Za-z0-9_.-]+", "_", f"claim_{claim['name']}.svg"): claim for claim in claims}
    files = plots.drawn({name: plots.draw(panels, _readings(claim)) for name, claim in names.items()})
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
