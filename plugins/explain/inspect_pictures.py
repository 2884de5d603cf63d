"""The pictures of `inspect`: the input of a model as boxes, and its attention as heat maps. Lengths are inches.

The manner of the boxes is that of figure 2 of the BERT paper (arXiv:1810.04805): vectors of pieces, segments and positions, one
above the other, that are summed. Attention weights are computed by the model itself: attention is linear in its values, so with
unit vectors for values the output of the module is its weights. That works for every kind of attention, with its masks, windows
and biases, and the training path has no branch for it. H heads, T tokens, K head size, D hidden.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from textwrap import wrap

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from harness.models.attention.disentangled import DisentangledAttention
from harness.models.attention.full import SelfAttention
from harness.models.attention.relative import RelativeAttention
from harness.models.batch import Batch
from harness.models.decoder import CrossAttention
from harness.models.encoder import Encoder
from harness.plugins.explain.pictures import breadth, drawable, fitted, rounded, sheet

NOTHING = "-"
"""Where a piece has no label."""

ACROSS = 24
"""Pieces side by side."""

WIDTH, HEIGHT, STEP, PLUS = 0.66, 0.3, 0.72, 0.2
"""A box; the step to the next; between rows that are summed."""

LEFT, MARGIN, LINE, BETWEEN = 1.7, 0.3, 0.19, 0.35
"""Left of the boxes; around all; of a line of text; between two bands of pieces."""

ROWS = {
    "piece": ("Input", HEIGHT),
    "label": ("Label", 0.26),
    "id": ("Token embeddings", HEIGHT + 0.1),
    "segment": ("Segment embeddings", HEIGHT + PLUS),
    "position": ("Position embeddings", HEIGHT + PLUS),
}
"""Names of the rows from the top down, and their heights with the space above them."""

COLOURS = {"piece": "#F1EFEA", "id": "#F7F1C9", "position": "#E4E4E4"}
SEGMENTS = ("#D3EBD3", "#D6E6F4")

READABLE = 4.5
"""Points that a piece needs beside a map; of a text that leaves less the places are written."""

SIDE, GAP, AXIS, TOP, BOTTOM, NAME = 1.9, 0.14, 1.4, 0.7, 1.2, 0.8
"""A map; between two; left of, above and below all; the name of a piece."""

LARGE = 3.4
"""A map where there are few heads, so that pieces can be read."""

FEW = 4
"""Heads beside each other whose maps are large."""

NEVER = "#DADADA"
"""Where the weight is zero: outside of a window, after a causal piece."""

CAPTION = "a row is a piece, its columns how much it looks at each; darker is more, each map by its own largest; grey is never"

KINDS = (SelfAttention, DisentangledAttention, RelativeAttention, CrossAttention)
OF_VALUES = {"query_key_value": 3, "key_value": 2, "value": 1}
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
    rows = {name: ROWS[name] for name in ("piece", "label", *sequence.added) if name in sequence.rows}
    band = BETWEEN + sum(height for _, height in rows.values())
    width = LEFT + STEP * max(12, min(ACROSS, count)) + MARGIN
    notes = [line for note in sequence.notes for line in wrap(drawable(note), int(width * 13))]
    top = LINE * len(notes) + band * -(-count // ACROSS)
    figure, axes = sheet(width, top + 0.75)
    title, size = fitted(sequence.title, width - 2 * MARGIN, 13, bold=True)
    axes.text(MARGIN, top + 0.45, title, fontsize=size, fontweight="bold", va="center")
    for number, note in enumerate(notes):
        axes.text(MARGIN, top + 0.15 - LINE * number, note, va="center", color="#444444")
    y = top + 0.05 - LINE * len(notes)
    for first in range(0, count, ACROSS):
        for name, (title, height) in rows.items():
            y -= height
            axes.text(MARGIN, y + HEIGHT / 2, title, va="center", fontsize=8, color="#444444")
            for place, number in enumerate(range(first, min(first + ACROSS, count))):
                _cell(axes, (LEFT + STEP * place, y), name, sequence.rows[name][number], sequence.rows["piece"][number])
        y -= BETWEEN
    return figure


def _cell(axes: Axes, corner: tuple[float, float], name: str, text: str, piece: str) -> None:
    """A box with a piece, or with an E and the index of a vector, a plus above it; of a label its text alone."""
    (x, y), middle = corner, corner[0] + WIDTH / 2
    centred = {"x": middle, "y": y + HEIGHT / 2, "ha": "center", "va": "center"}
    if name == "label":
        label, size = fitted(text, STEP - 0.04, 8, bold=True)
        style = {"color": "#999999"} if text in (NOTHING, "O") else {"color": "#A33B00", "fontweight": "bold"}
        axes.text(s=label, fontsize=size, **centred, **style)
        return
    rounded(axes, x, y, WIDTH, HEIGHT, facecolor=SEGMENTS[int(text) % 2] if name == "segment" else COLOURS[name])
    if name == "piece":
        label, size = fitted(text, WIDTH - 0.08, 8.5)
        axes.text(s=label, fontsize=size, **centred)
        return
    if name != "id":
        axes.text(s="+", fontsize=9, color="#444444", **centred | {"y": y + HEIGHT + PLUS / 2})
    index = piece if name == "id" else "AB"[int(text)] if name == "segment" and int(text) < 2 else text
    before = breadth("E", 9)
    label, size = fitted(index, WIDTH - 0.08 - before, 7)
    left = middle - (before + breadth(label, size)) / 2
    axes.text(left, y + HEIGHT / 2 + 0.005, "E", va="center_baseline", fontsize=9)
    axes.text(left + before, y + HEIGHT / 2 - 0.045, label, va="center_baseline", fontsize=size)


# Attention


@dataclass(frozen=True)
class AttentionMap:
    """One attention of one layer; a row of `weights` is a query, a column a key."""

    title: str
    weights: Tensor  # (H, T, T)
    scores: Tensor | None = None  # (H, T, T) before the softmax; None of an attention that adds or cuts products of its own


def maps_of(encoder: Encoder, batch: Batch) -> list[AttentionMap]:
    """The maps of every attention in the order in which they run, a shared one at each of its layers; empty without attention.

    `batch` holds one text and no padding. The encoder must be in evaluation mode, or dropout would be in the weights.
    """
    calls: list[tuple[nn.Module, tuple]] = []
    with torch.inference_mode(), ExitStack() as stack:
        for module in encoder.modules():
            if isinstance(module, KINDS):
                stack.enter_context(module.register_forward_pre_hook(lambda *call: calls.append(call)))
        encoder(batch)
    heads, titles = encoder.config.num_attention_heads, _titles(encoder) if calls else []
    return [AttentionMap(title, weights(*call, heads), scores(*call)) for title, call in zip(titles, calls, strict=True)]


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
    # in every head token `first + k` has a one in feature k alone
    unit = (torch.eye(T, max(T, first + size))[:, first : first + size].repeat(1, heads) for first in range(0, T, size))
    parts = [_mixed(attention, inputs, values) for values in unit]
    joined = torch.cat([part.view(T, heads, size) for part in parts], dim=-1)
    return joined[..., :T].transpose(0, 1).float().cpu()


def _mixed(attention: nn.Module, inputs: tuple, values: Tensor) -> Tensor:
    """(T, D): the input of the output projection for these values."""
    captured: list[Tensor] = []

    def replaced(parts: int) -> Callable[..., Tensor]:
        return lambda module, projected, output: torch.cat(
            [output[..., : -(output.shape[-1] // parts)], values.to(output).expand(*output.shape[:-1], -1)], dim=-1
        )

    with torch.inference_mode(), ExitStack() as stack:
        for name, projection in attention.named_modules():
            if parts := OF_VALUES.get(name.rpartition(".")[2]):
                stack.enter_context(projection.register_forward_hook(replaced(parts)))
        hook = attention.output.register_forward_pre_hook(lambda module, projected: captured.append(projected[0]))
        stack.enter_context(hook)
        attention(*inputs)
    return captured[0][0]


def scores(attention: nn.Module, inputs: tuple) -> Tensor | None:
    """(H, T, T) of an attention that calls torch's kernel once for all pairs of pieces; -inf where a pair is masked."""
    calls: list[tuple] = []
    with torch.inference_mode(), KernelCalls(lambda *call: calls.append(call)):
        attention(*inputs)
    T = inputs[0].shape[1]
    if len(calls) != 1 or calls[0][0].shape[2] != T or calls[0][1].shape[2] != T:
        return None
    ((query, key, _, mask, scale, _),) = calls
    products = (query @ key.transpose(-1, -2)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        products = products.masked_fill(~mask, float("-inf")) if mask.dtype is torch.bool else products + mask
    return products[0].float().cpu()


class KernelCalls(TorchFunctionMode):
    """Passes on queries, keys, values, mask, scale and output of each call of torch's attention."""

    def __init__(self, see: Callable[..., object]) -> None:
        super().__init__()
        self._see = see

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        output = function(*arguments, **(keywords or {}))
        if function is F.scaled_dot_product_attention:
            self._see(*arguments, keywords["attn_mask"], keywords["scale"], output)
        return output


def draw_attention(maps: Sequence[AttentionMap], pieces: Sequence[str], title: str) -> Figure:
    """Each map scaled by its own largest weight; queries go down, keys to the right. Pieces are named where letters fit."""
    heads, count = len(maps[0].weights), len(pieces)
    side = LARGE if heads <= FEW else SIDE
    width, height = max(8, AXIS + heads * (side + GAP) + MARGIN), TOP + len(maps) * (side + GAP) + BOTTOM
    figure = Figure(figsize=(width, height))
    text, size = fitted(f"Attention: {title}", width - 2 * MARGIN, 13, bold=True)
    figure.suptitle(text, y=1 - 0.15 / height, fontsize=size, fontweight="bold")
    figure.supxlabel(CAPTION, y=0.15 / height, fontsize=9, color="#444444")
    named = 72 * side / count >= READABLE
    places, size = range(0, count, 1 if named else -(-count // 8)), min(7, 72 * side / count) if named else 6
    names = [fitted(pieces[place], NAME * READABLE / size, READABLE)[0] if named else str(place) for place in places]
    colours = colormaps["Blues"].with_extremes(bad=NEVER)
    left, bottom = AXIS / width, BOTTOM / height
    ends = {"left": left, "bottom": bottom, "right": left + (heads * (side + GAP) - GAP) / width, "top": 1 - TOP / height}
    space = {"wspace": GAP / side, "hspace": GAP / side}
    grid = figure.subplots(len(maps), heads, squeeze=False, gridspec_kw=ends | space)
    for layer, row in zip(maps, grid, strict=True):
        row[0].set_ylabel(layer.title.replace(", ", ",\n"), fontsize=8.5, fontweight="bold")
        for axes, weights in zip(row, np.asarray(layer.weights), strict=True):
            axes.imshow(np.ma.masked_equal(weights, 0), cmap=colours, vmin=0, interpolation="nearest", aspect="auto")
            axes.set(xticks=[], yticks=[])
            axes.tick_params(length=0, labelsize=size, pad=2)
            axes.spines[:].set(visible=True, color="#999999", linewidth=0.6)
        row[0].set_yticks(places, names)
    for head, (first, last) in enumerate(zip(grid[0], grid[-1], strict=True), 1):
        first.set_title(f"head {head}", fontsize=8)
        last.set_xticks(places, names, rotation=90 if named else 0)
    return figure
