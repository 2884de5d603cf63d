"""Masked language modelling with a second task on two segments. B sequences, T tokens, D hidden, K predicted positions."""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.config import EncoderConfig
from harness.models.heads import Pooler
from harness.models.objectives.base import Evaluation, PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveConfig, PairKind
from harness.models.objectives.masked_lm import MaskedLM, prediction_loss


class MaskedLMWithPairs(MaskedLM):
    """Masked tokens, and from the vector of the text whether its two segments are in order. Abstract."""

    has_parts = True
    pooler: Pooler

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, shape, vocabulary)
        self.pooler = Pooler(shape)
        self.pair_head = nn.Linear(shape.hidden_size, 2)

    def forward(self, batch: PretrainBatch) -> Tensor:
        hidden, read = self.masked_head.read(self.encoder, batch.inputs)
        pair_loss = F.cross_entropy(*self._pairs(hidden, batch), reduction="sum")
        return prediction_loss(self.masked_head, read, batch) + pair_loss / batch.total_sequences

    def _pairs(self, hidden: Tensor, batch: PretrainBatch) -> tuple[Tensor, Tensor]:
        """(B, T, D) -> (B, 2) logits, in order or not, and the (B,) labels."""
        logits = self.pair_head(self.pooler(hidden, batch.inputs.attention_mask)).float()
        return logits, cast(Tensor, batch.inputs.labels)

    def evaluate_parts(self, batch: PretrainBatch) -> dict[str, Evaluation]:
        hidden, _ = self.masked_head.read(self.encoder, batch.inputs)
        logits, labels = self._pairs(hidden, batch)
        loss = F.cross_entropy(logits, labels, reduction="sum").item()
        return {"pair": Evaluation(loss, int((logits.argmax(dim=-1) == labels).sum()), len(labels))}

    def flops(self, length: int) -> int:
        return super().flops(length) + self.pooler.flops() + 2 * self.pair_head.weight.numel()


class NextSentence(MaskedLMWithPairs):
    """Whether the second segment follows the first or is from another document (arXiv:1810.04805, section 3.1)."""

    segment_pairs = PairKind.next


class SentenceOrder(MaskedLMWithPairs):
    """Whether the two segments are in order or swapped (arXiv:1909.11942, section 3.1)."""

    segment_pairs = PairKind.order
