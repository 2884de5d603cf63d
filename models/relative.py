"""Relative attention and recurrence. B sequences, T tokens, P of memory, M = P + T keys, R offsets, D hidden, H heads of K.

A score has four parts: what a query seeks in content and in distance, and what every query seeks in both (arXiv:1901.02860,
section 3.3); a fifth asks whether two tokens lie in the same segment (arXiv:1906.08237, section 2.5). Distance is all that is
known of place, so the hidden states of the text before can stand in front of a text as memory.

Both streams of permutation language modelling (arXiv:1906.08237, section 2.3) are one stream here: each target is given an
appended query (`Batch.queries`) with the target's position, and the mask lets it see what comes earlier in the drawn order.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Context, Heads, attend
from models.batch import Batch
from models.config import EncoderConfig

if TYPE_CHECKING:
    from models.encoder import Encoder


class RelativeAttention(nn.Module):
    """Attention by content, by offset from query to key, and by equal or unequal segment (arXiv:1906.08237)."""

    positions_are_constant = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size, width, bias = config.hidden_size, config.attention_width, config.attention_bias
        self.num_heads, self.head_size = config.num_attention_heads, config.head_width
        self.scale = self.head_size**-0.5 if config.attention_scale else 1.0
        self.dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(size, width, bias=bias)
        self.key_value = nn.Linear(size, 2 * width, bias=bias)
        self.position = nn.Linear(size, width, bias=False)
        self.output = nn.Linear(width, size, bias=bias)
        self.content_bias = nn.Parameter(torch.zeros(width))
        self.position_bias = nn.Parameter(torch.zeros(width))
        self.segment_bias = nn.Parameter(torch.zeros(width))
        self.segment_embedding = nn.Parameter(torch.zeros(2, width))  # same segment, another segment

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, T, D) -> (B, T, D), told by `relative_context`. A row that may see nothing gets zeros from attention."""
        seen = hidden if context.memory is None else torch.cat([context.memory, hidden], dim=1)  # (B, M, D)
        query = self.query(hidden)
        key, value = (self._split(part) for part in self.key_value(seen).chunk(2, dim=-1))
        bias = self._position_scores(query, context)
        if context.token_types is not None:  # one segment alone would add the same number to every key
            bias = self._add_segment_scores(bias, query, context.token_types)
        dropout = self.dropout if self.training else 0.0
        heads = Heads(self._split(query + self.content_bias), key, value, None, scale=self.scale, dropout=dropout)
        return self.output(_attend_where_seeing(heads, context.mask, bias).transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_size)).transpose(-3, -2)  # (..., H, tokens, K)

    def _position_scores(self, query: Tensor, context: Context) -> Tensor:
        """(B, H, T, M), scaled."""
        vectors = self._split(self.position(context.relative.to(query.dtype)))  # (H, R, K)
        scores = self._split((query + self.position_bias) * self.scale) @ vectors.transpose(-1, -2)  # (B, H, T, R)
        if context.positions is None:
            return relative_shift(scores)
        return scores.gather(-1, context.positions[:, None].expand(-1, self.num_heads, -1, -1))

    def _add_segment_scores(self, scores: Tensor, query: Tensor, token_types: Tensor) -> Tensor:
        """(B, H, T, M), scaled; the types (B, M) of the queries are the last T.

        A key of another segment is given by how much more it scores than one of the same: the rest of the term is equal for
        all keys of a row, which a softmax does not see.
        """
        same, other = self._split(self.segment_embedding).transpose(-1, -2).split(1, dim=-1)  # each (H, K, 1)
        more = self._split((query + self.segment_bias) * self.scale) @ (other - same)  # (B, H, T, 1)
        differs = token_types[:, -query.shape[1] :, None] != token_types[:, None, :]
        return torch.addcmul(scores, differs[:, None].to(scores.dtype), more)

    def flops(self, length: int) -> int:
        """Of one forward pass over one text without memory; segments, a vector a query, are left out."""
        width = self.num_heads * self.head_size
        products = 2 * length * width * (length + 2 * length + length)  # content, offsets, values
        return 2 * length * 4 * self.position.weight.numel() + products + self.flops_once(length)

    def flops_once(self, length: int) -> int:
        """The part of `flops` that is done once for all texts of a batch: the projection of the 2 T offsets."""
        return 2 * 2 * length * self.position.weight.numel()


