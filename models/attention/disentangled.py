"""Attention that keeps content and distance apart (DeBERTa, arXiv:2006.03654, section 3.1; v3: arXiv:2111.09543).

B sequences, T tokens, D hidden, H heads, K head size, R rows of the table of relative positions that a text reaches. Row S of
the 2 S in the table is for distance 0; S is the number of buckets, or the longest distance where there are no buckets.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.models.attention.products import Context, Heads, MultiHead, attend, over_heads
from harness.models.config import EncoderConfig, PositionTerms
from harness.models.norms import Dropout, make_norm


def bucket(distances: Tensor, buckets: int, farthest: int) -> Tensor:
    """Signed distances -> signed buckets: half of them exact, the others by the logarithm of the distance up to `farthest`.

    Single precision and this order of operations decide where a bucket ends, as in the published checkpoints.
    """
    exact = buckets // 2
    far = distances.abs().clamp(min=exact)
    ratio = (far / exact).log() / torch.tensor((farthest - 1) / exact, device=distances.device).log()
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


@dataclass(kw_only=True)
class Distances(Context):
    """Context with the positions of disentangled attention."""

    relative: Tensor  # (R, D), vectors of distances
    relative_rows: Tensor  # (T, T), which of them is between query and key


class RelativePositions(nn.Module):
    """The table of relative positions, shared by all layers."""

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
        distances = torch.arange(1 - length, length, device="cpu")  # so that all devices agree where a bucket ends
        if self.config.position_buckets is not None:
            distances = bucket(distances, self.config.position_buckets, self.config.max_relative_distance)
        places = torch.arange(length, device="cpu")
        return vectors, (distances + side).clamp(0, 2 * side - 1)[places[:, None] - places + length - 1].to(vectors.device)


class DisentangledAttention(MultiHead):
    """Scores are content with content, content with distance, and distance with content, or one of the latter two alone.

    The sum of N products is scaled by the root of N K.
    """

    positions_are_constant = False

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__(config)
        size, width, bias = config.hidden_size, config.attention_width, config.attention_bias
        terms = config.position_terms
        self.to_position = terms is not PositionTerms.position_to_content
        self.from_position = terms is not PositionTerms.content_to_position
        self.scale = (
            ((1 + self.to_position + self.from_position) * config.head_width) ** -0.5 if config.attention_scale else 1.0
        )
        key_bias = bias and config.key_bias
        self.query = nn.Linear(size, width, bias=bias)
        self.key = nn.Linear(size, width, bias=key_bias)
        self.value = nn.Linear(size, width, bias=bias)
        own = not config.share_position_projections
        self.position_query = nn.Linear(size, width, bias=bias) if own and self.from_position else None
        self.position_key = nn.Linear(size, width, bias=key_bias) if own and self.to_position else None
        self.position_dropout = Dropout(config.hidden_dropout_prob)
        self.output = nn.Linear(width, size, bias=bias)

    def forward(self, hidden: Tensor, context: Distances, query: Tensor | None = None) -> Tensor:
        """(B, T, D) of keys and values, and of queries where those are others -> (B, T, D)."""
        query = self.split(self.query(hidden if query is None else query))  # (B, H, T, K)
        key, value = self.split(self.key(hidden)), self.split(self.value(hidden))
        heads = Heads(query, key, value, None, scale=self.scale, dropout=self.dropout)
        attended = attend(heads, over_heads(context.mask), self._distance_scores(query, key, context))
        return self.output(attended.transpose(1, 2).flatten(2))

    def _distance_scores(self, query: Tensor, key: Tensor, context: Distances) -> Tensor:
        """(B, H, T, K) queries and keys -> (B, H, T, T)."""
        distances = self.position_dropout(context.relative)
        rows, scores = context.relative_rows.expand(*query.shape[:2], -1, -1), []
        if self.to_position:
            distant_key = self.split((self.position_key or self.key)(distances) * self.scale)  # (H, R, K)
            scores.append((query @ distant_key.transpose(-1, -2)).gather(-1, rows))
        if self.from_position:
            distant_query = self.split((self.position_query or self.query)(distances) * self.scale)
            scores.append((distant_query @ key.transpose(-1, -2)).gather(-2, rows))
        return sum(scores[1:], scores[0])

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text: projections of content and of distances, and the products."""
        width, rows = self.config.attention_width, 2 * reach(self.config, length)
        products = 2 * length * width * (2 * length + (self.to_position + self.from_position) * rows)
        return 2 * length * 4 * self.output.weight.numel() + products + self.flops_once(length)

    def flops_once(self, length: int) -> int:
        """FLOPs done once per batch, whatever its texts: the projections of distances."""
        terms, rows = self.to_position + self.from_position, 2 * reach(self.config, length)
        return 2 * terms * rows * self.output.weight.numel()
