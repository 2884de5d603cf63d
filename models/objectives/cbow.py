"""Continuous bag of words: a token from the mean of its neighbours (arXiv:1301.3781, section 3.1).

B sequences, T tokens, K predicted positions, D hidden.
"""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.losses import summed_loss
from harness.models.objectives.base import PretrainBatch
from harness.models.objectives.masked_lm import LanguageModel, at_positions
from harness.models.objectives.masking import num_predictions, sample_positions, with_targets


class ContinuousBagOfWords(LanguageModel):
    """Predicts a token from the mean vector of the ordinary tokens up to `context` positions to each side.

    Positions are sampled as for masked tokens, so that a step has as many predictions: scoring the vocabulary at every
    position would be the whole cost of a model without layers. Nothing is masked: the mean leaves its own position out.
    """

    part = "centre"

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """A body with layers: a mean of neighbours would not use them."""
        return {f"body={shape.body.value}": shape.body is not Body.static}

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """Unchanged tokens with an attention mask (B, T) that is True for ordinary ones, and (B, K) positions."""
        ordinary = ~torch.isin(batch.input_ids, torch.tensor(self.vocabulary.special))
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        positions = sample_positions(batch, generators, self._config, self.vocabulary)
        unchanged = batch.input_ids.gather(1, positions.clamp(min=0))
        return with_targets(replace(batch, attention_mask=ordinary), positions, unchanged)

    def forward(self, batch: PretrainBatch) -> Tensor:
        return summed_loss(self.lm_head(self.vectors(batch)), batch.targets) / batch.total_predictions

    def states(self, batch: PretrainBatch) -> Tensor:
        """(B, T, D), each from its own token."""
        return self.encoder(batch.inputs)

    def vectors(self, batch: PretrainBatch) -> Tensor:
        """(B, K, D) means, zeros where no ordinary token is near."""
        hidden, ordinary = self.states(batch), cast(Tensor, batch.inputs.attention_mask)
        T, context = hidden.shape[1], self._config.context
        after = torch.arange(1, context + 1, device=hidden.device)
        near = (batch.positions[..., None] + torch.cat([-after, after])).flatten(1)  # (B, K * 2 context)
        inside = near.clamp(0, T - 1)
        counted = ordinary.gather(1, inside) & (near == inside)
        vectors = at_positions(hidden, inside) * counted[..., None]
        per_position = (-1, 2 * context)
        number = counted.unflatten(1, per_position).sum(dim=2).clamp(min=1)
        return vectors.unflatten(1, per_position).sum(dim=2) / number[..., None]

    def flops(self, length: int) -> int:
        return self.encoder.flops(length) + num_predictions(self._config.mask_rate, length) * self.lm_head.flops()
