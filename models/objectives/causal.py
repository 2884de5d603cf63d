"""Next-token prediction, alone and with previous-token prediction. B sequences, T tokens, D hidden."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch
from harness.models.objectives.masked_lm import LanguageModel
from harness.models.recurrent import Recurrent


class CausalLM(LanguageModel):
    """Predicts the next token from this one and those before it (Radford et al. 2018).

    A bidirectional architecture is trained behind a causal mask, so that the architecture is the only difference.
    """

    part = "next_token"

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """Bodies that read later tokens in ways that no attention mask prevents."""
        return {
            f"body={shape.body.value}": shape.body in (Body.lstm, Body.encoder_decoder, Body.foreign),
            f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
        }

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """All positions but the last, (B, T - 1), each with the next token as target; nothing is random."""
        targets = without_special(batch.input_ids, self.vocabulary.special)[:, 1:]
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


class BidirectionalLM(LanguageModel):
    """Predicts the next and the previous token, each from one side (arXiv:1802.05365, section 3.1).

    In `Recurrent` each direction of an upper layer reads both directions of the layer below, one of which has read the
    target. Here it reads its own direction and zeros for the other, and so do the heads: two separate language models that
    share embeddings and head. In the input matrices of upper layers the columns of the other direction get no gradient; they
    keep their initial values until fine-tuning. A transformer runs twice instead, behind a mask for each direction.
    """

    part = "two_sided"

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """Bodies without two directions, or that no attention mask restricts to one."""
        return {
            f"body={shape.body.value}": shape.body in (Body.static, Body.encoder_decoder, Body.foreign),
            "causal=true": shape.causal,
            f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
        }

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """Positions (B, 2 (T - 1)) among the 2 T `states`, with the next or previous token as target; nothing is random."""
        tokens = without_special(batch.input_ids, self.vocabulary.special)
        B, T = tokens.shape
        targets = torch.cat([tokens[:, 1:], tokens[:, :-1]], dim=1)
        positions = torch.cat([torch.arange(T - 1), torch.arange(T + 1, 2 * T)]).repeat(B, 1)
        return PretrainBatch(batch, positions, targets, count(targets), B)

    def states(self, batch: PretrainBatch) -> Tensor:
        """(B, 2 T, D): each token with those before it, then each token with those after it."""
        if isinstance(self.encoder.layers, Recurrent):
            return torch.cat(separate_directions(self.encoder.layers, self.encoder.embeddings(batch.inputs)), dim=1)
        return torch.cat([self.encoder(one_sided(batch.inputs, backward)) for backward in (True, False)], dim=1)

    def flops(self, length: int) -> int:
        passes = 1 if isinstance(self.encoder.layers, Recurrent) else 2
        return passes * self.encoder.flops(length) + 2 * (length - 1) * self.lm_head.flops()


def separate_directions(layers: Recurrent, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, D) -> states left to right and right to left, each (B, T, D) with zeros in the half of the other direction."""
    left_to_right = right_to_left = hidden
    for forward_layer, backward_layer in layers.execution_order():
        ahead, back = forward_layer.states(left_to_right), backward_layer.states(right_to_left.flip(1)).flip(1)
        ahead, back = layers.dropout(torch.cat([ahead, back], dim=-1)).chunk(2, dim=-1)
        left_to_right, right_to_left = F.pad(ahead, (0, back.shape[-1])), F.pad(back, (ahead.shape[-1], 0))
    return left_to_right, right_to_left
