"""Tokens in a drawn order (arXiv:1906.08237). B sequences, T tokens, K of them predicted, D hidden."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.batch import Batch
from models.config import Body, EncoderConfig, Position
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.objectives.config import ObjectiveConfig, ObjectiveName
from models.objectives.drawing import predictions
from models.objectives.masked import masked_loss
from models.objectives.question import IGNORED, Objective, Question, Vocabulary, refuse_pairs

BY_POSITION_IDS = (Position.learned, Position.sinusoidal, Position.rotary, Position.relative)
"""Ways to know where a token stands that ask its position and not its place in the row, where queries come last."""


class Permutation(Objective):
    """Which piece stands at a place, from those that come earlier in a drawn order (arXiv:1906.08237, sections 2.2 and 2.3).

    The last of the order are predicted; the others, and all special pieces, see each other. The two streams of the paper are
    one row here: T tokens of content and K appended queries, which know their target's position but not its piece. A query
    is the learned vector of relative attention, or [MASK] where the architecture has none.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._share, self._vocabulary = config.predicted_share, vocabulary
        self.encoder = Encoder(shape)
        self.lm_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding)

    @classmethod
    def refuse(cls, config: ObjectiveConfig, shape: EncoderConfig) -> None:
        """ValueError for architectures that cannot see in any order but that of the row."""
        refuse_pairs(
            ObjectiveName.plm,
            {
                f"body={shape.body.value}": shape.body is not Body.transformer,
                f"position={shape.position.value}": shape.position not in BY_POSITION_IDS,
                f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
                f"attention_window={shape.attention_window}": shape.attention_window is not None,
                "causal=true": shape.causal,
            },
        )

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """T tokens and K queries in a row; places (B, K) are those of the queries. ValueError for too long a text."""
        T = batch.input_ids.shape[1]
        shape = self.encoder.config
        if shape.longest_text < T and shape.position in (Position.learned, Position.sinusoidal):
            raise ValueError(f"{T} tokens are more than model.max_position_embeddings={shape.longest_text} holds")
        order = drawn_order(batch.input_ids, seeds, predictions(self._share, T), self._vocabulary.special)
        targets = batch.input_ids.gather(1, order.last).masked_fill(~order.used, IGNORED)
        places = torch.arange(T, T + targets.shape[1]).repeat(len(targets), 1)
        return Question(self._with_queries(batch, order), places, targets, max(1, int(order.used.sum())), len(targets))

    def _with_queries(self, batch: Batch, order: "Order") -> Batch:
        ids, types, (B, T) = batch.input_ids, batch.token_type_ids, batch.input_ids.shape
        queries = (torch.arange(T + order.last.shape[1]) >= T).repeat(B, 1)
        return replace(
            batch,
            input_ids=torch.cat([ids, torch.full_like(order.last, self._vocabulary.mask)], dim=1),
            token_type_ids=None if types is None else torch.cat([types, types.gather(1, order.last)], dim=1),
            attention_mask=seen(order),
            position_ids=torch.cat([torch.arange(T).expand(B, T), order.last], dim=1),
            position_limit=T,
            queries=queries if self.encoder.config.position is Position.relative else None,
        )

    def forward(self, question: Question) -> Tensor:
        return masked_loss(self.lm_head, self.encoder(question.batch), question)

    def flops(self, length: int) -> int:
        asked = predictions(self._share, length)
        return self.encoder.flops(length + asked) - self._offsets_saved(length, asked) + asked * self.lm_head.flops()

    def _offsets_saved(self, length: int, asked: int) -> int:
        """Of relative attention: queries stand where their targets do, so there are 2 T - 1 offsets and not 2 (T + K)."""
        shape = self.encoder.config
        if shape.position is not Position.relative:
            return 0
        return shape.depth * (2 * asked + 1) * 2 * shape.attention_width * (length + asked + shape.hidden_size)


@dataclass
class Order:
    """What is drawn of a batch."""

    rank: Tensor  # (B, T) int64: 0 for what is not predicted, then 1, 2, ... in the order
    last: Tensor  # (B, K) int64 places that are predicted, in the order
    used: Tensor  # (B, K) bool, False in front where a sequence has too few ordinary pieces


def drawn_order(ids: Tensor, seeds: list[int], count: int, special: tuple[int, ...]) -> Order:
    """Of each (T,) sequence an order from its seed alone, whose last `count` are predicted, special pieces never."""
    noise = torch.stack([torch.rand(ids.shape[1], generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    noise = noise.masked_fill(torch.isin(ids, torch.tensor(special)), -1.0)
    last = noise.argsort(dim=1, stable=True)[:, -count:]
    used = noise.gather(1, last) >= 0
    ranks = torch.arange(1, last.shape[1] + 1) * used
    return Order(torch.zeros_like(ids).scatter(1, last, ranks), last, used)


def seen(order: Order) -> Tensor:
    """(B, T + K, T + K) bool: a token sees itself and what is not later, a query tokens that are earlier and no query.

    The query of an unused slot sees itself alone: no row is empty, whose softmax would be no number.
    """
    B, K = order.last.shape
    content = order.rank[:, None, :]  # columns
    tokens = content <= order.rank[:, :, None]  # (B, T, T)
    asked = content < order.rank.gather(1, order.last)[..., None]  # (B, K, T)
    unseen = torch.zeros(B, tokens.shape[1], K, dtype=torch.bool)
    itself = torch.eye(K, dtype=torch.bool).expand(B, K, K) & ~order.used[..., None]
    return torch.cat([torch.cat([tokens, unseen], dim=2), torch.cat([asked, itself], dim=2)], dim=1)
