"""Permutation language modelling (arXiv:1906.08237). B sequences, T tokens, K of them predicted, D hidden."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, Position
from harness.models.heads import MaskedLMHead
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch
from harness.models.objectives.masked_lm import LanguageModel
from harness.models.objectives.masking import num_predictions

BY_POSITION_IDS = (Position.learned, Position.sinusoidal, Position.rotary, Position.relative)
"""Kinds of positions that are computed from `position_ids` and not from the index in the row, where queries come last."""


class PermutationLM(LanguageModel):
    """Predicts a token from those that are earlier in a random order (arXiv:1906.08237, sections 2.2 and 2.3).

    The last tokens of the order are predicted; the others, and all special tokens, attend to each other. The two streams of
    the paper are one row here: T content tokens and K appended queries, which have their target's position but not its token.
    A query is the learned vector of relative attention, or [MASK] where the architecture has none.
    """

    part = "permuted"
    lm_head: MaskedLMHead

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """Architectures that can attend in no order but that of the row."""
        return {
            f"body={shape.body.value}": shape.body is not Body.transformer,
            f"position={shape.position.value}": shape.position not in BY_POSITION_IDS,
            f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
            f"attention_window={shape.attention_window}": shape.attention_window is not None,
            "causal=true": shape.causal,
        }

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """T tokens and K queries in a row; positions (B, K) are those of the queries. ValueError for too long a text."""
        T = batch.input_ids.shape[1]
        shape = self.encoder.config
        if shape.longest_text < T and shape.position in (Position.learned, Position.sinusoidal):
            raise ValueError(f"{T} tokens exceed model.max_position_embeddings={shape.longest_text}")
        order = sample_order(batch.input_ids, seeds, num_predictions(self._config.predicted_share, T), self.vocabulary.special)
        targets = batch.input_ids.gather(1, order.last).masked_fill(~order.used, IGNORED)
        positions = torch.arange(T, T + targets.shape[1]).repeat(len(targets), 1)
        return PretrainBatch(self.with_queries(batch, order), positions, targets, max(1, int(order.used.sum())), len(targets))

    def with_queries(self, batch: Batch, order: "Order") -> Batch:
        """T tokens and K queries in a row, each at the position of its target."""
        ids, types, (B, T) = batch.input_ids, batch.token_type_ids, batch.input_ids.shape
        queries = (torch.arange(T + order.last.shape[1]) >= T).repeat(B, 1)
        return replace(
            batch,
            input_ids=torch.cat([ids, torch.full_like(order.last, self.vocabulary.mask)], dim=1),
            token_type_ids=None if types is None else torch.cat([types, types.gather(1, order.last)], dim=1),
            attention_mask=attention_mask(order),
            position_ids=torch.cat([torch.arange(T).expand(B, T), order.last], dim=1),
            position_limit=T,
            queries=queries if self.encoder.config.position is Position.relative else None,
        )

    def states(self, batch: PretrainBatch) -> Tensor:
        """(B, T + K, D), each from the tokens that are earlier in the order."""
        return self.encoder(batch.inputs)

    def flops(self, length: int) -> int:
        queries, shape = num_predictions(self._config.predicted_share, length), self.encoder.config
        total = self.encoder.flops(length + queries) + queries * self.lm_head.flops()
        if shape.position is Position.relative:  # queries are at their targets: there are 2 T - 1 offsets, not 2 (T + K)
            total -= shape.depth * (2 * queries + 1) * 2 * shape.attention_width * (length + queries + shape.hidden_size)
        return total


@dataclass
class Order:
    """A random order of the tokens of each sequence."""

    rank: Tensor  # (B, T) int64: 0 for tokens that are not predicted, then 1, 2, ... in the order
    last: Tensor  # (B, K) int64 positions that are predicted, in the order
    used: Tensor  # (B, K) bool, False in front where a sequence has too few ordinary tokens


def sample_order(ids: Tensor, seeds: list[int], count: int, special: tuple[int, ...]) -> Order:
    """For each (T,) sequence an order from its seed alone. The last `count` are predicted, special tokens never."""
    noise = torch.stack([torch.rand(ids.shape[1], generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    noise = noise.masked_fill(torch.isin(ids, torch.tensor(special)), -1.0)
    last = noise.argsort(dim=1, stable=True)[:, -count:]
    used = noise.gather(1, last) >= 0
    ranks = torch.arange(1, last.shape[1] + 1) * used
    return Order(torch.zeros_like(ids).scatter(1, last, ranks), last, used)


def attention_mask(order: Order) -> Tensor:
    """(B, T + K, T + K) bool: a token attends to tokens that are not later, a query to tokens that are earlier.

    The query of an unused slot attends to itself alone: the softmax of an empty row would be nan.
    """
    B, K = order.last.shape
    content = order.rank[:, None, :]  # columns
    tokens = content <= order.rank[:, :, None]  # (B, T, T)
    queries = content < order.rank.gather(1, order.last)[..., None]  # (B, K, T)
    hidden = torch.zeros(B, tokens.shape[1], K, dtype=torch.bool)
    itself = torch.eye(K, dtype=torch.bool).expand(B, K, K) & ~order.used[..., None]
    return torch.cat([torch.cat([tokens, hidden], dim=2), torch.cat([queries, itself], dim=2)], dim=1)
