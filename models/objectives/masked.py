"""Masked tokens, alone or beside a question about two segments. B sequences, T tokens, K predicted places, V vocabulary."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead, Pooler
from models.mask_decoder import make_mask_decoder
from models.objectives.config import ObjectiveConfig
from models.objectives.drawing import masked_question, predictions
from models.objectives.question import IGNORED, Objective, Question, Vocabulary


class MaskedTokens(Objective):
    """Which pieces stood where [MASK] stands now (arXiv:1810.04805, section 3.1)."""

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)
        self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding, make_mask_decoder(shape))

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        return masked_question(batch, seeds, self._config, self._vocabulary)

    def forward(self, question: Question) -> Tensor:
        _, read = self.masked_head.read(self.encoder, question.batch)
        return masked_loss(self.masked_head, read, question)

    def flops(self, length: int) -> int:
        masked = predictions(self._config.mask_rate, length) * self.masked_head.flops()
        return self.encoder.flops(length) + self.masked_head.flops_of_decoder(self.encoder, length) + masked


class MaskedTokensOfPairs(Objective):
    """Masked tokens, and from the vector of the text whether its two segments are in order.

    Which segments are given says which question that is: whether the second follows the first (arXiv:1810.04805, section 3.1)
    or was swapped with it (arXiv:1909.11942, section 3.1).
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)
        self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding, make_mask_decoder(shape))
        self.pooler = Pooler(shape)
        self.pair_head = nn.Linear(shape.hidden_size, 2)

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        return masked_question(batch, seeds, self._config, self._vocabulary)

    def forward(self, question: Question) -> Tensor:
        hidden, read = self.masked_head.read(self.encoder, question.batch)
        pairs = self.pair_head(self.pooler(hidden, question.batch.attention_mask)).float()
        pair_loss = F.cross_entropy(pairs, question.batch.labels, reduction="sum") / question.rows
        return masked_loss(self.masked_head, read, question) + pair_loss

    def flops(self, length: int) -> int:
        heads = self.pooler.flops() + 2 * self.pair_head.weight.numel()
        heads += predictions(self._config.mask_rate, length) * self.masked_head.flops()
        return self.encoder.flops(length) + self.masked_head.flops_of_decoder(self.encoder, length) + heads


def at_places(hidden: Tensor, places: Tensor) -> Tensor:
    """(B, T, D) and (B, K) -> (B, K, D)."""
    return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))


def masked_loss(head: MaskedLMHead, hidden: Tensor, question: Question) -> Tensor:
    """() cross-entropy in nats of this piece's predictions over the number of all; logits of predicted places alone."""
    logits = head(at_places(hidden, question.places)).float()  # (B, K, V)
    summed = F.cross_entropy(logits.flatten(0, 1), question.targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return summed / question.total


@torch.no_grad()
def answer(encoder: Encoder, head: MaskedLMHead, question: Question) -> tuple[float, int, int]:
    """Summed cross-entropy in nats, right answers, and predictions."""
    _, read = head.read(encoder, question.batch)
    logits = head(at_places(read, question.places)).float().flatten(0, 1)
    targets = question.targets.flatten()
    used = targets != IGNORED
    summed = F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum").item()
    return summed, int((logits.argmax(dim=-1) == targets)[used].sum()), int(used.sum())
