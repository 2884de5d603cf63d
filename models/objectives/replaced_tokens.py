"""Replaced token detection (arXiv:2003.10555).

B sequences, T tokens, D hidden, K predicted positions, V vocabulary.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, round_to
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead, make_mask_decoder
from harness.models.layers import ACTIVATIONS
from harness.models.losses import IGNORED, summed_loss
from harness.models.objectives.base import Evaluation, Objective, PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveConfig
from harness.models.objectives.masked_lm import at_positions
from harness.models.objectives.masking import masked_batch, num_predictions


class DetectionHead(nn.Module):
    """One logit per token, above 0 for a replaced one: dense, activation, linear."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.output = nn.Linear(config.hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T) logits."""
        return self.output(self.activation(self.dense(hidden))).squeeze(-1)

    def flops(self) -> int:
        """FLOPs of one token."""
        return 2 * (self.dense.weight.numel() + self.output.weight.numel())


class ReplacedTokenDetection(Objective):
    """A generator fills in masked tokens, and the encoder detects where it was wrong (arXiv:2003.10555, sections 2 and 3.2).

    Both share token, position and type embeddings. The generator never samples special tokens.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, shape, vocabulary)  # the encoder: initial values depend on the first name of a shared tensor
        self.detection_head = DetectionHead(shape)
        small = generator_shape(shape, config.generator_fraction)
        self.generator = Encoder(small)
        for name in ("token_embedding", "position_embedding", "type_embedding", "mask_embedding"):
            setattr(self.generator.embeddings, name, getattr(self.encoder.embeddings, name))
        self.generator_head = MaskedLMHead(small, self.encoder.embeddings.token_embedding, make_mask_decoder(small))

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """A body without layers: the vector of a token does not depend on its neighbours."""
        return {f"body={shape.body.value}": shape.body in (Body.static, Body.foreign)}

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """Masked tokens for the generator; its replacements are sampled in the forward pass."""
        return masked_batch(batch, seeds, self._config, self.vocabulary)

    def forward(self, batch: PretrainBatch) -> Tensor:
        """() generator's cross-entropy plus the weighted binary one over all tokens; samples from torch's global stream."""
        generated = self._generate(batch)
        summed = summed_loss(generated, batch.targets)
        logits, labels = self._detect(batch, generated)
        detection = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum")
        weight = self._config.detection_weight / (batch.total_sequences * labels.shape[1])
        return summed / batch.total_predictions + weight * detection

    def _detect(self, batch: PretrainBatch, generated: Tensor) -> tuple[Tensor, Tensor]:
        """(B, K, V) logits of the generator -> (B, T) logits of the detector, and (B, T) bool, which tokens were replaced."""
        sampled = sample(generated, self.vocabulary.special)
        original = _put(batch.inputs.input_ids, batch.positions, batch.targets, batch.targets)
        ids, labels = replaced(original, batch.positions, batch.targets, sampled)
        return self.detection_head(self.encoder(replace(batch.inputs, input_ids=ids))).float(), labels

    def evaluate_parts(self, batch: PretrainBatch) -> dict[str, Evaluation]:
        """The detector over all tokens, and over the replaced ones alone: most are not replaced."""
        logits, labels = self._detect(batch, self._generate(batch))
        losses = F.binary_cross_entropy_with_logits(logits, labels.float(), reduction="none")  # (B, T)
        correct, every = (logits > 0) == labels, torch.ones_like(labels)
        parts = {"detection": every, "replaced": labels}
        return {name: Evaluation(losses[of].sum().item(), int(correct[of].sum()), int(of.sum())) for name, of in parts.items()}

    def _generate(self, batch: PretrainBatch) -> Tensor:
        """-> (B, K, V) logits."""
        _, read = self.generator_head.read(self.generator, batch.inputs)
        return self.generator_head(at_positions(read, batch.positions)).float()

    def flops(self, length: int) -> int:
        """FLOPs of both encoders and their heads on one sequence."""
        generated = num_predictions(self._config.mask_rate, length) * self.generator_head.flops()
        generator = self.generator.flops(length) + self.generator_head.flops_of_decoder(self.generator, length) + generated
        return generator + self.encoder.flops(length) + length * self.detection_head.flops()


def generator_shape(shape: EncoderConfig, fraction: float) -> EncoderConfig:
    """The architecture with `fraction` of the width in its layers and the same embeddings (arXiv:2003.10555, section 3.2).

    Sizes are rounded so that every head has the same, even number of features, as rotations and pairs of directions need.
    """
    heads = max(1, round(shape.num_attention_heads * fraction))
    inner = shape.feed_forward_size
    return replace(
        shape,
        num_attention_heads=heads,
        hidden_size=round_to(shape.hidden_size * fraction, 2 * heads),
        intermediate_size=round_to(shape.intermediate_size * fraction, 8),
        feed_forward_size=None if inner is None else round_to(inner * fraction, 8),
        embedding_size=shape.embedding_width,
        tie_masked_lm_head=True,
    )


@torch.no_grad()
def sample(logits: Tensor, never: tuple[int, ...]) -> Tensor:
    """(..., V) logits -> (...) tokens sampled from their softmax, without those of `never`."""
    noise = torch.empty_like(logits).exponential_().clamp(min=torch.finfo(logits.dtype).tiny).log()  # minus Gumbel's
    return (logits - noise).index_fill(-1, torch.tensor(never, device=logits.device), float("-inf")).argmax(dim=-1)


def replaced(original_ids: Tensor, positions: Tensor, targets: Tensor, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) ids with the (B, K) sampled tokens at their positions, and (B, T) bool, True where that changed the token.

    Slots whose target is IGNORED change nothing.
    """
    ids = _put(original_ids, positions, targets, sampled)
    return ids, ids != original_ids


def _put(ids: Tensor, positions: Tensor, targets: Tensor, tokens: Tensor) -> Tensor:
    """(B, T) ids with the (B, K) tokens of used slots; unused ones write into a column that is cut off again."""
    T = ids.shape[1]
    return F.pad(ids, (0, 1)).scatter(1, positions.masked_fill(targets == IGNORED, T), tokens)[:, :T]
