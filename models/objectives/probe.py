"""The evaluation that is the same for all objectives: masked tokens, all of them replaced by [MASK].

B sequences, T tokens, D hidden, V vocabulary.
"""

import torch
from torch import Tensor, nn

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveConfig
from harness.models.objectives.masked_lm import prediction_loss
from harness.models.objectives.masking import sample_positions, with_targets


def fully_masked_batch(batch: Batch, seeds: list[int], vocabulary: Vocabulary, rate: float) -> PretrainBatch:
    """Tokens sampled at this rate, each replaced by [MASK]: no target is left in the inputs."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    positions = sample_positions(batch, generators, ObjectiveConfig(mask_rate=rate), vocabulary)
    return with_targets(batch, positions, torch.full_like(positions, vocabulary.mask))


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
