"""The heat map of a complete factorial design: main effects on the diagonal, interactions of two changes below it."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.comparison import factorial
from reports.comparison.compare import Comparison
from reports.comparison.factorial import INTERACTION, MAIN, Design
from reports.comparison.section import HEADLINE
from reports.comparison.statistics import Change
from reports.writing import formats, plots
from reports.writing.formats import POINTS
from reports.writing.plots import grid
from reports.writing.short_names import short_names
from reports.writing.verdicts import MARKS

LEAST = 1.0
"""Points at which the colours end at least: smaller effects look small."""
DARK = 0.179
"""Relative luminance (WCAG 2.1) below which white text has the higher contrast."""
COLOURS = "PuOr"
"""Of Brewer's diverging scales one that colour-blind readers can tell apart; sign and size are also written in every cell."""
CELL = 0.95
Cells = dict[tuple[str, str], Change]
"""(row, column) -> effect."""


def cells(one: Design) -> Cells:
    """Main effects as (name, name), interactions as (later, earlier name); empty for an incomplete design, or of one seed."""
    effects = [effect for effect in factorial.effects(one) if effect.kind in (MAIN, INTERACTION)]
    changes = factorial.changes(one, HEADLINE, factorial.effects(one))
    found = {(effect.factors[-1], effect.factors[0]): changes[effect.key] for effect in effects}
    return {place: change for place, change in found.items() if change and change.interval}


def heat_map(comparison: Comparison, designs: list[Design]) -> Figure | None:
    """One panel a task, all of one scale of colours; None where no design is complete."""
    panels = [(one, found) for one in designs if (found := cells(one))]
    if not panels:
        return None
    most = max(len(one.factors) for one, _ in panels)
    names = max(len(name) for one, _ in panels for name in short_names(one.factors).values()) * plots.LEGEND_LETTER + 0.6
    figure, axes = grid(len(panels), wide=CELL * most + names, high=0.42 * most + 0.9, most=2, margin=0)
    reach = max(LEAST, *(abs(change.absolute) * POINTS for _, found in panels for change in found.values()))
    titles = plots.panel_names(comparison)
    for panel, (one, found) in zip(axes, panels, strict=True):
        _panel(panel, one.factors, found, reach)
        panel.set_title(f"{titles[comparison.sections.index(one.section)]}, score (points)")
    return figure


def _panel(axes: Axes, factors: tuple[str, ...], found: Cells, reach: float) -> None:
    values = np.full((len(factors), len(factors)), np.nan)
    for (row, column), change in found.items():
        values[factors.index(row), factors.index(column)] = change.absolute * POINTS
    edges = np.arange(len(factors) + 1) - 0.5
    mesh = axes.pcolormesh(edges, edges, values, cmap=COLOURS, vmin=-reach, vmax=reach, edgecolors="white", linewidth=1.5)
    for (row, column), change in found.items():
        place = (factors.index(column), factors.index(row))
        dark = _luminance(mesh.to_rgba(change.absolute * POINTS)) < DARK
        axes.text(*place, _text(change), ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axes.set_xticks(range(len(factors)), [f"{place}" for place in range(1, len(factors) + 1)])
    axes.set_yticks(range(len(factors)), [f"{name}  {place}" for place, name in enumerate(short_names(factors).values(), 1)])
    axes.set_ylim(len(factors) - 0.5, -0.5)
    axes.grid(False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _luminance(colour: tuple[float, ...]) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def _text(change: Change) -> str:
    """`+1.2 ▲`: points, and the mark of its verdict."""
    number = formats.signed(change.absolute * POINTS, 1)
    return f"{number} {MARKS.get(change.verdict, '').partition(' ')[0]}".rstrip()
