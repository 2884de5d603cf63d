"""What the report's pictures share, as SVG that is the same byte for byte for the same numbers.

An arm has one colour, marker and line style in all pictures; the baseline is black. Colours are Okabe and Ito's, which
colour-blind readers can tell apart, and markers repeat with another period than colours.
"""

import hashlib
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from harness import document, metrics
from harness.comparison.compare import Comparison
from harness.comparison.paired import grouped
from harness.comparison.section import headline
from harness.reports.writing import marks
from harness.reports.writing.formats import SCALED, prefix
from harness.reports.writing.lean import lean

LONGEST = 40
"""Letters of a name in a picture."""
HASH_DIGITS = 4
ELLIPSIS = "…"


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Label -> its name in a picture: of a longer one than LONGEST the middle is left out.

    Where one is longer and all continue the first, they are named by what they add to it. Labels that differ in their middles
    alone end in a hash of the whole, which is the same in every picture.
    """
    first, *others = dict.fromkeys(labels)
    full = {label: label for label in (first, *others)}
    if max(map(len, full)) > LONGEST and all(label.startswith(f"{first} ") for label in others):
        full |= {label: label.removeprefix(f"{first} ") for label in others}
    names = {label: _cut(name) for label, name in full.items()}
    count = Counter(names.values())
    hashes = {label: f" #{hashlib.sha256(label.encode()).hexdigest()[:HASH_DIGITS]}" for label in names}
    return {label: name if count[name] == 1 else _cut(full[label], hashes[label]) for label, name in names.items()}


def _cut(label: str, end: str = "") -> str:
    if len(label) + len(end) <= LONGEST:
        return label + end
    room = LONGEST - len(ELLIPSIS) - len(end)
    tail = _last_words(label, room // 2)
    head = _last_words(label[::-1], room - len(tail))[::-1]
    return f"{head}{ELLIPSIS}{tail}{end}"


def _last_words(text: str, most: int) -> str:
    """Its last letters, from the begin of a word where that leaves at least half of them."""
    _, _, words = text[-most - 1 :].partition(" ")
    return words if 2 * len(words) >= most else text[-most:].lstrip()


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
STYLE = {
    "svg.hashsalt": "reports",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
}
STYLE |= {"text.parse_math": False, "axes.grid": True, "grid.alpha": 0.25}
STYLE |= {"axes.titley": 1.0}  # no ticks are above a panel: matplotlib need not measure them to place its title
STYLE |= {"font.sans-serif": ["DejaVu Sans"]}  # matplotlib's own; every text looks up all that are listed
COUNTS = {"": "count", "k": "thousands", "M": "millions", "G": "billions", "T": "trillions"}
"""Letter of a power of ten -> its name on an axis of parameters."""
TIMES = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"))
"""(smallest number of seconds, seconds in one unit, name of the unit)."""
LOG_RANGE = 5
"""Largest over smallest value from which an axis is logarithmic."""
LOG = "log scale"
LOG_TICKS = ((20, (1, 2, 3, 5, 7)), (200, (1, 2, 5)))
"""Largest over smallest value below which a logarithmic axis has these ticks in every power of ten."""
CURVE_POINTS = 200
LEGEND_ROW, LEGEND_LETTER, LEGEND_MARGIN = 0.18, 0.075, 1.9
"""Inches: height of a line, width of a letter, and the room that a figure has for a legend of one column."""
ROW_NAME = 30
"""Letters of the name of a row for which pictures of rows are wide enough."""
MOST_ARMS = 30
"""Arms of one picture: more cannot be told apart, and drawing takes longer than all else."""
PNG_DPI = 192
"""Twice the 96 pixels that a browser gives an inch."""
FAINT_LIMIT = 8
"""Up to so many arms the unsmoothed curves are drawn as well."""


class Picture(bytes):
    """An SVG file, with the figure that it was made from."""

    figure: Figure

    def __new__(cls, content: bytes, figure: Figure) -> "Picture":
        picture = super().__new__(cls, content)
        picture.figure = figure
        return picture

    def __reduce__(self) -> tuple:
        """For another process the file alone: figures cannot be pickled."""
        return bytes, (bytes(self),)


@dataclass(frozen=True)
class ArmStyle:
    """How one arm is drawn; `name` is short enough for a picture."""

    name: str
    colour: str
    marker: str
    line: str

    @property
    def is_baseline(self) -> bool:
        """Its marks are larger and in front."""
        return self.marker == "*"

    @property
    def line_style(self) -> dict[str, str]:
        """Arguments of `Axes.plot`."""
        return {"color": self.colour, "linestyle": self.line}

    @property
    def line_and_marker(self) -> dict[str, str]:
        """Arguments of `Axes.plot`."""
        return self.line_style | {"marker": self.marker}


def arm_styles(labels: list[str]) -> dict[str, ArmStyle]:
    """A style for every label; the first label is the baseline's."""
    short = short_names(labels)
    styles = {labels[0]: ArmStyle(short[labels[0]], "black", "*", "-")}
    for index, label in enumerate(labels[1:]):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        styles[label] = ArmStyle(short[label], colour, marker, LINES[index // len(COLOURS) % len(LINES)])
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
    lay_out(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return marks.add(lean(buffer.getvalue()), figure)


def lay_out(figure: Figure) -> None:
    """Places the panels, once: after that nothing is placed again."""
    if figure.get_layout_engine() is not None:
        figure.dpi = FigureCanvasSVG(figure).fixed_dpi
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine(None)  # with an engine, even an empty one, savefig draws the whole picture twice


def grid(
    count: int, wide: float = 3.7, high: float = 3.1, most: int = 3, margin: float = LEGEND_MARGIN, **sharing: bool
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels in rows of at most `most`, sizes in inches; `margin` is room for the legend.

    `sharing` are sharex and sharey of `Figure.subplots`.
    """
    across = min(count, most)
    down = math.ceil(count / across)
    figure = Figure(figsize=(wide * across + margin, high * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, **sharing).ravel().tolist()
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def wider(names: Iterable[str]) -> float:
    """Inches by which a panel is wider for the longest of these names of its rows."""
    return LEGEND_LETTER * max(0, max(map(len, names), default=0) - ROW_NAME)


def scale_axis(axes: Axes, values: list[float]) -> None:
    """Logarithmic where the range is large, with few plain numbers at the ticks."""
    if min(values) <= 0 or max(values) / min(values) < LOG_RANGE:
        axes.xaxis.set_major_locator(MaxNLocator(4))
        return
    axes.set_xscale("log")
    reach = max(values) / min(values)
    ticks = next((ticks for most, ticks in LOG_TICKS if reach < most), (1,))
    axes.xaxis.set_major_locator(LogLocator(subs=ticks, numticks=6 if len(ticks) == 1 else None))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def panels_of_lines(
    labels: list[str], panels: Mapping[str, Mapping], draw_in: Callable[..., None], marked: bool = True, *size: float
) -> Figure:
    """One panel for each title, in which `draw_in` draws what its arms have, by label; sizes are those of `grid`.

    One legend has the arms, and what else has a label.
    """
    styles = arm_styles(labels)
    figure, axes = grid(len(panels), *size)
    for panel, (title, of_arms) in zip(axes, panels.items(), strict=True):
        draw_in(panel, of_arms, styles)
        panel.set_title(title)
    lines = {str(line.get_label()): line for panel in axes for line in panel.get_lines()}
    others = [line for label, line in lines.items() if label not in styles and not label.startswith("_")]
    legend(figure, [*arm_handles(styles, panels.values(), marked), *others])
    return figure


def reaching_bars(middles: list[float], values: list[list[float]]) -> tuple[list[float], list[float]] | None:
    """Lengths of bars from the middles down to the least and up to the largest values; None where all are single."""
    below = [max(0.0, middle - min(of_point)) for middle, of_point in zip(middles, values, strict=True)]
    above = [max(0.0, max(of_point) - middle) for middle, of_point in zip(middles, values, strict=True)]
    return (below, above) if any(len(of_point) > 1 for of_point in values) else None


def arm_handles(styles: Mapping[str, ArmStyle], panels: Iterable[Mapping], marked: bool = True) -> list[Line2D]:
    """The legend's entries of the arms that are a key of any panel, as lines."""
    labels = {label for of_arms in panels for label in of_arms}
    return [handle(style, line=True, marked=marked) for label, style in styles.items() if label in labels]


def ticks_at_lengths(axes: Axes, lengths: list[int]) -> None:
    """Ticks of the logarithmic x axis at these lengths alone."""
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_locator(NullLocator())


def no_closer(axes: Axes, least: float) -> None:
    """Widens the vertical axis around its middle to at least `least`, so that what is nearly equal looks nearly equal."""
    low, high = axes.get_ylim()
    more = max(0.0, least - (high - low)) / 2
    axes.set_ylim(low - more, high + more)


def same_span(panels: list[Axes], values: list[list[float]], least: float, highest: float) -> None:
    """Vertical axes that are equally long, around the values of each: at least `least`, with a tenth of room at both ends.

    Where all values are below `highest`, which none can exceed, the axis ends there, with a little room.
    """
    span = 1.2 * max(least, *(max(of_panel) - min(of_panel) for of_panel in values))
    for axes, of_panel in zip(panels, values, strict=True):
        middle = (max(of_panel) + min(of_panel)) / 2
        top = min(middle + span / 2, max(highest, max(of_panel)) + 0.04 * span)
        axes.set_ylim(top - span, top)


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


def handle(arm: ArmStyle, line: bool = False, marked: bool = False) -> Line2D:
    """A legend's entry: a marker, or a line, with its marker if `marked`."""
    style = {"linestyle": arm.line if line else "None", "marker": arm.marker if marked or not line else "None"}
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
    if len(steps) <= CURVE_POINTS:
        return Line(steps, means)
    begins = -(-np.arange(CURVE_POINTS) * len(steps) // CURVE_POINTS)  # bin of the i-th of n steps: 200 i // n
    counts = np.diff(begins, append=len(steps))
    return Line(np.add.reduceat(steps, begins) / counts, np.add.reduceat(means, begins) / counts)


def draw_smoothed(axes: Axes, lines: Mapping[str, Line], styles: Mapping[str, ArmStyle], factor: float = 1.0) -> None:
    """The lines of the arms by label, smoothed, and for few arms unsmoothed too; x is divided by `factor`."""
    for label, line in lines.items():
        arm = styles[label]
        if len(lines) <= FAINT_LIMIT:
            axes.plot(line.x / factor, line.y, color=arm.colour, alpha=0.18, linewidth=0.8)
        axes.plot(
            line.x / factor, smooth(line.y), label=label, linewidth=1.5, zorder=4 if arm.is_baseline else 3, **arm.line_style
        )


def smooth(values: np.ndarray) -> np.ndarray:
    """Centred running mean over a twentieth of the values."""
    wide = max(1, len(values) // 20)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(len(values)) + (wide + 1) // 2
    begin, end = np.maximum(ends - wide, 0), np.minimum(ends, len(values))
    return (sums[end] - sums[begin]) / (end - begin)


def draw(make: Callable[..., Figure | None], *arguments: object) -> Picture | None:
    """The picture that `make` gives, as SVG in the report's style, whose logarithmic axes say so; None without data."""
    with mpl.rc_context(STYLE):
        figure = make(*arguments)
        for axis in (axis for axes in (figure.axes if figure else ()) for axis in (axes.xaxis, axes.yaxis)):
            if axis.get_scale() == "log" and (text := axis.get_label_text()):
                axis.set_label_text(f"{text[:-1]}, {LOG})" if text.endswith(")") else f"{text} ({LOG})")
        return Picture(svg(figure), figure) if figure else None


def png(picture: Picture) -> bytes:
    """The picture as PNG, at PNG_DPI."""
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        picture.figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def pictured(captions: Mapping[str, str], files: Mapping[str, bytes]) -> list[document.Picture]:
    """Those of the pictures that were drawn, with their captions."""
    return [document.Picture(name, text) for name, text in captions.items() if name in files]


def drawn(pictures: Mapping[str, tuple]) -> dict[str, Picture]:
    """The pictures that have any data: name -> the function that makes the figure, and its arguments."""
    return {name: picture for name, (make, *arguments) in pictures.items() if (picture := draw(make, *arguments))}