def _attend_where_seeing(heads: Heads, mask: Tensor | None, bias: Tensor) -> Tensor:
    """(B, H, T, K), zero for a row that may see nothing, where a softmax would give no number."""
    if mask is None:
        return attend(heads, None, bias)
    mask = mask[:, None, None] if mask.dim() == 2 else mask[:, None]  # (B, 1, 1 or T, M)
    blind = ~mask.any(dim=-1, keepdim=True)
    return attend(heads, mask | blind, bias).masked_fill(blind, 0.0)


def relative_shift(scores: Tensor) -> Tensor:
    """(..., T, M + T) by falling offset from M to 1 - T -> (..., T, M) by key, of the last T of M places (arXiv:1901.02860).

    Each row starts one step earlier than the row before: a view with rows of one number less.
    """
    T, R = scores.shape[-2:]
    return scores.flatten(-2)[..., T:].unflatten(-1, (T, R - 1))[..., : R - T]


def relative_sinusoids(offsets: Tensor, width: int) -> Tensor:
    """(R,) -> (R, width): sines of falling frequencies, then their cosines (arXiv:1706.03762, section 3.5)."""
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32, device=offsets.device) / width)
    angles = offsets[:, None].float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :width]


def relative_context(batch: Batch, width: int, past: int = 0) -> Context:
    """What relative attention is told of a batch behind `past` tokens of memory, which all see and which are of type 0."""
    mask, types = batch.attention_mask, batch.token_type_ids
    if past and mask is not None:
        mask = F.pad(mask, (past, 0), value=True)
    if past and types is not None:
        types = F.pad(types, (past, 0))
    offsets, positions = _offsets(batch, past)
    return Context(mask=mask, token_types=types, relative=relative_sinusoids(offsets, width), positions=positions)


def _offsets(batch: Batch, past: int) -> tuple[Tensor, Tensor | None]:
    """The (R,) offsets, query place minus key place, and which (B, T, M) of them each pair has; None: as relative_shift says.

    Memory ends just before position 0. Given positions without a limit cost a wait for the device, once a forward pass.
    """
    places, length = batch.position_ids, batch.input_ids.shape[1]
    device = batch.input_ids.device
    if places is None:
        return torch.arange(past + length, -length, -1, device=device), None
    before = torch.arange(-past, 0, device=device).expand(len(places), -1)
    keys = torch.cat([before, places], dim=1)
    farthest = int(keys.max() - keys.min()) if batch.position_limit is None else batch.position_limit - 1 + past
    return torch.arange(farthest, -farthest - 1, -1, device=device), farthest - places[:, :, None] + keys[:, None, :]


def with_memory(
    encoder: "Encoder", batch: Batch, memory: list[Tensor] | None = None, reuse: int | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """The hidden states of a text read behind the one before it, and the memory to read the next one with.

    `memory` is None for the first text, then what the call before returned: for every layer the last `memory_length` inputs
    (B, P, D), without gradient (arXiv:1901.02860, section 3.2). Of this text the first `reuse` tokens are kept, by default all:
    appended queries must not be, and padding would be seen by the next text.
    """
    layers, longest = encoder.layers, encoder.config.memory_length
    past = 0 if memory is None else memory[0].shape[1]
    context = relative_context(batch, encoder.config.hidden_size, past)
    states, kept = [encoder.embeddings(batch)], []
    for layer, (attention, feed_forward) in enumerate(layers.execution_order()):
        hidden = states[-1]
        before = hidden[:, :0] if memory is None else memory[layer]
        kept.append(_last(torch.cat([before, hidden[:, :reuse]], dim=1), longest).detach())
        seen = attention.norm(before) if attention.pre_norm else before
        states.append(feed_forward(attention(hidden, replace(context, memory=seen))))
    if layers.norm is not None:
        states[-1] = layers.norm(states[-1])
    return states, kept


def _last(states: Tensor, number: int) -> Tensor:
    return states[:, max(0, states.shape[1] - number) :]
