"""Relative attention. B sequences, T tokens, R offsets, D hidden, H heads of K.

A score has four parts: what a query seeks in content and in distance, and what every query seeks in both (arXiv:1901.02860,
section 3.3); a fifth says whether two tokens are in the same segment (arXiv:1906.08237, section 2.5).
There is no segment recurrence: a text that is longer than the model takes is cut.

Both streams of permutation language modelling (arXiv:1906.08237, section 2.3) are one stream here: each target has an
appended query (`Batch.queries`) with the target's position, and the mask lets it see what comes earlier in the sampled order.
"""

import torch
from torch import Tensor, nn

from models.attention.products import Context, Heads, attend, heads_detail
from models.batch import Batch
from models.config import EncoderConfig
from models.describe import Part, parameters_of
from models.reach import EVERYWHERE


class RelativeAttention(nn.Module):
    """Attention by content, by offset from query to key, and by equal or unequal segment (arXiv:1906.08237)."""

    positions_are_constant = True
    receptive_field = EVERYWHERE
    depends_on_order = True

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
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
        """(B, T, D) -> (B, T, D), in a `relative_context`. A row that may see nothing gets zeros from attention."""
        query = self.query(hidden)
        key, value = (self._split(part) for part in self.key_value(hidden).chunk(2, dim=-1))
        bias = self._position_scores(query, context)
        if context.token_types is not None:  # one segment alone would add the same number to every key
            bias = self._add_segment_scores(bias, query, context.token_types)
        dropout = self.dropout if self.training else 0.0
        heads = Heads(self._split(query + self.content_bias), key, value, None, scale=self.scale, dropout=dropout)
        return self.output(_attend_or_zero(heads, context.mask, bias).transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_size)).transpose(-3, -2)  # (..., H, tokens, K)

    def _position_scores(self, query: Tensor, context: Context) -> Tensor:
        """(B, H, T, T), scaled."""
        vectors = self._split(self.position(context.relative.to(query.dtype)))  # (H, R, K)
        scores = self._split((query + self.position_bias) * self.scale) @ vectors.transpose(-1, -2)  # (B, H, T, R)
        if context.positions is None:
            return relative_shift(scores)
        return scores.gather(-1, context.positions[:, None].expand(-1, self.num_heads, -1, -1))

    def _add_segment_scores(self, scores: Tensor, query: Tensor, token_types: Tensor) -> Tensor:
        """(B, H, T, T), scaled.

        For a key of another segment the term is how much more it scores than one of the same: the rest of the term is equal for
        all keys of a row, which a softmax does not see.
        """
        same, other = self._split(self.segment_embedding).transpose(-1, -2).split(1, dim=-1)  # each (H, K, 1)
        more = self._split((query + self.segment_bias) * self.scale) @ (other - same)  # (B, H, T, 1)
        differs = token_types[:, :, None] != token_types[:, None, :]
        return torch.addcmul(scores, differs[:, None].to(scores.dtype), more)

    def part(self) -> Part:
        """With its heads and positions."""
        detail = f"{heads_detail(self.num_heads, self.head_size)}, relative positions"
        return Part("Full self-attention", "attention", detail, parameters_of(self))

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text; segments, a vector a query, are left out."""
        width = self.num_heads * self.head_size
        products = 2 * length * width * (length + 2 * length + length)  # content, offsets, values
        return 2 * length * 4 * self.position.weight.numel() + products + self.flops_once(length)

    def flops_once(self, length: int) -> int:
        """The part of `flops` that is done once for all texts of a batch: the projection of the 2 T offsets."""
        return 2 * 2 * length * self.position.weight.numel()


def _attend_or_zero(heads: Heads, mask: Tensor | None, bias: Tensor) -> Tensor:
    """(B, H, T, K), zero for a row that may see nothing, where a softmax would give no number."""
    if mask is None:
        return attend(heads, None, bias)
    mask = mask[:, None, None] if mask.dim() == 2 else mask[:, None]  # (B, 1, 1 or T, T)
    empty = ~mask.any(dim=-1, keepdim=True)
    return attend(heads, mask | empty, bias).masked_fill(empty, 0.0)


def relative_shift(scores: Tensor) -> Tensor:
    """(..., T, 2 T) by falling offset from T to 1 - T -> (..., T, T) by key (arXiv:1901.02860).

    Each row starts one step earlier than the row before: a view with rows of one number less.
    """
    T = scores.shape[-2]
    return scores.flatten(-2)[..., T:].unflatten(-1, (T, 2 * T - 1))[..., :T]


def relative_sinusoids(offsets: Tensor, width: int) -> Tensor:
    """(R,) -> (R, width): sines of falling frequencies, then their cosines (arXiv:1706.03762, section 3.5)."""
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32, device=offsets.device) / width)
    angles = offsets[:, None].float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :width]


def relative_context(batch: Batch, width: int) -> Context:
    """What relative attention reads beside the hidden states."""
    offsets, positions = _offsets(batch)
    vectors = relative_sinusoids(offsets, width)
    return Context(mask=batch.attention_mask, token_types=batch.token_type_ids, relative=vectors, positions=positions)


def _offsets(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """The (R,) offsets, query place minus key place, and which (B, T, T) of them each pair has; None: as relative_shift says.

    Positions of a batch without a limit cost a wait for the device, once a forward pass.
    """
    places, length = batch.position_ids, batch.input_ids.shape[1]
    device = batch.input_ids.device
    if places is None:
        return torch.arange(length, -length, -1, device=device), None
    farthest = int(places.max() - places.min()) if batch.position_limit is None else batch.position_limit - 1
    return torch.arange(farthest, -farthest - 1, -1, device=device), farthest - places[:, :, None] + places[:, None, :]
