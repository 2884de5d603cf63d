"""The picture of one model: boxes from the tokens up to the scores, as the real modules state them. Lengths are inches.

So the picture agrees with the model. Equal layers are one group, with the number of times that they run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import nn

from models.describe import Column, Part
from models.heads import Classifier

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
CHARACTERS = 58
"""Characters of a detail that fit on one line of a box."""

TITLE = 52
"""Characters of a title in full size; a longer one is written smaller."""


@dataclass(frozen=True)
class Box(Part):
    """A part in the picture; `copies` modules of `parameters` each do its work in `uses` layers."""

    copies: int = 1
    uses: int = 1


@dataclass(frozen=True)
class Group:
    """Equal layers, drawn once."""

    boxes: tuple[Box, ...]
    layers: int

    @property
    def note(self) -> str:
        """The text beside the bracket."""
        uses, copies = self.boxes[0].uses, {box.copies for box in self.boxes if box.parameters}
        if copies == {uses}:
            return f"× {self.layers}"
        if len(copies) > 1:
            return f"× {self.layers},\npartly\nshared"
        shared = copies.pop()
        return f"one layer,\nruns {uses} times" if shared == 1 else f"{shared} layers,\nrun {uses} times"


@dataclass(frozen=True)
class Pattern:
    """Groups that follow each other again and again; the last time may end early."""

    groups: tuple[Group, ...]
    times: int
    whole: bool = True


Item = Box | Pattern


@dataclass(frozen=True)
class Architecture:
    """What the picture shows: one column, or two where the second also reads the output of the first."""

    title: str
    subtitle: str
    columns: tuple[tuple[Item, ...], ...]

    def boxes(self) -> Iterator[Box]:
        """All boxes; their parameters add up to those of the model."""
        for item in (item for column in self.columns for item in column):
            yield from [item] if isinstance(item, Box) else (box for group in item.groups for box in group.boxes)


def architecture_of(model: Classifier, title: str, subtitle: str) -> Architecture:
    """The columns of a model, whose modules state their parts."""
    columns = [(*_boxes(column.below), *_layers(column), *_boxes(column.above)) for column in model.encoder.layers.columns()]
    columns[0] = (*_boxes(model.encoder.embeddings.parts()), *columns[0])
    columns[-1] = (*columns[-1], *_boxes(model.head_parts()))
    return Architecture(title, subtitle, tuple(columns))


def _boxes(parts: Sequence[Part]) -> tuple[Box, ...]:
    return tuple(Box(**vars(part)) for part in parts)


def _layers(column: Column) -> list[Pattern]:
    """The layers of a column, folded."""
    order, layers = [layer.blocks for layer in column.layers], [_boxes(layer.parts) for layer in column.layers]
    return [_pattern(part, layers, order) for part in fold(layers)]


@dataclass(frozen=True)
class Repeat:
    """Layers from `first` on, each equal to the one `period` layers before it."""

    first: int
    period: int
    layers: int


def fold(items: Sequence[object]) -> list[Repeat]:
    """All layers in order, cut where the next part is the longest that repeats itself; the shortest period of those."""
    parts, first = [], 0
    while first < len(items):
        part = Repeat(first, 1, 1)
        for period in range(1, (len(items) - first) // 2 + 1):
            layers = period
            while first + layers < len(items) and items[first + layers] == items[first + layers - period]:
                layers += 1
            if layers >= 2 * period and layers > part.layers:
                part = Repeat(first, period, layers)
        parts.append(part)
        first += part.layers
    return parts


def _pattern(part: Repeat, boxes: Sequence[tuple[Box, ...]], order: Sequence[tuple[nn.Module, ...]]) -> Pattern:
    groups, start = [], 0
    while start < part.period:
        first, end = boxes[part.first + start], start + 1
        while end < part.period and boxes[part.first + end] == first:
            end += 1
        layers = [part.first + layer for layer in range(part.layers) if start <= layer % part.period < end]
        copies = {place: len({order[layer][place] for layer in layers}) for place in range(len(order[layers[0]]))}
        copied = tuple(replace(box, copies=copies[box.place], uses=len(layers)) for box in first)
        groups.append(Group(copied, len(layers) if part.period == 1 else end - start))
        start = end
    return Pattern(tuple(groups), -(-part.layers // part.period) if part.period > 1 else 1, not part.layers % part.period)


# Drawing


def draw(architecture: Architecture) -> Figure:
    """Columns side by side, their bottoms on one line."""
    step = LEFT + WIDTH + RIGHT
    height = max(sum(_height(item) + GAP for item in column) for column in architecture.columns) + 1.45
    figure = Figure(figsize=(step * len(architecture.columns), height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, step * len(architecture.columns)), ylim=(0, height))
    axes.set_axis_off()
    size = min(13, 13 * TITLE / len(architecture.title))
    axes.text(0.25, height - 0.3, architecture.title, fontsize=size, fontweight="bold", va="center")
    axes.text(0.25, height - 0.6, architecture.subtitle, va="center", color="#444444")
    painters = [ColumnPainter(axes, index * step + LEFT, 0.5) for index in range(len(architecture.columns))]
    for painter, column in zip(painters, architecture.columns, strict=True):
        painter.column(column, last=painter is painters[-1])
    painters[0].label(0.25, "tokens")
    if len(painters) == 2:
        _join(axes, *painters)
    return figure


def _lines(box: Box) -> list[str]:
    return wrap(box.detail, CHARACTERS)


def _height(item: Item) -> float:
    if isinstance(item, Box):
        return 0.15 + LINE * (1 + len(_lines(item)))
    inner = sum(2 * PADDING + sum(_height(box) + GAP for box in group.boxes) for group in item.groups) - GAP
    return inner + (2 * PADDING if item.times > 1 else 0)


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
                self.pattern(item)
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
        self.axes.text(self.middle, y, text, ha="center", va="center", color="#444444")

    def box(self, box: Box) -> float:
        """Draws the box at `y`, moves `y` above it, and returns its bottom."""
        bottom = self.y
        self.arrow()
        self.frame(self.x, bottom, WIDTH, _height(box), (COLOURS[box.kind], "#555555"), 3)
        top = bottom + _height(box) - 0.075 - LINE / 2
        self.axes.text(self.middle, top, box.title, ha="center", va="center", fontweight="bold", fontsize=8.5)
        for number, line in enumerate(_lines(box), 1):
            self.axes.text(self.middle, top - LINE * number, line, ha="center", va="center", fontsize=7.5)
        if box.parameters:
            times = f"{box.copies} × " if box.copies > 1 else ""
            text = f"{times}{box.parameters:,}"
            self.axes.text(self.x + WIDTH + 0.25, bottom + _height(box) / 2, text, va="center", fontsize=8)
        self.y = bottom + _height(box) + GAP
        return bottom

    def frame(self, x: float, y: float, width: float, height: float, colours: tuple[str, str], order: int) -> None:
        """Draws a rounded rectangle."""
        face, edge = colours
        rounded = "round,pad=0,rounding_size=0.06"
        self.axes.add_patch(
            FancyBboxPatch((x, y), width, height, rounded, facecolor=face, edgecolor=edge, linewidth=0.8, zorder=order)
        )

    def pattern(self, pattern: Pattern) -> None:
        """Draws the groups once, with a bracket that counts their repeats."""
        repeated = pattern.times > 1
        bottom = self.y
        self.y += PADDING if repeated else 0
        for group in pattern.groups:
            self.group(group)
        if repeated:
            self.y += PADDING
            repeats = f"{pattern.times} times" + ("" if pattern.whole else ",\nthe last\nends early")
            self.bracket(self.x - 0.85, bottom, self.y - GAP, repeats)

    def group(self, group: Group) -> None:
        """Draws one layer in its frame."""
        bottom = self.y
        height = sum(_height(box) + GAP for box in group.boxes) - GAP + 2 * PADDING
        self.frame(self.x - 0.22, bottom, WIDTH + 0.36, height, ("#FAFAFA", "#AAAAAA"), 0)
        self.y += PADDING
        bottoms: list[float] = []
        for number, box in enumerate(group.boxes):
            bottoms.append(self.box(box))
            if box.residual:
                self.residual(bottoms[number + 1 - box.residual] - GAP / 2, bottoms[-1] + _height(box) / 2)
            if box.kind == "cross":
                self.crossing = bottoms[-1] + _height(box) / 2
        self.y = bottom + height + GAP
        if group.layers > 1:
            self.bracket(self.x - 0.32, bottom, bottom + height, group.note)

    def residual(self, bottom: float, top: float) -> None:
        """Draws a line around what the sum at its top adds to."""
        left = self.x - 0.11
        self.axes.plot([self.middle, left, left], [bottom, bottom, top], color="#888888", linewidth=0.8)
        self.axes.annotate("", (self.x, top), (left, top), arrowprops=ARROW | {"color": "#888888", "mutation_scale": 6})

    def bracket(self, x: float, bottom: float, top: float, text: str) -> None:
        """Draws a bracket that is open to the right, its text to the left."""
        self.axes.plot([x, x - 0.08, x - 0.08, x], [bottom, bottom, top, top], color="#444444", linewidth=1)
        middle = (bottom + top) / 2
        crossed = abs(self.crossing - middle) < 2 * LINE  # by the line from the other column
        self.axes.text(x - 0.14, middle + 3 * LINE * crossed, text, ha="right", va="center", fontsize=8.5)


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
