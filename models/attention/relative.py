"""Relative attention. B sequences, T tokens, N queries over M keys of a segment, R offsets, D hidden, H heads of K.

A score has four parts: what a query seeks in content and in distance, and what every query seeks in both (arXiv:1901.02860,
section 3.3); without `causal` a fifth says whether two tokens are in the same text of a pair (arXiv:1906.08237, section 2.5).

With `segment_length` a text is read in segments. Their tokens attend to each other and to the memory, the `memory_length`
tokens before them as the layer below left them, which has no gradient (arXiv:1901.02860, section 3.2). Weights do not change
within a text, so all segments of a layer are computed before the next layer. The memory is empty where a text begins: in
pretraining it lasts for one sequence of several segments, across the documents in it, and not from one step to the next.

Both streams of permutation language modelling (arXiv:1906.08237, section 2.3) are one stream here: each target has an
appended query (`Batch.queries`) with the target's position, and the mask lets it see what comes earlier in the sampled order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.models.attention.products import Context, Heads, MultiHead, attend
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.positions import frequencies


@dataclass(kw_only=True)
class Offsets(Context):
    """Context with the positions and segments of relative attention."""

    relative: Tensor  # (R, D), a vector for each offset from query to key
    positions: Tensor | None  # (B, T, M) which of them is between row and column; None: by their order
    token_types: Tensor | None  # (B, T)


class RelativeAttention(MultiHead):
    """Attention by content, by offset from query to key, and by equal or unequal text of a pair (arXiv:1906.08237)."""

    positions_are_constant = True

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__(config)
        size, width, bias = config.hidden_size, config.attention_width, config.attention_bias
        self.scale = self.head_size**-0.5 if config.attention_scale else 1.0
        self.causal = config.causal
        self.segment_length = config.segment_length if config.causal else None
        self.memory_length = 0 if self.segment_length is None else config.memory_length
        self.query = nn.Linear(size, width, bias=bias)
        self.key_value = nn.Linear(size, 2 * width, bias=bias)
        self.position = nn.Linear(size, width, bias=False)
        self.output = nn.Linear(width, size, bias=bias)
        self.content_bias = nn.Parameter(torch.zeros(width))
        self.position_bias = nn.Parameter(torch.zeros(width))
        pairs = not config.causal
        self.segment_bias = nn.Parameter(torch.zeros(width)) if pairs else None
        self.segment_embedding = nn.Parameter(torch.zeros(2, width)) if pairs else None  # same text of a pair, another text

    def forward(self, hidden: Tensor, context: Offsets) -> Tensor:
        """(B, T, D) -> (B, T, D), in a `relative_context`. A row that may see nothing gets zeros from attention."""
        query = self.query(hidden)
        vectors = self.split(self.position(context.relative.to(query.dtype)))  # (H, R, K)
        attended = [self._of_segment(hidden, query, vectors, context, places) for places in self._segments(hidden.shape[1])]
        whole = attended[0] if len(attended) == 1 else torch.cat(attended, dim=2)  # (B, H, T, K)
        return self.output(whole.transpose(1, 2).flatten(2))

    def _segments(self, length: int) -> list[tuple[slice, slice]]:
        """Places of the queries and of the keys of each segment; one segment is the whole text where there are none."""
        size = self.segment_length or length
        ends = [(start, min(start + size, length)) for start in range(0, length, size)]
        return [(slice(start, end), slice(max(0, start - self.memory_length), end)) for start, end in ends]

    def _of_segment(
        self, hidden: Tensor, query: Tensor, vectors: Tensor, context: Offsets, places: tuple[slice, slice]
    ) -> Tensor:
        """(B, T, D) hidden states and queries, (H, R, K) vectors of offsets -> (B, H, N, K) of one segment."""
        rows, columns = places
        memory, query = hidden[:, columns.start : rows.start].detach(), query[:, rows]
        read = hidden[:, rows] if columns.start == rows.start else torch.cat([memory, hidden[:, rows]], dim=1)
        key, value = (self.split(part) for part in self.key_value(read).chunk(2, dim=-1))
        positions = None if context.positions is None else context.positions[:, rows, columns]
        bias = self._position_scores(query, vectors, positions, read.shape[1])
        if context.token_types is not None and self.segment_embedding is not None and self.segment_bias is not None:
            same, other = self.split(self.segment_embedding).transpose(-1, -2).split(1, dim=-1)  # each (H, K, 1)
            more = self.split((query + self.segment_bias) * self.scale) @ (other - same)  # (B, H, T, 1)
            differs = context.token_types[:, :, None] != context.token_types[:, None, :]
            # Of a key of the same text the term is left out: it is equal for all keys of a row, which a softmax does not see.
            bias = torch.addcmul(bias, differs[:, None].to(bias.dtype), more)
        heads = Heads(self.split(query + self.content_bias), key, value, None, scale=self.scale, dropout=self.dropout)
        mask = context.mask
        if mask is not None:
            mask = mask[:, None, columns] if mask.dim() == 2 else mask[:, rows, columns]  # (B, 1 or N, M)
        if self.causal:
            N, M = query.shape[1], read.shape[1]
            seen = torch.ones(1, N, M, dtype=torch.bool, device=query.device).tril(M - N)
            mask = seen if mask is None else mask & seen
        if mask is None:
            return attend(heads, None, bias)
        mask = mask[:, None]  # (B or 1, 1, 1 or N, M)
        empty = ~mask.any(dim=-1, keepdim=True)  # a row that may see nothing is zero: a softmax would give no number
        return attend(heads, mask | empty, bias).masked_fill(empty, 0.0)

    def _position_scores(self, query: Tensor, vectors: Tensor, positions: Tensor | None, keys: int) -> Tensor:
        """(B, H, N, M), scaled; where it is causal, those of later keys have no meaning."""
        if self.causal and positions is None:
            vectors = vectors[:, -keys - 1 :]  # by offset from `keys` to 0
        scores = self.split((query + self.position_bias) * self.scale) @ vectors.transpose(-1, -2)  # (B, H, N, R)
        if positions is None:
            return relative_shift(scores, keys)
        return scores.gather(-1, positions[:, None].expand(-1, self.num_heads, -1, -1))

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text; the terms for pairs, a vector a query, are left out."""
        sizes = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in self._segments(length)]
        width, matrix = self.num_heads * self.head_size, self.position.weight.numel()
        products = sum(2 * N * width * (M + self._offsets(M) + M) for N, M in sizes)  # content, offsets, values
        projections = 2 * matrix * (2 * length + 2 * sum(M for _, M in sizes))  # memory is projected with every segment
        return projections + products + self.flops_once(length)

    def flops_once(self, length: int) -> int:
        """FLOPs done once per batch: the projection of the offsets."""
        return 2 * self.position.weight.numel() * self._offsets(most_keys(length, self.config))

    def _offsets(self, keys: int) -> int:
        return keys + 1 if self.causal else 2 * keys


