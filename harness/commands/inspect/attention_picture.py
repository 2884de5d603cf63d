"""Attention maps as a grid of heat maps, a row a layer and a column a head. The same bytes for the same weights."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.commands.inspect.attention_maps import AttentionMap
from harness.commands.inspect.picture import fitted

READABLE = 4.5
"""Points that a piece needs beside a map; of a text that leaves less the places are written."""

SIDE, GAP, LEFT, TOP, BOTTOM, MARGIN, NAME = 1.9, 0.14, 1.4, 0.95, 0.95, 0.3, 0.8
"""Inches: of a map, between two, around all, and of the name of a piece."""

LARGE = 3.4
"""Of a map of few heads, so that pieces can be read."""

FEW = 4
"""Heads beside each other whose maps are large."""

NEVER = "#DADADA"
"""Where the weight is zero: outside of a window, after a causal piece."""


def draw(maps: Sequence[AttentionMap], pieces: Sequence[str], title: str) -> Figure:
    """Each map scaled by its own largest weight; queries go down, keys to the right."""
    heads = len(maps[0].weights)
    side = LARGE if heads <= FEW else SIDE
    width = max(8, LEFT + heads * (side + GAP) + MARGIN)
    height = TOP + len(maps) * (side + GAP) + (BOTTOM if _named(pieces, side) else MARGIN)
    figure = Figure(figsize=(width, height))
    whole = figure.add_axes((0, 0, 1, 1))
    whole.set(xlim=(0, width), ylim=(0, height))
    whole.set_axis_off()
    _head(whole, title, width, height)
    for row, layer in enumerate(maps):
        bottom = height - TOP - (row + 1) * side - row * GAP
        _name(whole, layer.title, bottom + side / 2)
        for head in range(heads):
            left = LEFT + head * (side + GAP)
            if row == 0:
                whole.text(left + side / 2, height - TOP + 0.1, f"head {head + 1}", ha="center", va="center", fontsize=8)
            axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
            _map(axes, layer.weights[head], pieces, (head == 0, row == len(maps) - 1), side)
    return figure


def _head(axes: Axes, title: str, width: float, height: float) -> None:
    text, size = fitted(title, width - 2 * MARGIN, 13, bold=True)
    axes.text(MARGIN, height - 0.28, text, fontsize=size, fontweight="bold", va="center")
    caption = (
        "a row is a piece, its columns how much it looks at each; darker is more, each map by its own largest; grey is never"
    )
    caption, size = fitted(caption, width - 2 * MARGIN, 9)
    axes.text(MARGIN, height - 0.55, caption, fontsize=size, va="center", color="#444444")


def _name(axes: Axes, title: str, middle: float) -> None:
    axes.text(
        MARGIN - 0.05,
        middle,
        title.replace(", ", ",\n"),
        rotation=90,
        ha="center",
        va="center",
        fontsize=8.5,
        fontweight="bold",
    )


def _map(axes: Axes, weights: object, pieces: Sequence[str], sides: tuple[bool, bool], side: float) -> None:
    """One heat map; `sides`: whether pieces are named at its left and below it."""
    values = np.asarray(weights)
    colours = colormaps["Blues"].with_extremes(bad=NEVER)
    axes.imshow(np.ma.masked_equal(values, 0), cmap=colours, vmin=0, vmax=values.max(), interpolation="nearest", aspect="auto")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color="#999999", linewidth=0.6)
    _ticks(axes, pieces, sides, side)


def _named(pieces: Sequence[str], side: float) -> bool:
    return 72 * side / len(pieces) >= READABLE


def _ticks(axes: Axes, pieces: Sequence[str], sides: tuple[bool, bool], side: float) -> None:
    """Pieces where each has room for its letters, else some places."""
    named = _named(pieces, side)
    places = range(0, len(pieces), 1 if named else -(-len(pieces) // 8))
    size = min(7, 72 * side / len(pieces)) if named else 6
    names = [fitted(pieces[place], NAME * READABLE / size, READABLE)[0] if named else str(place) for place in places]
    axes.tick_params(length=0, labelsize=size, pad=2)
    if sides[0]:
        axes.set_yticks(places, names)
    if sides[1]:
        axes.set_xticks(places, names, rotation=90 if named else 0)
