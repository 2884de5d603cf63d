"""The picture of one model, or of several side by side: boxes from the tokens up to the scores, as the real modules state them.

So the picture agrees with the model. Lengths are inches. Equal layers are one group, with the number of times that they run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.models.heads import Classifier
from harness.plugins.explain.describe_shapes import numbered
from harness.plugins.explain.parts import Column, Part, columns, embedding_parts, head_parts
from harness.plugins.explain.pictures import CENTRED, fitted, rounded, sheet

COLOURS = {
    "embedding": "#D6E6F4",
    "attention": "#FBDDC2",
    "cross": "#F6CFD8",
    "feed_forward": "#D3EBD3",
    "recurrent": "#E3D9EE",
    "norm": "#F7F1C9",
    "head": "#E2E2E2",
}
WIDTH, GAP, PADDING, LINE = 3.7, 0.17, 0.14, 0.17
LEFT, RIGHT = 1.75, 1.65
"""Room beside a column: brackets to its left, parameters to its right."""
ARROW = {"arrowstyle": "-|>", "color": "#444444", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
CHARACTERS, BESIDE = 58, 13
"""Characters of a detail that fit on one line of a box, and of a note that fit on one line beside a bracket."""


@dataclass(frozen=True)
class Box(Part):
    """A part in the picture; `copies` modules of `parameters` each do its work."""

    copies: int = 1


@dataclass(frozen=True)
class Group:
    """Equal layers, drawn once: `layers` are their places, `alone` says that the column has no others."""

    boxes: tuple[Box, ...]
    layers: list[int]
    alone: bool

    @property
    def note(self) -> str:
        """The text beside the bracket."""
        uses, copies = len(self.layers), {box.copies for box in self.boxes if box.parameters}
        which = f"× {uses}" if self.alone else "\n".join(wrap(numbered("layer", "s", self.layers), BESIDE))
        if copies == {uses}:
            return which
        if len(copies) > 1:
            return f"{which},\npartly\nshared"
        (shared,) = copies
        return f"one layer,\nruns {uses} times" if shared == 1 else f"{shared} layers,\nrun {uses} times"


Item = Box | Group


@dataclass(frozen=True)
class Architecture:
    """What the picture shows: one column, or two where the second also reads the output of the first."""

    title: str
    subtitle: str
    columns: tuple[tuple[Item, ...], ...]


def architecture_of(model: Classifier, title: str, subtitle: str) -> Architecture:
    """The columns of a model, whose modules state their parts."""
    drawn = [(*_boxes(column.below), *_groups(column), *_boxes(column.above)) for column in columns(model.encoder.layers)]
    drawn[0] = (*_boxes(embedding_parts(model.encoder.embeddings)), *drawn[0])
    drawn[-1] = (*drawn[-1], *_boxes(head_parts(model)))
    return Architecture(title, subtitle, tuple(drawn))


def _boxes(parts: Sequence[Part]) -> tuple[Box, ...]:
    return tuple(Box(**vars(part)) for part in parts)


def _groups(column: Column) -> list[Group]:
    """The layers of a column, those that look the same together."""
    alike: dict[tuple[Box, ...], list[int]] = {}
    for place, layer in enumerate(column.layers):
        alike.setdefault(_boxes(layer.parts), []).append(place)
    groups = []
    for boxes, places in alike.items():
        copies = [len(set(blocks)) for blocks in zip(*(column.layers[place].blocks for place in places), strict=True)]
        groups.append(Group(tuple(replace(box, copies=copies[box.place]) for box in boxes), places, len(alike) == 1))
    return groups


# Drawing


def draw(*architectures: Architecture) -> Figure:
    """Columns side by side, their bottoms on one line."""
    step = LEFT + WIDTH + RIGHT
    columns = [column for architecture in architectures for column in architecture.columns]
    height = max(sum(_height(item) + GAP for item in column) for column in columns) + 1.45
    figure, axes = sheet(step * len(columns), height)
    left = 0.0
    for architecture in architectures:
        width = step * len(architecture.columns)
        title, size = fitted(architecture.title, (width if len(architectures) > 1 else step) - 0.5, 13, bold=True)
        axes.text(left + 0.25, height - 0.3, title, fontsize=size, fontweight="bold", va="center")
        axes.text(left + 0.25, height - 0.6, architecture.subtitle, va="center", color="#444444")
        painters = [ColumnPainter(axes, left + index * step + LEFT, 0.5) for index in range(len(architecture.columns))]
        for painter, column in zip(painters, architecture.columns, strict=True):
            painter.column(column, last=painter is painters[-1])
        painters[0].label(0.25, "tokens")
        if len(painters) == 2:
            _join(axes, *painters)
        left += width
    return figure


def _lines(box: Box) -> list[str]:
    return wrap(box.detail, CHARACTERS)


def _height(item: Item) -> float:
    if isinstance(item, Box):
        return 0.15 + LINE * (1 + len(_lines(item)))
    return 2 * PADDING - GAP + sum(_height(box) + GAP for box in item.boxes)


@dataclass
class ColumnPainter:
    """Draws one column upward from `y`; `x` is the left edge of its boxes."""

    axes: Axes
    x: float
    y: float
    crossing: float = 0.0  # height of the box that reads the other column
    split: float = 0.0  # height above which the embeddings end

    @property
    def middle(self) -> float:
        """The middle of the boxes."""
        return self.x + WIDTH / 2

    def column(self, items: tuple[Item, ...], last: bool) -> None:
        """Draws all items, joined by arrows."""
        start = self.y - GAP
        for item in items:
            if isinstance(item, Box):
                self.box(item)
            else:
                self.split = self.split or self.y - GAP / 2
                self.group(item)
        end = self.y if last else self.y - GAP / 2
        self.axes.plot([self.middle, self.middle], [start, end], color="#444444", linewidth=0.8, zorder=1)
        if last:
            self.arrow()
            self.label(self.y + 0.12, "scores")

    def arrow(self) -> None:
        """Draws an arrow whose head is at `y`."""
        self.axes.annotate("", (self.middle, self.y), (self.middle, self.y - GAP / 2), arrowprops=ARROW)

    def label(self, y: float, text: str) -> None:
        """Writes the text in the middle of the column."""
        self.axes.text(self.middle, y, text, **CENTRED, color="#444444")

    def box(self, box: Box) -> float:
        """Draws the box at `y`, moves `y` above it, and returns its bottom."""
        bottom = self.y
        self.arrow()
        rounded(self.axes, self.x, bottom, WIDTH, _height(box), facecolor=COLOURS[box.kind], zorder=3)
        top = bottom + _height(box) - 0.075 - LINE / 2
        self.axes.text(self.middle, top, box.title, **CENTRED, fontweight="bold", fontsize=8.5)
        for number, line in enumerate(_lines(box), 1):
            self.axes.text(self.middle, top - LINE * number, line, **CENTRED, fontsize=7.5)
        if box.parameters:
            times = f"{box.copies} × " if box.copies > 1 else ""
            text = f"{times}{box.parameters:,}"
            self.axes.text(self.x + WIDTH + 0.25, bottom + _height(box) / 2, text, va="center", fontsize=8)
        self.y = bottom + _height(box) + GAP
        return bottom

    def group(self, group: Group) -> None:
        """Draws one layer in its frame."""
        bottom = self.y
        height = _height(group)
        rounded(self.axes, self.x - 0.22, bottom, WIDTH + 0.36, height, facecolor="#FAFAFA", edgecolor="#AAAAAA", zorder=0)
        self.y += PADDING
        bottoms: list[float] = []
        for number, box in enumerate(group.boxes):
            bottoms.append(self.box(box))
            if box.residual:
                self.residual(bottoms[number + 1 - box.residual] - GAP / 2, bottoms[-1] + _height(box) / 2)
            if box.kind == "cross":
                self.crossing = bottoms[-1] + _height(box) / 2
        self.y = bottom + height + GAP
        if len(group.layers) > 1 or not group.alone:  # a bracket that is open to the right, its text to the left
            x, top, middle = self.x - 0.32, bottom + height, bottom + height / 2
            self.axes.plot([x, x - 0.08, x - 0.08, x], [bottom, bottom, top, top], color="#444444", linewidth=1)
            crossed = abs(self.crossing - middle) < 2 * LINE  # by the line from the other column
            self.axes.text(x - 0.14, middle + 3 * LINE * crossed, group.note, ha="right", va="center", fontsize=8.5)

    def residual(self, bottom: float, top: float) -> None:
        """Draws a line around what the sum at its top adds to."""
        left = self.x - 0.11
        self.axes.plot([self.middle, left, left], [bottom, bottom, top], color="#888888", linewidth=0.8)
        self.axes.annotate("", (self.x, top), (left, top), arrowprops=ARROW | {"color": "#888888", "mutation_scale": 6})


def _join(axes: Axes, first: ColumnPainter, second: ColumnPainter) -> None:
    """The embeddings go to both columns, and the top of the first to where the second reads it."""
    style = {"color": "#444444", "linewidth": 0.8}
    lane, low = first.x + WIDTH + 1.45, 0.25
    axes.plot(
        [first.middle, lane, lane, second.middle, second.middle], [first.split, first.split, low, low, 0.5 - GAP], **style
    )
    top, lane = first.y - GAP / 2, lane + 0.25
    axes.plot([first.middle, first.middle, lane, lane], [first.y - GAP, top, top, second.crossing], **style)
    axes.annotate("", (second.x, second.crossing), (lane, second.crossing), arrowprops=ARROW)
