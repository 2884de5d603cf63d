"""What a picture of one model shows: boxes from the tokens up to the scores, as the real modules state them.

So the picture agrees with the model. Equal layers are one group, with the number of times that they run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from models.describe import Column, Part
from models.heads import Classifier


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


def of(model: Classifier, title: str, subtitle: str) -> Architecture:
    """Of the real modules: each states its parts."""
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
