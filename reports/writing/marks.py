"""Values of the marks in a picture, as titles of invisible shapes above them: a browser shows them under the mouse.

What has a label says its values: a line, bars, or a line with error bars. The first line of a label says whose it is, further
lines are the values; without these the values are those at the axes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer, Container, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import Bbox, BlendedAffine2D, BlendedGenericTransform

from harness.comparison.paired import grouped
from harness.reports.writing import formats

REACH = 6.0
"""Points from the centre of a mark to the edge of its shape."""
CURVE_MARKS = 24
"""Points of a line without markers that say their value, at most."""
ACROSS_THE_PANEL = (BlendedAffine2D, BlendedGenericTransform)
"""Transforms of lines such as `axhline`, of which one coordinate is no value."""
NO_MARKER = ("None", "none", "", " ", None)
SHAPE = '<rect x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'


@dataclass(frozen=True)
class Mark:
    """Where it is, in points from the left bottom of the figure, and what it says."""

    box: Bbox
    text: str


def add(svg: bytes, figure: Figure) -> bytes:
    """The picture with the values of its marks; `figure` is laid out, with 72 dots an inch."""
    high, shapes = figure.bbox.height, []
    said = grouped((_place(mark.box, high), mark.text) for mark in marks(figure))
    for place, texts in said.items():  # of several marks at one place the mouse finds the last one alone
        shapes.append(SHAPE.format(*place, escape("\n\n".join(texts))))
    group = '<g class="marks" fill="none" pointer-events="all">\n{}\n</g>\n</svg>'.format("\n".join(shapes))
    return group.encode().join(svg.rsplit(b"</svg>", 1)) if shapes else svg


def _place(box: Bbox, high: float) -> tuple[str, ...]:
    """Left, top, width and height in the file."""
    return tuple(f"{size:.1f}" for size in (box.x0, high - box.y1, box.width, box.height))


def marks(figure: Figure) -> Iterator[Mark]:
    """The marks of every panel in turn, and in it of every arm."""
    for axes in figure.axes:
        if axes.get_visible():
            for container in filter(_is_labelled, axes.containers):
                if isinstance(container, BarContainer):
                    yield from _of_bars(axes, container)
                elif isinstance(container, ErrorbarContainer):
                    yield from _of_line(axes, container.lines[0], str(container.get_label()), container)
            for line in filter(_is_labelled, axes.lines):
                if not isinstance(line.get_transform(), ACROSS_THE_PANEL):
                    yield from _of_line(axes, line, str(line.get_label()))


def _is_labelled(artist: Line2D | Container) -> bool:
    return not str(artist.get_label()).startswith("_")


def _of_bars(axes: Axes, container: BarContainer) -> Iterator[Mark]:
    """Marks of horizontal bars: the name of the row, the part, and its length."""
    row_name = axes.yaxis.get_major_formatter()
    for bar in container.patches:
        if bar.get_width():
            row = row_name(bar.get_y() + bar.get_height() / 2)
            value = f"{axes.get_xlabel()}: {_number(bar.get_width(), axes.xaxis)}"
            yield Mark(bar.get_window_extent(), _text(axes, f"{row}, {container.get_label()}", [value]))


def _of_line(axes: Axes, line: Line2D, label: str, container: ErrorbarContainer | None = None) -> Iterator[Mark]:
    """All points of a line with markers, some of a curve; those within the panel."""
    points = np.asarray(line.get_xydata(), dtype=float)
    step = max(1, -(-len(points) // CURVE_MARKS)) if line.get_marker() in NO_MARKER else 1
    for index in range((len(points) - 1) % step, len(points), step):  # with the last point
        x, y = points[index]
        if np.isfinite(points[index]).all() and axes.viewLim.containsx(x) and axes.viewLim.containsy(y):
            centre = line.get_transform().transform(points[index])
            bars = iter(container.lines[2] if container else ())
            has_bars = (container.has_xerr, container.has_yerr) if container else (False, False)
            ends = [next(bars).get_segments()[index][:, along] if has_bar else None for along, has_bar in enumerate(has_bars)]
            values = [_value(axis, *of) for axis, *of in zip((axes.xaxis, axes.yaxis), (x, y), ends, strict=True)]
            yield Mark(Bbox([centre - REACH, centre + REACH]), _text(axes, label, values))


def _value(axis: Axis, value: float, ends: np.ndarray | None) -> str:
    bar = f" (bar from {_number(ends[0], axis)} to {_number(ends[1], axis)})" if ends is not None and ends[0] < ends[1] else ""
    return f"{axis.get_label_text()}: {_number(value, axis)}{bar}"


def _number(value: float, axis: Axis) -> str:
    """About three significant digits; whole numbers whole, and in percent where the axis is."""
    formatter = axis.get_major_formatter()
    if isinstance(formatter, PercentFormatter):
        return f"{formats.plain(100 * value / formatter.xmax, 1)} %"
    return formats.plain(value, 0 if float(value).is_integer() else formats.decimals(value))


def _text(axes: Axes, label: str, values: list[str]) -> str:
    """One line for whose it is and the panel, and its values."""
    name, *own_values = label.split("\n")
    title = axes.get_title() or axes.get_title(loc="left")
    return "\n".join([f"{name}, {title}" if title else name, *(own_values or values)])
