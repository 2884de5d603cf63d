"""The attention of a model over a text: as weights, as scores before the softmax, as a picture, and of one word in numbers.

Weights are computed by the model itself: attention is linear in its values, so with unit vectors for values the output of the
module is its weights. That works for every kind of attention, with its masks, windows and biases, and the training path has
no branch for it. H heads, T pieces, K head size, D hidden, L layers.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from tokenizers import Encoding, Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from harness.errors import InputError
from harness.models.attention.disentangled import DisentangledAttention
from harness.models.attention.full import SelfAttention
from harness.models.attention.relative import RelativeAttention
from harness.models.batch import Batch
from harness.models.decoder import CrossAttention
from harness.models.encoder import Encoder
from harness.models.keys import spaced
from harness.plugins.explain.pictures import fitted
from harness.plugins.shared.weights import SEPARATOR
from harness.terminal import DASH, table, wrapped

KINDS = (SelfAttention, DisentangledAttention, RelativeAttention, CrossAttention)
OF_VALUES = {"query_key_value": 3, "key_value": 2, "value": 1}
"""Projections that end in the values, and of how many equal parts those are the last."""

NEVER = "#DADADA"
"""Where the weight is zero: outside of a window, after a causal piece."""

CAPTION = "rows: queries, columns: keys; darker: larger weight, relative to the largest of its map; grey: weight 0"

MOST_HEADS = 12
"""Maximum number of heads with a column each; above it only the mean is printed."""

MOST_STATES = 8
"""Layers that have columns, evenly spaced where there are more."""


@dataclass(frozen=True)
class AttentionMap:
    """One attention of one layer; rows of `weights` are queries, columns are keys."""

    title: str
    weights: Tensor  # (H, T, T)
    scores: Tensor | None = None  # (H, T, T) before the softmax; None of an attention that adds or cuts products of its own


def maps_of(encoder: Encoder, batch: Batch) -> list[AttentionMap]:
    """The maps of every attention in the order in which they run, a shared one at each of its layers; empty without attention.

    `batch` holds one text and no padding. The encoder must be in evaluation mode, or dropout would be in the weights.
    """
    calls: list[tuple[nn.Module, tuple[Any, ...]]] = []
    with torch.inference_mode(), ExitStack() as stack:
        for module in encoder.modules():
            if isinstance(module, KINDS):
                stack.enter_context(module.register_forward_pre_hook(lambda *call: calls.append(call)))
        encoder(batch)
    order, depth = encoder.layers.execution_order(), encoder.config.depth
    titles = []
    for number, blocks in enumerate(order if calls else ()):
        part = "" if len(order) == depth else "decoder " if number >= depth else "encoder "  # numbered apart
        title = f"{part}layer {number % depth + 1}"
        attentions = [block.attention for block in blocks if hasattr(block, "attention")]
        titles += [f"{title}, over the encoder" if isinstance(it, CrossAttention) else title for it in attentions]
    heads = encoder.config.num_attention_heads
    return [AttentionMap(title, weights(*call, heads), scores(*call)) for title, call in zip(titles, calls, strict=True)]


def weights(attention: nn.Module, inputs: tuple[Any, ...], heads: int) -> Tensor:
    """(H, T, T) of an attention for the inputs of its forward, one text; InputError for a text of several segments.

    K unit vectors fit into the values of a pass, so there are T / K passes.
    """
    T, size = inputs[0].shape[1], cast(nn.Linear, attention.output).in_features // heads
    if (longest := getattr(attention, "segment_length", None) or T) < T:
        raise InputError(
            f"attention is shown for one segment: expected at most model.segment_length={longest} pieces, got {T}; "
            "shorten the text, or lower task.max_length"
        )
    # in every head token `first + k` has a one in feature k alone
    unit = (torch.eye(T, max(T, first + size))[:, first : first + size].repeat(1, heads) for first in range(0, T, size))
    parts = [_mixed(attention, inputs, values) for values in unit]
    joined = torch.cat([part.view(T, heads, size) for part in parts], dim=-1)
    return joined[..., :T].transpose(0, 1).float().cpu()


def _mixed(attention: nn.Module, inputs: tuple[Any, ...], values: Tensor) -> Tensor:
    """(T, D): the input of the output projection for these values."""
    captured = []

    def replaced(parts: int) -> Callable[..., Tensor]:
        return lambda module, projected, output: torch.cat(
            [output[..., : -(output.shape[-1] // parts)], values.to(output).expand(*output.shape[:-1], -1)], dim=-1
        )

    with torch.inference_mode(), ExitStack() as stack:
        for name, projection in attention.named_modules():
            if parts := OF_VALUES.get(name.rpartition(".")[2]):
                stack.enter_context(projection.register_forward_hook(replaced(parts)))
        hook = attention.get_submodule("output").register_forward_pre_hook(
            lambda module, projected: captured.append(projected[0])
        )
        stack.enter_context(hook)
        attention(*inputs)
    return captured[0][0]


def scores(attention: nn.Module, inputs: tuple[Any, ...]) -> Tensor | None:
    """(H, T, T) of an attention that calls torch's kernel once for all pairs of pieces; -inf where a pair is masked."""
    calls = []
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

    def __torch_function__(self, function: Callable[..., Any], types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        output = function(*arguments, **(keywords or {}))
        if function is F.scaled_dot_product_attention:
            self._see(*arguments, keywords["attn_mask"], keywords["scale"], output)
        return output


def draw(maps: Sequence[AttentionMap], pieces: Sequence[str], title: str) -> Figure:
    """One row of maps per layer, one column per head. Pieces are named where letters fit."""
    heads, count = len(maps[0].weights), len(pieces)
    gap, side = 1 + count // 12, 3.4 if heads <= 4 else 1.9  # in pieces; in inches
    step = count + gap
    tiles = np.full((len(maps) * step - gap, heads * step - gap), -1.0)
    for row, layer in enumerate(maps):
        for column, values in enumerate(np.asarray(layer.weights)):
            scaled = np.where(values > 0, values / values.max(), np.nan)
            tiles[row * step : row * step + count, column * step : column * step + count] = scaled
    figure = Figure(figsize=(max(8, 3 + heads * side), 2.2 + len(maps) * side))
    heading, size = fitted(f"Attention: {title}", max(7.5, heads * side), 12)
    figure.suptitle(heading, fontsize=size)
    figure.supxlabel(CAPTION, fontsize=9, color="#444444")
    axes = figure.subplots()
    colours = colormaps["Blues"].with_extremes(bad=NEVER, under="white")
    axes.imshow(tiles, cmap=colours, vmin=0, vmax=1, interpolation="nearest")
    axes.spines[:].set_visible(False)
    size = min(7, 72 * side / step)
    every = 1 if size >= 4.5 else -(-count // 8)
    names = [fitted(piece, 0.8, size)[0] if every == 1 else str(place) for place, piece in enumerate(pieces)][::every]
    for set_ticks, of in ((axes.set_yticks, len(maps)), (axes.set_xticks, heads)):
        places = [start * step + place for start in range(of) for place in range(0, count, every)]
        set_ticks(places, names * of, fontsize=max(size, 4.5), rotation=90 if set_ticks == axes.set_xticks else 0)
    middles = np.arange(max(heads, len(maps))) * step + count / 2
    axes.secondary_xaxis("top").set_xticks(middles[:heads], [f"head {head}" for head in range(1, heads + 1)])
    axes.secondary_yaxis("right").set_yticks(middles[: len(maps)], [layer.title.replace(", ", ",\n") for layer in maps])
    return figure


# One word


def of_word(word: str, layer: int, texts: list[str], row: Encoding, maps: list[AttentionMap]) -> list[str]:
    """The products of its queries with the keys of all pieces, and the weights of attention that they become, by head.

    InputError for a word or a layer that is not there.
    """
    if not 1 <= (number := layer if layer > 0 else len(maps) + 1 + layer) <= len(maps):
        raise InputError(f"layer={layer} does not exist; choices: 1 to {len(maps)}, or from the end -1 to -{len(maps)}")
    shown, places = maps[number - 1], places_of(word, texts, row)
    where = f"{'place' if len(places) == 1 else 'mean of the places'} {', '.join(map(str, places))}, {shown.title}"
    parts = [f"{word!r} ({where})"]
    titles = {"weights of attention; a column adds up to 1": shown.weights}
    if shown.scores is None:
        parts.append(wrapped("products of queries and keys: not shown, this attention has no single one for a pair of pieces"))
    else:
        titles = {"query · key, scaled and with its bias, before softmax": shown.scores, **titles}
    for title, values in titles.items():
        mine = values[:, places].float().mean(dim=1)  # (H, T)
        columns = [mine.mean(dim=0), *(mine if len(mine) <= MOST_HEADS else [])]
        rows = []
        for place, piece in enumerate(row.tokens):
            numbers = [column[place].item() for column in columns]
            cells = [DASH if number in (0, float("-inf")) else f"{round(number, 3) + 0.0:.3f}" for number in numbers]
            rows.append((f"{place} {piece}", *cells))
        head = ("piece", "mean", *(f"head {head}" for head in range(1, len(columns))))
        parts.append(f"{title}\n\n{table(head, rows)}")
    return parts


def places_of(word: str, texts: list[str], row: Encoding) -> list[int]:
    """Pieces of the first occurrence of the word, upper and lower case aside; InputError where it is not there whole."""
    for number, text in enumerate(texts):
        if match := re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE):
            tokens = (row.char_to_token(character, number) for character in range(*match.span()))
            places = {place for place in tokens if place is not None}
            if not places:
                raise InputError(f"word={word!r} is not among the {len(row.ids)} pieces of {text!r}")
            return sorted(places)
    raise InputError(f"word={word!r} is not a word of {' and '.join(map(repr, texts))}")


def alike(word: str, texts: str, tokenizer: Tokenizer, encoders: dict[str, Encoder], longest: int) -> str:
    """Cosines of the word's vectors between every two texts, of each encoder; InputError for fewer than two texts."""
    several = texts.split(SEPARATOR)
    if len(several) < 2 or not all(text.strip() for text in several):
        raise InputError(f"texts= names {len(several)} texts: expected two or more, with {SEPARATOR!r} between them")
    tokenizer.enable_truncation(longest)
    rows = [tokenizer.encode(text) for text in several]
    places = [places_of(word, [text], row) for text, row in zip(several, rows, strict=True)]
    listed = [
        wrapped(f"{number}  {text}  ({' '.join(row.tokens[place] for place in mine)} at {', '.join(map(str, mine))})", 3)
        for number, (text, row, mine) in enumerate(zip(several, rows, places, strict=True), 1)
    ]
    parts = [f"vectors of {word!r}, cosine between texts", "\n".join(listed)]
    for name, encoder in encoders.items():
        vectors = torch.stack([vectors_of(encoder, row, mine) for row, mine in zip(rows, places, strict=True)])
        states = vectors.shape[1]
        shown = sorted({0, 1, *spaced(states, MOST_STATES)})
        names = ["token", "input", *(f"layer {layer}" for layer in range(1, states - 1))]
        lines = []
        for first, second in combinations(range(len(several)), 2):
            cosines = F.cosine_similarity(vectors[first], vectors[second], dim=-1).tolist()
            lines.append((f"{first + 1} and {second + 1}", *(f"{cosines[state]:.3f}" for state in shown)))
        parts.append(f"{name}\n\n{table(('texts', *(names[state] for state in shown)), lines)}")
    note = "token: the token embedding, the same in every text; input: with segment and position; layer: in its context"
    return "\n\n".join([*parts, wrapped(note)])


@torch.inference_mode()
def vectors_of(encoder: Encoder, row: Encoding, places: list[int]) -> Tensor:
    """(1 + L + 1, D), means over the word's pieces: token embedding, input of the first layer, and output of each."""
    batch = Batch(torch.tensor([row.ids]), torch.tensor([row.type_ids]))
    tokens = encoder.embeddings.token_embedding(batch.input_ids)
    states = [states[0, places].mean(dim=0) for states in (tokens, *encoder.hidden_states(batch))]
    return nn.utils.rnn.pad_sequence(states, batch_first=True)  # embeddings may be narrower