def relative_shift(scores: Tensor, keys: int) -> Tensor:
    """(..., N, R) by falling offset from M on -> (..., N, M) by key; the last query is the last key (arXiv:1901.02860).

    Each row starts one step earlier than the row before: a view with rows of one number less. Where the offsets end at 0, what
    is right of a query's own key belongs to the next row.
    """
    N, R = scores.shape[-2:]
    return scores.flatten(-2)[..., N:].unflatten(-1, (N, R - 1))[..., :keys]


def most_keys(length: int, config: EncoderConfig) -> int:
    """Maximum number of keys of a segment: its own tokens and those of its memory, or the whole text."""
    if not config.causal or config.segment_length is None:
        return length
    return min(length, config.segment_length + config.memory_length)


def relative_sinusoids(offsets: Tensor, width: int) -> Tensor:
    """(R,) -> (R, width): sines, then cosines."""
    angles = offsets[:, None].float() * frequencies(width, offsets.device)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :width]


def relative_context(batch: Batch, config: EncoderConfig) -> Offsets:
    """Inputs of relative attention besides the hidden states."""
    offsets, positions = _offsets(batch, config)
    vectors = relative_sinusoids(offsets, config.hidden_size)
    return Offsets(mask=batch.attention_mask, token_types=batch.token_type_ids, relative=vectors, positions=positions)


def _offsets(batch: Batch, config: EncoderConfig) -> tuple[Tensor, Tensor | None]:
    """The (R,) offsets, query place minus key place, and which (B, T, T) of them each pair has; None: as relative_shift says.

    A causal model needs none below 0. Positions of a batch without a limit cost a wait for the device, once a forward pass.
    """
    places, length = batch.position_ids, batch.input_ids.shape[1]
    device = batch.input_ids.device
    if places is None:
        keys = most_keys(length, config)
        return torch.arange(keys, -1 if config.causal else -keys, -1, device=device), None
    farthest = int(places.max() - places.min()) if batch.position_limit is None else batch.position_limit - 1
    return torch.arange(farthest, -farthest - 1, -1, device=device), farthest - places[:, :, None] + places[:, None, :]
