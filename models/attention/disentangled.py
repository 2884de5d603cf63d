"""Attention that keeps content and distance apart (DeBERTa, arXiv:2006.03654, section 3.1; v3: arXiv:2111.09543).

B sequences, T tokens, D hidden, H heads, K head size, R rows of the table of relative positions that a text reaches. Row S of
the 2 S in the table is for distance 0; S is the number of buckets, or the longest distance where there are no buckets.
"""

import torch
from torch import Tensor, nn

from models.attention.products import Context, Heads, attend, heads_detail
from models.config import EncoderConfig
from models.describe import Part, parameters_of
from models.dropout import Dropout
from models.norms import make_norm
from models.reach import EVERYWHERE

TERMS = 3
"""Content to content, content to position and position to content: the sum of three products is scaled by the root of 3 K."""


def bucket(distances: Tensor, buckets: int, farthest: int) -> Tensor:
    """Signed distances -> signed buckets: half of them exact, the others by the logarithm of the distance up to `farthest`.

    Single precision and this order of operations decide where a bucket ends, as in the published checkpoints.
    """
    exact = buckets // 2
    far = distances.abs().clamp(min=exact)
    ratio = (far / exact).log() / torch.tensor((farthest - 1) / exact).log()
    logarithmic = (ratio * (exact - 1)).ceil().long() + exact
    return torch.where(distances.abs() <= exact, distances, logarithmic * distances.sign())


def half_table(config: EncoderConfig) -> int:
    """S, the rows of the table for each direction."""
    return config.position_buckets or config.max_relative_distance


def reach(config: EncoderConfig, length: int) -> int:
    """Rows to each side of the middle that are computed for a text: R / 2."""
    size = half_table(config)
    exact = size if config.position_buckets is None else size // 2
    return length if length <= exact else size


class RelativePositions(nn.Module):
    """The table of relative positions, one for all layers."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(2 * half_table(config), config.hidden_size)
        self.norm = make_norm(config, config.hidden_size) if config.norm_relative_embeddings else None

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        """The vectors that a text of T tokens reaches, (R, D), and the row for query place minus key place, (T, T)."""
        side, middle = reach(self.config, length), half_table(self.config)
        vectors = self.embedding(torch.arange(middle - side, middle + side, device=self.embedding.weight.device))
        vectors = vectors if self.norm is None else self.norm(vectors)
        return vectors, self._rows(length, side).to(vectors.device)

    def activation_bytes(self, batch_size: int, length: int) -> None:
        """Not worked out."""

    def _rows(self, length: int, side: int) -> Tensor:
        """On CPU, so that all devices agree where a bucket ends."""
        distances = torch.arange(1 - length, length, device="cpu")
        if self.config.position_buckets is not None:
            distances = bucket(distances, self.config.position_buckets, self.config.max_relative_distance)
        places = torch.arange(length, device="cpu")
        return (distances + side).clamp(0, 2 * side - 1)[places[:, None] - places + length - 1]


class DisentangledAttention(nn.Module):
    """Scores are content with content, content with distance, and distance with content.

    Keys have no bias as first published. They have one in v3: where distances come in buckets or through the projections of
    the content.
    """

    positions_are_constant = False
    receptive_field = EVERYWHERE
    depends_on_order = True

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__()
        size, bias = config.hidden_size, config.attention_bias
        self.config = config
        self.scale = (TERMS * config.head_size) ** -0.5 if config.attention_scale else 1.0
        key_bias = bias and (config.share_position_projections or config.position_buckets is not None)
        self.query = nn.Linear(size, size, bias=bias)
        self.key = nn.Linear(size, size, bias=key_bias)
        self.value = nn.Linear(size, size, bias=bias)
        own = not config.share_position_projections
        self.position_query = nn.Linear(size, size, bias=bias) if own else None
        self.position_key = nn.Linear(size, size, bias=key_bias) if own else None
        self.position_dropout = Dropout(config.hidden_dropout_prob)
        self.output = nn.Linear(size, size, bias=bias)

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        query, key, value = (self._split(part(hidden)) for part in (self.query, self.key, self.value))  # (B, H, T, K)
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        heads = Heads(query, key, value, None, scale=self.scale, dropout=dropout)
        mask = context.mask
        if mask is not None:
            mask = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
        attended = attend(heads, mask, self._distance_scores(query, key, context))
        return self.output(attended.transpose(1, 2).reshape(hidden.shape))

    def _distance_scores(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """(B, H, T, K) queries and keys -> (B, H, T, T)."""
        distances = self.position_dropout(context.relative)
        query_of, key_of = self.position_query or self.query, self.position_key or self.key
        distant_query, distant_key = (self._split(part(distances) * self.scale) for part in (query_of, key_of))  # (H, R, K)
        rows = context.relative_rows.expand(*query.shape[:2], -1, -1)
        to_position = (query @ distant_key.transpose(-1, -2)).gather(-1, rows)
        return to_position + (distant_query @ key.transpose(-1, -2)).gather(-2, rows)

    def _split(self, x: Tensor) -> Tensor:
        """(..., N, D) -> (..., H, N, K)."""
        return x.unflatten(-1, (self.config.num_attention_heads, self.config.head_size)).transpose(-3, -2)

    def activation_bytes(self, batch_size: int, length: int) -> None:
        """Not worked out."""

    def part(self) -> Part:
        """With its heads and positions."""
        detail = f"{heads_detail(self.config.num_attention_heads, self.config.head_size)}, disentangled positions"
        return Part("Full self-attention", "attention", detail, parameters_of(self))

    def flops(self, length: int) -> int:
        """Of one forward pass over one text: projections of content and of distances, and the products."""
        size, rows = self.config.hidden_size, 2 * reach(self.config, length)
        products = 2 * 2 * length * size * (length + rows)
        return 2 * length * size * 4 * size + products + self.flops_once(length)

    def flops_once(self, length: int) -> int:
        """The part of `flops` that is the same for all texts of a batch and done once: the projections of distances."""
        return 2 * 2 * 2 * reach(self.config, length) * self.config.hidden_size**2
