"""Masked language modelling, alone and with a second task on two segments, and what other language models share.

B sequences, T tokens, S states, D hidden, K predicted positions, V vocabulary.
"""

from abc import abstractmethod
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedHead, MaskedLMHead, PlainLMHead, Pooler, make_masked_head
from harness.models.losses import IGNORED, summed_loss, vocabulary_loss
from harness.models.objectives.base import Evaluation, Objective, PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveConfig, PairKind
from harness.models.objectives.masking import masked_batch, num_predictions

LOGITS = 1 << 24
"""Logits of an evaluation at a time: 64 MiB."""


class MaskedLM(Objective):
    """Predicts the original tokens at the masked positions (arXiv:1810.04805, section 3.1)."""

    masked_head: MaskedHead

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, shape, vocabulary)
        self.masked_head = make_masked_head(shape, self.encoder)

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        return masked_batch(batch, seeds, self._config, self.vocabulary)

    def forward(self, batch: PretrainBatch) -> Tensor:
        _, read = self.masked_head.read(self.encoder, batch.inputs)
        return prediction_loss(self.masked_head, read, batch)

    def flops(self, length: int) -> int:
        predicted = num_predictions(self._config.mask_rate, length) * self.masked_head.flops()
        return self.encoder.flops(length) + self.masked_head.flops_of_decoder(self.encoder, length) + predicted


class LanguageModel(Objective):
    """Predicts tokens that are not masked, each from one of its `states`. Abstract."""

    head: ClassVar[type[MaskedLMHead | PlainLMHead]] = MaskedLMHead
    part: ClassVar[str]  # name of what it trains, where it is evaluated on held-out text

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, shape, vocabulary)
        self.lm_head = self.head(shape, self.encoder.embeddings.token_embedding)

    @abstractmethod
    def states(self, batch: PretrainBatch) -> Tensor:
        """(B, S, D), among which `positions` chooses."""

    def vectors(self, batch: PretrainBatch) -> Tensor:
        """(B, K, D), from which the targets are predicted."""
        return at_positions(self.states(batch), batch.positions)

    def forward(self, batch: PretrainBatch) -> Tensor:
        return prediction_loss(self.lm_head, self.states(batch), batch)

    def evaluate_parts(self, batch: PretrainBatch) -> dict[str, Evaluation]:
        """The training loss on this batch; its exponential is the perplexity."""
        return {self.part: scored(self.lm_head, self.vectors(batch), batch.targets)}


def at_positions(hidden: Tensor, positions: Tensor) -> Tensor:
    """(B, T, D) and (B, K) -> (B, K, D)."""
    return hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))


def prediction_loss(head: MaskedHead | PlainLMHead, hidden: Tensor, batch: PretrainBatch) -> Tensor:
    """() cross-entropy in nats, summed over this micro-batch and divided by the predictions of the step.

    Logits are computed at the predicted positions alone.
    """
    logits = head(at_positions(hidden, batch.positions))  # (B, K, V)
    return vocabulary_loss(logits.flatten(0, 1), batch.targets.flatten(), batch.total_predictions)


@torch.no_grad()
def evaluate(encoder: Encoder, head: MaskedHead, batch: PretrainBatch) -> Evaluation:
    """Evaluates the head's predictions from the encoder's vectors."""
    _, read = head.read(encoder, batch.inputs)
    return scored(head, at_positions(read, batch.positions), batch.targets)


@torch.no_grad()
def scored(head: MaskedHead | PlainLMHead, vectors: Tensor, targets: Tensor) -> Evaluation:
    """How well the head predicts (B, K) targets, those that are IGNORED left out, from (B, K, D) vectors."""
    rows = max(1, LOGITS // (targets.shape[1] * head.output.out_features))
    loss, correct = 0.0, 0
    for some, expected in zip(vectors.split(rows), targets.split(rows), strict=True):
        logits = head(some).float()
        loss += summed_loss(logits, expected).item()
        correct += int((logits.argmax(dim=-1) == expected)[expected != IGNORED].sum())
    return Evaluation(loss, correct, int((targets != IGNORED).sum()))


class MaskedLMWithPairs(MaskedLM):
    """Masked tokens, and from the vector of the text whether its two segments are in order. Abstract."""

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
        return self.pair_head(self.pooler(hidden, batch.inputs.attention_mask)).float(), cast(Tensor, batch.inputs.labels)

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


class Probe(nn.Module):
    """A masked-LM head on a frozen encoder; its output matrix starts as a copy of the token embedding."""

    def __init__(self, shape: EncoderConfig, encoder: Encoder, seed: int) -> None:
        super().__init__()
        embedding = encoder.embeddings.token_embedding
        self.head = MaskedLMHead(shape, embedding)
        initial = embedding.weight.detach().clone()
        self.head.output.weight = nn.Parameter(initial.clone())
        initialise(self, shape.initializer_range, seed, shape.init, shape.init_depth)
        with torch.no_grad():
            self.head.output.weight.copy_(initial)

    def loss(self, encoder: Encoder, batch: PretrainBatch) -> Tensor:
        """() mean cross-entropy in nats, without a gradient for the encoder."""
        with torch.no_grad():
            hidden = encoder(batch.inputs)
        return prediction_loss(self.head, hidden, batch)
