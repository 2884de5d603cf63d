"""Next-token prediction. B sequences, T tokens, D hidden."""

from dataclasses import replace

import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.choices import Body
from harness.models.config import EncoderConfig
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch
from harness.models.objectives.masked_lm import LanguageModel


class CausalLM(LanguageModel):
    """Predicts the next token from this one and those before it (Radford et al. 2018).

    A bidirectional architecture is trained behind a causal mask, so that the architecture is the only difference.
    """

    part = "next_token"

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """Bodies that read later tokens in ways that no attention mask prevents."""
        return {
            f"body={shape.body.value}": shape.body in (Body.lstm, Body.encoder_decoder),
            f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
        }

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """All positions but the last, (B, T - 1), each with the next token as target; nothing is random."""
        targets = without_special(batch.input_ids, self._vocabulary.special)[:, 1:]
        positions = torch.arange(targets.shape[1]).repeat(len(targets), 1)
        return PretrainBatch(batch, positions, targets, count(targets), len(targets))

    def states(self, batch: PretrainBatch) -> Tensor:
        """(B, T, D), each from its own token and those before it."""
        already_causal = self.encoder.config.causal or self.encoder.config.body is Body.static
        return self.encoder(batch.inputs if already_causal else one_sided(batch.inputs, backward=True))

    def flops(self, length: int) -> int:
        return self.encoder.flops(length) + (length - 1) * self.lm_head.flops()


def without_special(ids: Tensor, special: tuple[int, ...]) -> Tensor:
    """(B, T) ids with IGNORED for special tokens."""
    return ids.masked_fill(torch.isin(ids, torch.tensor(special)), IGNORED)


def count(targets: Tensor) -> int:
    """Predictions, and 1 where there are none: a batch of special tokens has a loss of zero."""
    return max(1, int((targets != IGNORED).sum()))


def one_sided(batch: Batch, backward: bool) -> Batch:
    """The batch with a (B, T, T) attention mask: each token sees itself and those before it, or itself and those after it."""
    B, T = batch.input_ids.shape
    full = torch.ones(T, T, dtype=torch.bool, device=batch.input_ids.device)
    return replace(batch, attention_mask=(full.tril() if backward else full.triu()).expand(B, T, T))
