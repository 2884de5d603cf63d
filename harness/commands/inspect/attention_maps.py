"""The attention weights of every layer and head over one text, as the model itself computes them.

Attention is linear in its values. With unit vectors for values, the output of the module is its weights. So this works
for every kind of attention, with its masks, windows and biases, and the training path has no branch for it.
H heads, T tokens, K head size, D hidden.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from models.attention.disentangled import DisentangledAttention
from models.attention.full import SelfAttention
from models.attention.relative import RelativeAttention
from models.decoder import CrossAttention

if TYPE_CHECKING:
    from models.batch import Batch
    from models.encoder import Encoder

KINDS = (SelfAttention, DisentangledAttention, RelativeAttention, CrossAttention)
OF_VALUES = {"query_key_value": 3, "global_query_key_value": 3, "key_value": 2, "value": 1}
"""Projections that end in the values, and of how many equal parts those are the last."""


@dataclass(frozen=True)
class AttentionMap:
    """One attention of one layer; a row of `weights` is a query, a column a key."""

    title: str
    weights: Tensor  # (H, T, T)


def maps_of(encoder: "Encoder", batch: "Batch") -> list[AttentionMap]:
    """Of every attention in the order in which they run, a shared one at each of its layers; none where the body has none.

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


def _titles(encoder: "Encoder") -> list[str]:
    """Of each attention; encoder and decoder are numbered apart."""
    order, depth = encoder.layers.execution_order(), encoder.config.depth
    titles = []
    for number, blocks in enumerate(order):
        part = "" if len(order) == depth else "decoder " if number >= depth else "encoder "
        title = f"{part}layer {number % depth + 1}"
        attentions = [block.attention for block in blocks if hasattr(block, "attention")]
        titles += [f"{title}, over the encoder" if isinstance(one, CrossAttention) else title for one in attentions]
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
