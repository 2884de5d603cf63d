"""The chapter on cost by length of the text: tables of exponents and of crossovers, their picture, and the values as CSV."""

import math

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from harness import metrics
from harness.paired import CONFIDENCE
from reports.comparison.compare import Study
from reports.comparison.growth import Crossing, Group, PowerLaw, Race, Replicates, centres, fit, groups
from reports.writing import formats, plots
from reports.writing.formats import DASH, Chapter, escape, prefix
from reports.writing.plots import ArmStyle, arm_styles, grid, handle, legend
from reports.writing.tables import section_name

INTRO = """\
An exponent is the slope on logarithmic axes: 1 is linear in the length, 2 quadratic (0 and −1 for throughput in tokens). In
brackets is the {level:.0%} t interval over the lengths, one point a length (geometric mean of launches and seeds); counted
quantities have none. Cost is a + b T + c T^2, so one exponent only summarises the measured lengths: *last doubling* is the
exponent at the long end, and *off by* the largest distance of a length from the line."""
CROSSOVER = """\
Lengths at which an arm beats {baseline}, straight between measured lengths on logarithmic axes, up to {longest} tokens. In
brackets are the lengths at which the {level:.0%} interval of the ratio includes 1 (Welch's, over launches and seeds), for
what was measured more than once."""


def chapter(study: Study) -> Chapter:
    """Empty where no run measured a length."""
    comparison, found = study.comparison, groups(study)
    if not found:
        return Chapter()
    paragraphs, files = ["## Cost by length of the text", INTRO.format(level=CONFIDENCE)], {"scaling.csv": _csv(found)}
    for number, group in enumerate(found, 1):
        name = "scaling.svg" if len(found) == 1 else f"scaling_{number}.svg"
        files[name] = plots.draw(panels, comparison.labels, group)
        where = f"{section_name(comparison, group.section)}, {escape(group.hardware)}"
        paragraphs += [f"### By length: {where}", exponents(group), *_crossovers(group)]
        caption = f"Cost by length, {where}; bars reach from the least to the largest value, rings mark crossovers"
        paragraphs.append(f"![{caption}]({name})\n\n*{caption}.*")
    return Chapter(paragraphs, files)


def exponents(group: Group) -> str:
    """One row an arm, one column a quantity."""
    rows = [[escape(label), *(fit_text(_fit(group, quantity, label)) for quantity in group.values)] for label in group.labels]
    return formats.table(["arm", *(f"exponent of {_title(quantity)}" for quantity in group.values)], rows)


def _title(quantity: str) -> str:
    return metrics.get(quantity).title.removesuffix(" by length")


def _fit(group: Group, quantity: str, label: str) -> PowerLaw | None:
    return fit(group.values[quantity].get(label, {}), metrics.get(quantity).deterministic)


def fit_text(line: PowerLaw | None) -> str:
    """`1.42 [1.30, 1.54]`, and on a second line the exponent of the last doubling and how far off the line it is."""
    if line is None:
        return DASH
    interval = f" [{', '.join(formats.plain(end, 2) for end in line.interval)}]" if line.interval else ""
    begin, end = line.doubling
    where = "last doubling" if end == 2 * begin else f"{begin:,} to {end:,}"
    return (
        f"{formats.plain(line.exponent, 2)}{interval}<br>{where} {formats.plain(line.last, 2)}, off by {_share(line.deviation)}"
    )


def _share(deviation: float) -> str:
    return "0 %" if deviation < 1e-9 else f"{100 * deviation:.2g} %"


def _crossovers(group: Group) -> list[str]:
    others = [label for label in group.labels if label != group.baseline]
    races = {label: [group.race(quantity, label) for quantity in group.values] for label in others}
    races = {label: of_label for label, of_label in races.items() if any(of_label)}
    if not races:
        return []
    longest = max(one.lengths[-1] for of_label in races.values() for one in of_label if one)
    intro = CROSSOVER.format(baseline=escape(group.baseline), level=CONFIDENCE, longest=f"{longest:,}")
    rows = [[escape(label), *(race_text(one) if one else DASH for one in of_label)] for label, of_label in races.items()]
    return [intro, formats.table(["arm", *(f"wins in {_title(quantity)}" for quantity in group.values)], rows)]


def race_text(race: Race) -> str:
    """`from 742 [600, 900] on`, `never up to 4,096`, every stretch of an arm that wins and loses in turn."""
    first, last = race.lengths[0], race.lengths[-1]
    if not any(race.lead):
        return "equal at every length"
    if race.half and len(race.unclear) == len(race.lengths):
        return f"unclear: every interval from {first:,} to {last:,} includes 1"
    if race.crossings:
        return " and ".join(_stretches(race)) + _together(race)
    doubt = f" (unclear at {', '.join(f'{length:,}' for length in race.unclear)})" if race.unclear else ""
    return (f"from the shortest length on ({first:,})" if max(race.lead) > 0 else f"never up to {last:,}") + doubt


def _stretches(race: Race) -> list[str]:
    """Where it wins, in words."""
    stretches, begun = [], "" if race.lead[0] > 0 else None
    for crossing in race.crossings:
        place = crossing_text(crossing, race)
        if crossing.begins:
            begun = f"from {place}"
        else:
            stretches.append(f"{begun} to {place}" if begun else f"up to {place}")
            begun = None
    return stretches + ([f"{begun} on"] if begun else [])


def crossing_text(crossing: Crossing, race: Race) -> str:
    """`742 [600, 900]`; an end beyond the measured lengths is marked, and an interval within one token is left out."""
    text = f"{crossing.length:,.0f}"
    ends = _ends(crossing, race)
    return text if set(ends) <= {text} else f"{text} [{', '.join(ends)}]"


def _ends(crossing: Crossing, race: Race) -> list[str]:
    if crossing.interval is None:
        return []
    low, high = crossing.interval
    below = f"<{race.lengths[0]:,}" if low is None else f"{low:,.0f}"
    above = f">{race.lengths[-1]:,}" if high is None else f"{high:,.0f}"
    return [escape(below), escape(above)]


def _together(race: Race) -> str:
    """A word on crossings in one stretch of lengths where every interval includes 1."""
    intervals = [crossing.interval for crossing in race.crossings if crossing.interval]
    shared = [interval for interval in dict.fromkeys(intervals) if intervals.count(interval) > 1]
    unclear = [_ends(next(one for one in race.crossings if one.interval == interval), race) for interval in shared]
    return "".join(f"; unclear which between {below} and {above}" for below, above in unclear)


def _csv(found: list[Group]) -> bytes:
    """One row a device, arm, quantity and length, in base units."""
    lines = []
    for group in found:
        for quantity, rows in group.values.items():
            for label, points in rows.items():
                of = {"task": group.section.task, "conditions": group.section.conditions, "hardware": group.hardware}
                of |= {"arm": label, "metric": quantity, "unit": metrics.get(quantity).unit}
                lines += [of | {"length": length} | _csv_line(values) for length, values in sorted(points.items())]
    return formats.csv_file(lines, list(lines[0]))


def _csv_line(values: list[float]) -> dict[str, float]:
    middle = math.exp(sum(math.log(value) for value in values) / len(values)) if min(values) > 0 else None
    return {"n": len(values), "geometric_mean": middle, "min": min(values), "max": max(values)}


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
