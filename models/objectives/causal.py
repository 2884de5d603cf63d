"""The next token, and the next and the previous one. B sequences, T tokens, D hidden, V vocabulary."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from models.batch import Batch
from models.config import Body, EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.objectives.config import ObjectiveConfig, ObjectiveName
from models.objectives.masked import masked_loss
from models.objectives.question import IGNORED, Objective, Question, Vocabulary, refuse_pairs
from models.recurrent import Recurrent


class Causal(Objective):
    """Which piece stands at the next place, from this one and those before it (Radford et al. 2018).

    An architecture that looks both ways is trained behind a mask, so that what it learns from is all that differs.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._special = vocabulary.special
        self.encoder = Encoder(shape)
        self.lm_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding)

    @classmethod
    def refuse(cls, config: ObjectiveConfig, shape: EncoderConfig) -> None:
        """ValueError for bodies that read on in ways that no mask of rows and columns stops."""
        refuse_pairs(
            ObjectiveName.clm,
            {
                f"body={shape.body.value}": shape.body in (Body.lstm, Body.encoder_decoder),
                f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
            },
        )

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """Every place but the last, (B, T - 1), and the piece after it; nothing is drawn."""
        targets = ordinary(batch.input_ids, self._special)[:, 1:]
        places = torch.arange(targets.shape[1]).repeat(len(targets), 1)
        return Question(batch, places, targets, used(targets), len(targets))

    def forward(self, question: Question) -> Tensor:
        return masked_loss(self.lm_head, self.states(question.batch), question)

    def states(self, batch: Batch) -> Tensor:
        """(B, T) -> (B, T, D), each of its own token and those before it."""
        looks_back = self.encoder.config.causal or self.encoder.config.body is Body.static
        return self.encoder(batch if looks_back else looking(batch, back=True))

    def flops(self, length: int) -> int:
        return self.encoder.flops(length) + (length - 1) * self.lm_head.flops()


class Bidirectional(Objective):
    """Which piece stands at the next place and which at the previous one, from one side each (arXiv:1802.05365, section 3.1).

    In `Recurrent` each direction of an upper layer reads both directions of the layer below, one of which has seen the piece
    that is asked for. Here it reads its own direction alone and zeros for the other, as do the heads: two separate language
    models that share embeddings and head. Every tensor is trained, but in the upper layers' input matrices not the columns
    that read the other direction: they keep their initial values until fine-tuning. A transformer reads twice instead, once
    behind a mask that looks back and once behind one that looks ahead.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._special = vocabulary.special
        self.encoder = Encoder(shape)
        self.lm_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding)

    @classmethod
    def refuse(cls, config: ObjectiveConfig, shape: EncoderConfig) -> None:
        """ValueError for bodies without two directions, or that no mask of rows and columns keeps to one."""
        refuse_pairs(
            ObjectiveName.bidirectional_lm,
            {
                f"body={shape.body.value}": shape.body in (Body.static, Body.encoder_decoder),
                "causal=true": shape.causal,
                f"global_tokens={shape.global_tokens}": shape.global_tokens > 0,
            },
        )

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """Places (B, 2 (T - 1)) among the 2 T `states`, and the piece after or before each; nothing is drawn."""
        pieces = ordinary(batch.input_ids, self._special)
        B, T = pieces.shape
        targets = torch.cat([pieces[:, 1:], pieces[:, :-1]], dim=1)
        places = torch.cat([torch.arange(T - 1), torch.arange(T + 1, 2 * T)]).repeat(B, 1)
        return Question(batch, places, targets, used(targets), B)

    def forward(self, question: Question) -> Tensor:
        return masked_loss(self.lm_head, self.states(question.batch), question)

    def states(self, batch: Batch) -> Tensor:
        """(B, T) -> (B, 2 T, D): each token with those before it, then each token with those after it."""
        if isinstance(self.encoder.layers, Recurrent):
            return torch.cat(apart(self.encoder.layers, self.encoder.embeddings(batch)), dim=1)
        return torch.cat([self.encoder(looking(batch, back)) for back in (True, False)], dim=1)

    def flops(self, length: int) -> int:
        passes = 1 if isinstance(self.encoder.layers, Recurrent) else 2
        return passes * self.encoder.flops(length) + 2 * (length - 1) * self.lm_head.flops()


def ordinary(ids: Tensor, special: tuple[int, ...]) -> Tensor:
    """(B, T) ids with IGNORED for special pieces."""
    return ids.masked_fill(torch.isin(ids, torch.tensor(special)), IGNORED)


def used(targets: Tensor) -> int:
    """Predictions, and 1 where there are none, so that a batch of special pieces has a loss of zero."""
    return max(1, int((targets != IGNORED).sum()))


def looking(batch: Batch, back: bool) -> Batch:
    """The batch behind a mask of rows and columns: each token sees itself and those before it, or those after it."""
    B, T = batch.input_ids.shape
    every = torch.ones(T, T, dtype=torch.bool, device=batch.input_ids.device)
    return replace(batch, attention_mask=(every.tril() if back else every.triu()).expand(B, T, T))


def apart(layers: Recurrent, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, D) -> what was read onward and what was read back, each (B, T, D) with zeros in the half of the other."""
    onward = back = hidden
    for there, again in layers.execution_order():
        both = layers.dropout(torch.cat([there.states(onward), again.states(back.flip(1)).flip(1)], dim=-1))
        read, reread = both.chunk(2, dim=-1)
        onward, back = F.pad(read, (0, reread.shape[-1])), F.pad(reread, (read.shape[-1], 0))
    return onward, back
