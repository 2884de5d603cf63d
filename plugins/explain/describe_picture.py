"""The picture of one model, or of several side by side: boxes from the tokens up to the scores, as the real modules state them.

Lengths are inches. Equal layers are one group, with the number of times that they run.
"""

from dataclasses import dataclass
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.comparison.paired import grouped
from harness.models.heads import Classifier
from harness.plugins.explain.parts import Column, Part, Parts, columns, embedding_parts, head_parts
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
WIDTH, GAP, LINE, COLUMN, LEFT = 3.7, 0.17, 0.17, 7.1, 1.75
"""A box; between two; a line of text; a column with its margins, and the margin to its left."""
FEW = 6
"""Numbers of layers that are listed."""
ARROW = {"arrowstyle": "-|>", "color": "#444444", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}


@dataclass(frozen=True)
class Group:
    """Parts above each other, each with the number of modules that do its work; with a note they are a layer."""

    parts: Parts
    copies: tuple[int, ...]
    note: str = ""

    @property
    def height(self) -> float:
        """With the gap above it."""
        return sum(_height(part) + GAP for part in self.parts) + (2 * GAP if self.note else 0)


@dataclass(frozen=True)
class Architecture:
    """What the picture shows: one column, or two where the second also reads the output of the first."""

    title: str
    subtitle: str
    columns: list[list[Group]]


def architecture_of(model: Classifier, title: str, subtitle: str) -> Architecture:
    """The columns of a model, whose modules state their parts."""
    drawn = []
    for column in columns(model.encoder.layers):
        below, above = ([Group(parts, (1,) * len(parts))] for parts in (column.below, column.above))
        drawn.append([*below, *_layers(column), *above])
    embeddings, head = embedding_parts(model.encoder.embeddings), head_parts(model)
    drawn[0].insert(0, Group(embeddings, (1,) * len(embeddings)))
    drawn[-1].append(Group(head, (1,) * len(head)))
    return Architecture(title, subtitle, drawn)


def _layers(column: Column) -> list[Group]:
    """The layers of a column, equal ones grouped."""
    alike, groups = grouped((layer, place) for place, layer in enumerate(column.layers)), []
    for parts, places in alike.items():
        copies = [len({column.layers[place][at].modules for place in places}) for at in range(len(parts))]
        uses, used = len(places), {number for number, part in zip(copies, parts, strict=True) if part.parameters}
        note = f"× {uses}" if len(alike) == 1 else "\n".join(wrap(numbered(places), 13))
        if len(used) > 1:
            note += ",\npartly\nshared"
        elif used != {uses}:
            note = f"one layer,\nruns {uses} times" if used == {1} else f"{max(used)} layers,\nrun {uses} times"
        groups.append(Group(parts, tuple(copies), note))
    return groups


def numbered(places: list[int]) -> str:
    """`layers 1-4`, `layers 1, 4, 7`: numbers from 1 on."""
    numbers = [place + 1 for place in places]
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {numbers[0]}-{numbers[-1]}"
    listed = numbers if len(numbers) <= FEW else [*numbers[: FEW - 2], "...", numbers[-1]]
    return f"layers {', '.join(map(str, listed))}"


# Drawing


def draw(*architectures: Architecture) -> Figure:
    """Columns side by side, their bottoms on one line."""
    every = [column for architecture in architectures for column in architecture.columns]
    height = max(sum(group.height for group in column) for column in every) + 1.45
    figure, axes = sheet(COLUMN * len(every), height)
    x = LEFT
    for architecture in architectures:
        title, size = fitted(architecture.title, COLUMN - 0.5, 13)
        axes.text(x - LEFT + 0.25, height - 0.3, title, fontsize=size, fontweight="bold", va="center")
        axes.text(x - LEFT + 0.25, height - 0.6, architecture.subtitle, va="center", color="#444444")
        axes.text(x + WIDTH / 2, 0.25, "tokens", **CENTRED, color="#444444")
        ends = [_draw_column(axes, x + COLUMN * at, groups) for at, groups in enumerate(architecture.columns)]
        if len(ends) == 2:  # the embeddings go to both columns, the top of the first to where the second reads it
            (split, top, _), (start, _, crossing) = ends[0], (0.5 - GAP, *ends[1][1:])
            middle, lane = x + WIDTH / 2, x + WIDTH + 1.5
            axes.plot(
                [middle, lane, lane, middle + COLUMN, middle + COLUMN],
                [split, split, 0.2, 0.2, start],
                "-",
                color="#444444",
                linewidth=0.8,
            )
            axes.plot([middle, lane + 0.2, lane + 0.2], [top, top, crossing], "-", color="#444444", linewidth=0.8)
            axes.annotate("", (x + COLUMN, crossing), (lane + 0.2, crossing), arrowprops=ARROW)
        x += COLUMN * len(ends)
        axes.text(x - COLUMN + WIDTH / 2, ends[-1][1] + 0.12, "scores", **CENTRED, color="#444444")
    return figure


def _height(part: Part) -> float:
    return 0.15 + LINE * (1 + len(wrap(part.detail, 58)))


def _draw_column(axes: Axes, x: float, groups: list[Group]) -> tuple[float, float, float]:
    """Draws upward; heights of the end of the embeddings, of the top, and of the box that reads another column."""
    y, split, crossing, middle = 0.5, 0.0, 0.0, x + WIDTH / 2
    for group in groups:
        bottom = y
        if group.note:
            split, y = split or y - GAP / 2, y + GAP
        for part, copies in zip(group.parts, group.copies, strict=True):
            height = _height(part)
            axes.annotate("", (middle, y), (middle, y - GAP), arrowprops=ARROW)
            rounded(axes, x, y, WIDTH, height, facecolor=COLOURS[part.kind], zorder=3)
            top = y + height - 0.075 - LINE / 2
            axes.text(middle, top, part.title, **CENTRED, fontweight="bold", fontsize=8.5)
            for number, line in enumerate(wrap(part.detail, 58), 1):
                axes.text(middle, top - LINE * number, line, **CENTRED, fontsize=7.5)
            if part.parameters:
                text = f"{copies} × {part.parameters:,}" if copies > 1 else f"{part.parameters:,}"
                axes.text(x + WIDTH + 0.25, y + height / 2, text, va="center", fontsize=8)
            if part.kind == "cross":
                crossing = y + height / 2
            y += height + GAP
        if group.note:
            rounded(axes, x - 0.22, bottom, WIDTH + 0.36, y - bottom, facecolor="#FAFAFA", edgecolor="#AAAAAA", zorder=0)
            axes.text(x - 0.35, (bottom + y) / 2, group.note, ha="right", va="center", fontsize=8.5)
            y += GAP
    axes.annotate("", (middle, y), (middle, y - GAP), arrowprops=ARROW)
    return split, y, crossing
