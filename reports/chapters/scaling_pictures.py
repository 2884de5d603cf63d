"""Pictures of cost by length of the text: logarithmic axes, one panel a quantity, one picture a device."""

import math

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from harness import metrics
from reports.comparison.growth import Group, Replicates, centres
from reports.writing.formats import prefix
from reports.writing.plots import ArmStyle, arm_styles, grid, handle, legend

Styles = dict[str, ArmStyle]
NAMED = 6
"""Up to so many crossovers of a panel have their length written beside them."""
PREFIXED = {"bytes": "B", "FLOP": "FLOP"}
FAR = 1000
"""Largest over smallest value from which the axis of values has a tick in every power of ten alone."""


def panels(labels: list[str], group: Group) -> Figure | None:
    """All quantities of a device that have a positive value; None without one. `labels` are the report's, for the styles."""
    styles = arm_styles(labels)
    lines = {quantity: {label: centres(points) for label, points in rows.items()} for quantity, rows in group.values.items()}
    lines = {quantity: {label: line for label, line in rows.items() if line} for quantity, rows in lines.items()}
    lines = {quantity: rows for quantity, rows in lines.items() if rows}
    if not lines:
        return None
    figure, axes = grid(len(lines), wide=4.0, high=3.3, most=2)
    for panel, (quantity, rows) in zip(axes, lines.items(), strict=True):
        _panel(panel, group, quantity, rows, styles)
    figure.suptitle(f"{group.section.task}: {group.hardware}", fontsize=10)
    drawn = {label for rows in lines.values() for label in rows}
    legend(figure, [handle(styles[label], line=True, marked=True) for label in labels if label in drawn])
    return figure


def _panel(axes: Axes, group: Group, quantity: str, rows: dict[str, dict[int, float]], styles: Styles) -> None:
    metric = metrics.get(quantity)
    values = [value for line in rows.values() for value in line.values()]
    factor, letter = prefix(max(values)) if metric.unit in PREFIXED else (1.0, "")
    for label, line in rows.items():
        _line(axes, line, group.values[quantity][label], factor, styles[label]).set_label(label)
    axes.set(xscale="log", yscale="log", xlabel="length (tokens)")
    axes.set(ylabel=f"{metric.title.removesuffix(' by length')} ({letter}{PREFIXED.get(metric.unit, metric.unit)})")
    lengths = sorted({length for line in rows.values() for length in line})
    axes.xaxis.set_major_locator(FixedLocator(lengths[:: math.ceil(len(lengths) / 8)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(values) / min(values) < FAR else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    _mark(axes, group, quantity, rows, (factor, styles))


def _line(axes: Axes, line: dict[int, float], points: Replicates, factor: float, arm: ArmStyle) -> ErrorbarContainer:
    lengths, middles = list(line), list(line.values())
    below = [max(0.0, line[length] - min(points[length])) / factor for length in lengths]
    above = [max(0.0, max(points[length]) - line[length]) / factor for length in lengths]
    bars = [below, above] if any(len(points[length]) > 1 for length in lengths) else None
    size, front = (9, 4) if arm.marker == "*" else (5, 3)
    style = {"color": arm.colour, "linestyle": arm.line, "marker": arm.marker, "markersize": size, "linewidth": 1.3}
    style |= {"markeredgecolor": "white", "markeredgewidth": 0.3, "elinewidth": 0.9, "capsize": 2, "zorder": front}
    return axes.errorbar(lengths, [value / factor for value in middles], bars, **style)


def _mark(axes: Axes, group: Group, quantity: str, rows: dict[str, dict[int, float]], drawn: tuple[float, Styles]) -> None:
    """A ring at every crossover, its length beside it where there are few; none where no length tells the two apart."""
    factor, styles = drawn
    races = {label: race for label in rows if (race := group.race(quantity, label)) and len(race.unclear) < len(race.lengths)}
    found = [(label, crossing.length) for label, race in races.items() for crossing in race.crossings]
    for label, length in found:
        height = _between(rows[label], length) / factor
        ring = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": styles[label].colour}
        axes.plot([length], [height], linestyle="None", zorder=5, markeredgewidth=1.3, **ring)
        if len(found) <= NAMED:
            place = {"xytext": (7, -11), "textcoords": "offset points", "fontsize": 7.5}
            axes.annotate(f"{length:,.0f}", (length, height), color=styles[label].colour, **place)


def _between(line: dict[int, float], length: float) -> float:
    """The value at a length between measured ones, straight on logarithmic axes."""
    before = max(known for known in line if known <= length * (1 + 1e-9))
    after = min(known for known in line if known >= length * (1 - 1e-9))
    if before == after:
        return line[before]
    share = math.log(length / before) / math.log(after / before)
    return line[before] ** (1 - share) * line[after] ** share
