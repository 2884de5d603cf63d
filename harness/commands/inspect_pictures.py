"""The pictures of `inspect`: the input of a model as boxes, and its attention as heat maps. Lengths are inches.

The manner of the boxes is that of figure 2 of the BERT paper (arXiv:1810.04805): vectors of pieces, segments and positions, one
above the other, that are summed. Attention weights are computed by the model itself: attention is linear in its values, so with
unit vectors for values the output of the module is its weights. That works for every kind of attention, with its masks, windows
and biases, and the training path has no branch for it. H heads, T tokens, K head size, D hidden.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from textwrap import wrap

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from harness.commands.pictures import breadth, drawable, fitted
from models.attention.disentangled import DisentangledAttention
from models.attention.full import SelfAttention
from models.attention.relative import RelativeAttention
from models.batch import Batch
from models.decoder import CrossAttention
from models.encoder import Encoder

NOTHING = "-"
"""Where a piece has no label."""

ACROSS = 24
"""Pieces side by side."""

WIDTH, HEIGHT, STEP, PLUS, APART = 0.66, 0.3, 0.72, 0.2, 0.1
"""A box; the step to the next; between rows that are summed; between the pieces and those."""

LEFT, MARGIN, LINE, LABELS, BETWEEN = 1.7, 0.3, 0.19, 0.26, 0.35
"""Left of the boxes; around all; of a line of text; of the row of labels; between two bands of pieces."""

INPUT = "#F1EFEA"
COLOURS = {"id": "#F7F1C9", "position": "#E4E4E4"}
SEGMENTS = ("#D3EBD3", "#D6E6F4")
NAMES = {"id": "Token embeddings", "segment": "Segment embeddings", "position": "Position embeddings"}
LETTERS = "AB"

READABLE = 4.5
"""Points that a piece needs beside a map; of a text that leaves less the places are written."""

SIDE, GAP, AXIS, TOP, BOTTOM, NAME = 1.9, 0.14, 1.4, 0.95, 0.95, 0.8
"""A map; between two; left of, above and below all; the name of a piece."""

LARGE = 3.4
"""A map where there are few heads, so that pieces can be read."""

FEW = 4
"""Heads beside each other whose maps are large."""

NEVER = "#DADADA"
"""Where the weight is zero: outside of a window, after a causal piece."""

KINDS = (SelfAttention, DisentangledAttention, RelativeAttention, CrossAttention)
OF_VALUES = {"query_key_value": 3, "global_query_key_value": 3, "key_value": 2, "value": 1}
"""Projections that end in the values, and of how many equal parts those are the last."""


@dataclass(frozen=True)
class InputSequence:
    """One sequence as the model reads it; every row has one text a piece."""

    title: str
    texts: tuple[tuple[str, str], ...]  # column of the data set and its text
    rows: dict[str, tuple[str, ...]]  # piece, id, segment, position, mask, label: those that there are
    added: tuple[str, ...]  # rows whose vectors are summed: id, and of segment and position those that the model adds
    notes: tuple[str, ...]  # beside the table, a line each
    batch: Batch


def draw(sequence: InputSequence) -> Figure:
    """Rows of up to ACROSS pieces below each other, the notes above them."""
    count = len(sequence.rows["piece"])
    width = LEFT + STEP * max(12, min(ACROSS, count)) + MARGIN
    notes = [line for note in sequence.notes for line in wrap(drawable(note), int(width * 13))]
    band = _band_height(sequence)
    bands = -(-count // ACROSS)
    height = 0.75 + LINE * len(notes) + bands * (band + BETWEEN)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    title, size = fitted(sequence.title, width - 2 * MARGIN, 13, bold=True)
    axes.text(MARGIN, height - 0.3, title, fontsize=size, fontweight="bold", va="center")
    for number, note in enumerate(notes):
        axes.text(MARGIN, height - 0.6 - LINE * number, note, va="center", color="#444444")
    top = height - 0.7 - LINE * len(notes)
    for number in range(bands):
        pieces = slice(number * ACROSS, (number + 1) * ACROSS)
        Band(axes, sequence, pieces, top - number * (band + BETWEEN)).draw()
    return figure


def _band_height(sequence: InputSequence) -> float:
    rows = 1 + len(sequence.added)
    return rows * HEIGHT + (rows - 2) * PLUS + APART + ("label" in sequence.rows) * LABELS


@dataclass
class Band:
    """Pieces side by side, drawn downward from `y`."""

    axes: Axes
    sequence: InputSequence
    pieces: slice
    y: float

    def draw(self) -> None:
        """The pieces, their labels, and the rows that are summed."""
        self._row("Input", self._texts("piece"), [self._colour("piece", text) for text in self._texts("piece")], False)
        if "label" in self.sequence.rows:
            self._labels(self._texts("label"))
        for number, name in enumerate(self.sequence.added):
            if number:
                self._plus()
            else:
                self.y -= APART
            texts = self._texts(name)
            label = self._texts("piece") if name == "id" else [_letter(text) for text in texts] if name == "segment" else texts
            self._row(NAMES[name], label, [self._colour(name, text) for text in texts], True)

    def _texts(self, name: str) -> Sequence[str]:
        return self.sequence.rows[name][self.pieces]

    def _colour(self, name: str, text: str) -> str:
        if name == "segment":
            return SEGMENTS[int(text) % len(SEGMENTS)]
        return INPUT if name == "piece" else COLOURS[name]

    def _row(self, name: str, texts: Sequence[str], colours: Sequence[str], vectors: bool) -> None:
        """Boxes under one name; an E with the text as its index for vectors."""
        middle = self.y - HEIGHT / 2
        self.axes.text(MARGIN, middle, name, va="center", fontsize=8, color="#444444")
        for place, (text, colour) in enumerate(zip(texts, colours, strict=True)):
            x = LEFT + STEP * place
            rounded = FancyBboxPatch((x, self.y - HEIGHT), WIDTH, HEIGHT, "round,pad=0,rounding_size=0.05")
            rounded.set(facecolor=colour, edgecolor="#555555", linewidth=0.7)
            self.axes.add_patch(rounded)
            self._inside(x + WIDTH / 2, middle, text, vectors)
        self.y -= HEIGHT

    def _inside(self, x: float, y: float, text: str, vector: bool) -> None:
        before = breadth("E", 9) if vector else 0.0
        label, size = fitted(text, WIDTH - 0.08 - before, 7 if vector else 8.5)
        if not vector:
            self.axes.text(x, y, label, ha="center", va="center", fontsize=size)
            return
        left = x - (before + breadth(label, size)) / 2
        self.axes.text(left, y + 0.005, "E", va="center_baseline", fontsize=9)
        self.axes.text(left + before, y - 0.045, label, va="center_baseline", fontsize=size)

    def _labels(self, texts: Sequence[str]) -> None:
        """Below the pieces; a dash for a piece without label."""
        middle = self.y - LABELS / 2
        self.axes.text(MARGIN, middle, "Label", va="center", fontsize=8, color="#444444")
        for place, text in enumerate(texts):
            label, size = fitted(text, STEP - 0.04, 8, bold=True)
            plain = text in (NOTHING, "O")
            style = {"color": "#999999" if plain else "#A33B00", "fontweight": "normal" if plain else "bold"}
            self.axes.text(LEFT + STEP * place + WIDTH / 2, middle, label, ha="center", va="center", fontsize=size, **style)
        self.y -= LABELS

    def _plus(self) -> None:
        """Between two rows."""
        for place in range(len(self._texts("piece"))):
            x = LEFT + STEP * place + WIDTH / 2
            self.axes.text(x, self.y - PLUS / 2, "+", ha="center", va="center", fontsize=9, color="#444444")
        self.y -= PLUS


def _letter(text: str) -> str:
    return LETTERS[int(text)] if int(text) < len(LETTERS) else text


# Attention


@dataclass(frozen=True)
class AttentionMap:
    """One attention of one layer; a row of `weights` is a query, a column a key."""

    title: str
    weights: Tensor  # (H, T, T)


def maps_of(encoder: Encoder, batch: Batch) -> list[AttentionMap]:
    """The maps of every attention in the order in which they run, a shared one at each of its layers; empty without attention.

    `batch` holds one text and no padding. The encoder must be in evaluation mode, or dropout would be in the weights.
    """
    calls: list[tuple[nn.Module, tuple]] = []
    with torch.inference_mode(), ExitStack() as stack:
        for module in encoder.modules():
            if isinstance(module, KINDS):
                stack.enter_context(_hooked(module.register_forward_pre_hook, lambda *call: calls.append(call)))
        encoder(batch)
    heads, titles = encoder.config.num_attention_heads, _titles(encoder) if calls else []
    return [AttentionMap(title, weights(*call, heads)) for title, call in zip(titles, calls, strict=True)]


def _titles(encoder: Encoder) -> list[str]:
    """The title of each attention; encoder and decoder are numbered apart."""
    order, depth = encoder.layers.execution_order(), encoder.config.depth
    titles = []
    for number, blocks in enumerate(order):
        part = "" if len(order) == depth else "decoder " if number >= depth else "encoder "
        title = f"{part}layer {number % depth + 1}"
        attentions = [block.attention for block in blocks if hasattr(block, "attention")]
        titles += [f"{title}, over the encoder" if isinstance(it, CrossAttention) else title for it in attentions]
    return titles


def weights(attention: nn.Module, inputs: tuple, heads: int) -> Tensor:
    """(H, T, T) of an attention for the inputs of its forward, one text.

    K unit vectors fit into the values of a pass, so there are T / K passes.
    """
    T, D = inputs[0].shape[1:]
    size = D // heads
    parts = [_mixed(attention, inputs, _unit_vectors(T, first, size, heads)) for first in range(0, T, size)]
    joined = torch.cat([part.view(T, heads, size) for part in parts], dim=-1)
    return joined[..., :T].transpose(0, 1).float().cpu()


def _unit_vectors(length: int, first: int, size: int, heads: int) -> Tensor:
    """(T, D): in every head token `first + k` has a one in feature k alone."""
    return torch.eye(length, max(length, first + size))[:, first : first + size].repeat(1, heads)


def _mixed(attention: nn.Module, inputs: tuple, values: Tensor) -> Tensor:
    """(T, D): the input of the output projection for these values."""
    captured: list[Tensor] = []

    def replaced(parts: int) -> Callable[..., Tensor]:
        return lambda module, projected, output: torch.cat(
            [output[..., : -(output.shape[-1] // parts)], values.to(output).expand(*output.shape[:-1], -1)], dim=-1
        )

    with torch.inference_mode(), ExitStack() as stack:
        for name, parts in OF_VALUES.items():
            projection = getattr(attention, name, None)
            if projection is not None:
                stack.enter_context(_hooked(projection.register_forward_hook, replaced(parts)))
        stack.enter_context(
            _hooked(attention.output.register_forward_pre_hook, lambda module, projected: captured.append(projected[0]))
        )
        attention(*inputs)
    return captured[0][0]


@contextmanager
def _hooked(register: Callable[[Callable], torch.utils.hooks.RemovableHandle], hook: Callable) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


def draw_attention(maps: Sequence[AttentionMap], pieces: Sequence[str], title: str) -> Figure:
    """Each map scaled by its own largest weight; queries go down, keys to the right."""
    heads = len(maps[0].weights)
    side = LARGE if heads <= FEW else SIDE
    width = max(8, AXIS + heads * (side + GAP) + MARGIN)
    height = TOP + len(maps) * (side + GAP) + (BOTTOM if _are_named(pieces, side) else MARGIN)
    figure = Figure(figsize=(width, height))
    whole = figure.add_axes((0, 0, 1, 1))
    whole.set(xlim=(0, width), ylim=(0, height))
    whole.set_axis_off()
    _head(whole, f"Attention: {title}", width, height)
    for row, layer in enumerate(maps):
        bottom = height - TOP - (row + 1) * side - row * GAP
        _name(whole, layer.title, bottom + side / 2)
        for head in range(heads):
            left = AXIS + head * (side + GAP)
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


def _are_named(pieces: Sequence[str], side: float) -> bool:
    return 72 * side / len(pieces) >= READABLE


def _ticks(axes: Axes, pieces: Sequence[str], sides: tuple[bool, bool], side: float) -> None:
    """Pieces where each has room for its letters, else some places."""
    named = _are_named(pieces, side)
    places = range(0, len(pieces), 1 if named else -(-len(pieces) // 8))
    size = min(7, 72 * side / len(pieces)) if named else 6
    names = [fitted(pieces[place], NAME * READABLE / size, READABLE)[0] if named else str(place) for place in places]
    axes.tick_params(length=0, labelsize=size, pad=2)
    if sides[0]:
        axes.set_yticks(places, names)
    if sides[1]:
        axes.set_xticks(places, names, rotation=90 if named else 0)
