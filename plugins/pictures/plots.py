"""Shared by the report's pictures, as SVG files that are equal byte for byte for equal numbers.

An arm has one colour, marker and line style in all pictures; the baseline is black. Colours are Okabe and Ito's, which
colour-blind readers can tell apart, and markers repeat with another period than colours.
"""

import hashlib
import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from harness import document, metrics
from harness.comparison.compare import Comparison
from harness.comparison.paired import grouped
from harness.comparison.section import headline
from harness.plugins.pictures.svg import lean, with_values
from harness.reports.reading.study import CURVE_POINTS
from harness.reports.writing import concise
from harness.reports.writing.formats import SCALED, prefix

Key = TypeVar("Key")
Value = TypeVar("Value")

LONGEST = 40
"""Letters of a name in a picture."""


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Label -> its short name in a picture; the middle of one above LONGEST is left out.

    Labels that differ in their middles alone end in a hash of the whole, which is the same in every picture.
    """
    short = concise.short_names(labels)
    names = {label: name if len(name) <= LONGEST else f"{name[:18]}…{name[-21:]}" for label, name in short.items()}
    count = Counter(names.values())
    hashes = {label: hashlib.sha256(label.encode()).hexdigest()[:4] for label in names}
    return {label: name if count[name] == 1 else f"{name[:-6]} #{hashes[label]}" for label, name in names.items()}


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
STYLE = Path(__file__).with_suffix(".mplstyle")
COUNTS = {"": "count", "k": "thousands", "M": "millions", "G": "billions", "T": "trillions"}
"""Letter of a power of ten -> its name on an axis of parameters."""
TIMES = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"))
"""(smallest number of seconds, seconds in one unit, name of the unit)."""
LOG_RANGE = 5
"""Largest over smallest value from which an axis is logarithmic."""
LOG = "log scale"
LOG_TICKS = ((20, (1, 2, 3, 5, 7)), (200, (1, 2, 5)), (math.inf, (1,)))
"""Largest over smallest value below which a logarithmic axis has these ticks in every power of ten."""
DASHES = ((0, (4, 3)), (0, (1, 2)))
"""Labels of lines at one height."""
ROW = 0.27
"""Inches from a row of a picture of rows to the next one."""
LEGEND_ROW, LEGEND_LETTER, LEGEND_MARGIN = 0.18, 0.075, 1.9
"""Inches: height of a line, width of a letter, and the room that a figure has for a legend of one column."""
ROW_NAME = 30
"""Letters of the name of a row for which pictures of rows are wide enough."""
MOST_ARMS = 30
"""Arms of one picture: more cannot be told apart, and drawing takes longer than all else."""
HIGHEST = 1.04
"""Where axes of scores end, with room for a mark at 1."""
FAINT_LIMIT = 8
"""Up to so many arms the unsmoothed curves are drawn as well."""


class Picture(bytes):
    """An SVG file, with the figure that it was made from."""

    figure: Figure

    def __new__(cls, content: bytes, figure: Figure) -> "Picture":
        picture = super().__new__(cls, content)
        picture.figure = figure
        return picture

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        """For another process the file alone: figures cannot be pickled."""
        return bytes, (bytes(self),)


@dataclass(frozen=True)
class ArmStyle:
    """How one arm is drawn; `name` is short enough for a picture."""

    label: str
    name: str
    colour: str
    marker: str
    line: str

    @property
    def is_baseline(self) -> bool:
        """Its marks are larger and in front."""
        return self.marker == "*"

    @property
    def line_style(self) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {"color": self.colour, "linestyle": self.line}

    @property
    def line_and_marker(self) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return self.line_style | {"marker": self.marker}


def arm_styles(labels: list[str]) -> dict[str, ArmStyle]:
    """A style for every label; the first label is the baseline's."""
    short = short_names(labels)
    styles = {labels[0]: ArmStyle(labels[0], short[labels[0]], "black", "*", "-")}
    for index, label in enumerate(labels[1:]):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        styles[label] = ArmStyle(label, short[label], colour, marker, LINES[index // len(COLOURS) % len(LINES)])
    return styles


def drawn_arms(comparison: Comparison) -> set[str]:
    """All arms, of more than MOST_ARMS the baseline and those of the highest mean score."""
    if len(comparison.labels) <= MOST_ARMS:
        return set(comparison.labels)
    means = ((row.label, row.mean(headline(section))) for section in comparison.selected for row in section.rows)
    scores = grouped((label, mean) for label, mean in means if mean is not None)
    others = sorted(comparison.others, key=lambda label: -fmean(scores.get(label, [-math.inf])))
    return {comparison.baseline, *others[: MOST_ARMS - 1]}


def drawn_note(comparison: Comparison) -> list[str]:
    """A paragraph on the arms that pictures leave out; none where they show all."""
    count = len(comparison.labels)
    text = f"Pictures show {MOST_ARMS} of {count} arms: the baseline and those of the highest mean score."
    return [text] if count > MOST_ARMS else []


def with_unit(title: str, unit: str) -> str:
    """`tokens (M)`."""
    return f"{title} ({unit})" if unit else title


def svg(figure: Figure) -> bytes:
    """The picture with the values of its marks, without the date, so that equal numbers give equal bytes."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # whoever shows the picture has fonts of its own
        lay_out(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return with_values(lean(buffer.getvalue()), figure)


def lay_out(figure: Figure) -> None:
    """Places the panels, once: after that nothing is placed again."""
    figure.dpi = FigureCanvasSVG(figure).fixed_dpi
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine(None)  # with an engine, even an empty one, savefig draws the whole picture twice


def grid(
    count: int, wide: float = 3.7, high: float = 3.1, most: int = 3, margin: float = LEGEND_MARGIN, **sharing: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels in rows of at most `most`, sizes in inches; `margin` is room for the legend.

    `sharing` are sharex and sharey of `Figure.subplots`.
    """
    across = min(count, most)
    down = math.ceil(count / across)
    figure = Figure(figsize=(wide * across + margin, high * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, **sharing).ravel().tolist()
    for unused in axes[count:]:
        figure.delaxes(unused)
    return figure, axes[:count]


def wider(names: Iterable[str]) -> float:
    """Inches by which a panel is wider for the longest of these names of its rows."""
    return LEGEND_LETTER * max(0, max(map(len, names), default=0) - ROW_NAME)


def rows(panels: Sequence[Sequence[str]], wide: float, margin: float = 0, **size: Any) -> tuple[Figure, list[Axes]]:
    """A figure of panels with these rows, from top to bottom, and room below them for a legend."""
    tallest = max(map(len, panels))
    figure, axes = grid(len(panels), wide=wide, high=1.2 + ROW * tallest, margin=margin, **size)
    for panel, names in zip(axes, panels, strict=True):
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(tallest - 0.4, -0.6)
        panel.grid(False, axis="y")
    return figure, axes


def rows_of(panels: Iterable[Iterable[str]], wide: float) -> tuple[Figure, list[Axes]]:
    """A figure of panels with a row for each of these labels, two panels side by side, wider for long names."""
    names = [[*short_names(labels).values()] for labels in panels]
    return rows(names, wide + max(map(wider, names)), most=2)


def scale_axis(axis: Axis, values: Iterable[float], is_log: bool | None = None) -> None:
    """Logarithmic where the range of the values is large, if it is not said; with few plain numbers at the ticks."""
    low, high = min(values := [*values]), max(values)
    if is_log or (is_log is None and low > 0 and high / low >= LOG_RANGE):
        (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
        ticks = next(ticks for most, ticks in LOG_TICKS if high / low < most)
        axis.set_major_locator(LogLocator(subs=ticks, numticks=6 if len(ticks) == 1 else None))
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(4))


def panels(
    labels: list[str],
    contents: Mapping[Key, Mapping[str, Value]],
    draw_in: Callable[[Axes, Key, Mapping[ArmStyle, Value]], None],
    levels: Mapping[Key, Mapping[str, float]] | None = None,
    lines: bool = True,
    marked: bool = True,
    **size: Any,
) -> Figure | None:
    """A panel for each key, in which `draw_in` draws what its arms have; None without contents. Sizes are those of `grid`.

    Levels are lines at one height by name, or a word where they are far from what is drawn. One legend has the arms, and what
    else has a label.
    """
    if not contents:
        return None
    styles = arm_styles(labels)
    figure, axes = grid(len(contents), **size)
    for panel, (key, of_arms) in zip(axes, contents.items(), strict=True):
        draw_in(panel, key, {styles[label]: value for label, value in of_arms.items()})
        for dashes, (name, height) in zip(DASHES, (levels or {}).get(key, {}).items(), strict=False):
            _level(panel, name, height, dashes)
    drawn = {label for of_arms in contents.values() for label in of_arms}
    others = {str(line.get_label()): line for panel in axes for line in panel.get_lines()}
    handles = [handle(style, lines, marked) for label, style in styles.items() if label in drawn]
    legend(figure, handles + [line for label, line in others.items() if label not in styles and not label.startswith("_")])
    return figure


def _level(axes: Axes, name: str, height: float, dashes: tuple[int, tuple[int, int]]) -> None:
    low, high = axes.get_ylim()
    if low - (high - low) / 2 <= height <= high + (high - low) / 2:
        axes.axhline(height, color="0.5", linestyle=dashes, linewidth=1, zorder=1, label=name)
    else:
        arrow, x, y, *alike = ("↓", 0.02, 0.02, "left", "bottom") if height < low else ("↑", 0.98, 0.98, "right", "top")
        text = f"{arrow} {name} {height:.4g}"
        axes.annotate(text, (x, y), xycoords="axes fraction", ha=alike[0], va=alike[1], color="0.35", fontsize=7.5)


def series(axes: Axes, arm: ArmStyle, x: Any, y: Any, x_bars: Any = None, y_bars: Any = None, **look: Any) -> None:
    """Points of an arm with their bars; `look` overrides the style of other arms."""
    size, front = (9, 4) if arm.is_baseline else (6, 3)
    style = arm.line_and_marker | {"markersize": size, "linewidth": 1.3, "zorder": front, "elinewidth": 0.9, "capsize": 2}
    style |= {"markeredgecolor": "white", "markeredgewidth": 0.3}
    axes.errorbar(x, y, y_bars, x_bars, **style | look)[0].set_label(arm.label)


def reaching_bars(middles: Sequence[float], values: Sequence[Sequence[float]]) -> np.ndarray | None:
    """(2, points) lengths of bars down to the least and up to the largest values; None where all are single."""
    if all(len(of_point) < 2 for of_point in values):
        return None
    ends = [(middle - min(of_point), max(of_point) - middle) for middle, of_point in zip(middles, values, strict=True)]
    return np.clip(ends, 0, None).T


def interval(axes: Axes, row: int, middle: float, ends: Sequence[float], text: str) -> None:
    """A value with its interval in a row of `rows`; `text` is what the mark says."""
    axes.plot(ends, [row] * len(ends), color="black", linewidth=1.2)
    axes.plot(middle, row, marker="o", color="black", markersize=4.5, label=text)


def ticks_at_lengths(axes: Axes, lengths: Sequence[float]) -> None:
    """Ticks of the logarithmic x axis at these lengths alone."""
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_locator(NullLocator())


def same_span(axes: Sequence[Axes], least: float, highest: float = math.inf) -> None:
    """Vertical axes that are equally long, at least `least`, so that nearly equal values look nearly equal.

    They end at `highest`, which no value can exceed, or above it where something is drawn there.
    """
    limits = [panel.get_ylim() for panel in axes]
    span = max(least, *(high - low for low, high in limits))
    for panel, (low, high) in zip(axes, limits, strict=True):
        top = min((low + high + span) / 2, max(highest, panel.dataLim.y1))
        panel.set_ylim(top - span, top)


def legend(figure: Figure, handles: list[Line2D]) -> None:
    """Outside of all panels, in as many columns as its height allows; the figure grows where one column is not enough."""
    width, height = figure.get_size_inches()
    columns = math.ceil(len(handles) / max(1, int((height - 0.2) / LEGEND_ROW)))
    longest = max((len(str(entry.get_label())) for entry in handles), default=0)
    figure.set_size_inches(width + max(0.0, columns * (0.5 + LEGEND_LETTER * longest) - LEGEND_MARGIN), height)
    figure.legend(handles=handles, loc="outside right center", ncols=max(1, columns), frameon=False, fontsize=8)


def axis_unit(metric: str, values: Iterable[float]) -> tuple[float, str]:
    """What to divide values of this size by, and the name of that unit: `(60.0, 'min')`, `(1e6, 'MB')`."""
    unit, size = metrics.get(metric).unit, max(values)
    if unit == "s":
        return next(((factor, name) for least, factor, name in TIMES if size >= least), (1.0, unit))
    if unit not in SCALED:
        return 1.0, unit
    factor, letter = prefix(size)
    return factor, COUNTS[letter] if unit == "parameters" else letter + SCALED[unit]


def handle(arm: ArmStyle, line: bool, marked: bool) -> Line2D:
    """A legend's entry: a marker, or a line, with its marker if `marked`."""
    style: dict[str, Any] = {"linestyle": arm.line if line else "None", "marker": arm.marker if marked or not line else "None"}
    return Line2D([], [], color=arm.colour, markersize=9 if arm.is_baseline else 6, label=arm.name, **style)


@dataclass(frozen=True)
class Line:
    """Points from left to right; the length is their number."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.x)


def mean_curve(curves: list[dict[int, float]]) -> Line:
    """(step, mean over the curves) at the steps that all of them have, in at most CURVE_POINTS bins."""
    steps = np.array(sorted(set.intersection(*map(set, curves))), dtype=float)
    means = np.mean([[curve[step] for step in steps] for curve in curves], axis=0)
    bins = min(len(steps), CURVE_POINTS)
    return Line(*(np.array([part.mean() for part in np.array_split(values, bins)]) for values in (steps, means)))


def draw_smoothed(axes: Axes, lines: Mapping[ArmStyle, Line], factor: float = 1.0) -> None:
    """The lines of the arms, smoothed, and for few arms unsmoothed too; x is divided by `factor`."""
    for arm, line in lines.items():
        x = line.x / factor
        if len(lines) <= FAINT_LIMIT:
            axes.plot(x, line.y, color=arm.colour, alpha=0.18, linewidth=0.8)
        axes.plot(x, smooth(line.y), label=arm.label, linewidth=1.5, zorder=4 if arm.is_baseline else 3, **arm.line_style)


def smooth(values: np.ndarray) -> np.ndarray:
    """Centred running mean over a twentieth of the values."""
    window = np.ones(max(1, len(values) // 20))
    return np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same")


def draw(make: Callable[..., Figure | None], *arguments: object) -> Picture | None:
    """The picture that `make` gives, as SVG in the report's style, whose logarithmic axes say so; None without data."""
    with mpl.rc_context(fname=STYLE):
        figure = make(*arguments)
        for axis in (axis for axes in (figure.axes if figure else ()) for axis in (axes.xaxis, axes.yaxis)):
            if axis.get_scale() == "log" and (text := axis.get_label_text()):
                axis.set_label_text(f"{text[:-1]}, {LOG})" if text.endswith(")") else f"{text} ({LOG})")
        return Picture(svg(figure), figure) if figure else None


def drawn(pictures: Mapping[str, tuple[Any, ...]]) -> tuple[list[document.Picture], dict[str, Picture]]:
    """The pictures that have any data with their captions, and their files.

    `pictures`: name -> its caption, the function that makes the figure, and the arguments of that.
    """
    files = {name: picture for name, (_, make, *arguments) in pictures.items() if (picture := draw(make, *arguments))}
    return [document.Picture(name, pictures[name][0]) for name in files], files
