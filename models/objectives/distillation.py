"""Masked language modelling with a teacher (arXiv:1910.01108).

B sequences, T tokens, D hidden, K predicted positions, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.losses import IGNORED
from models.mask_decoder import make_mask_decoder
from models.objectives.base import Objective, PretrainBatch, Vocabulary
from models.objectives.config import ObjectiveConfig
from models.objectives.masked_lm import at_positions
from models.objectives.masking import masked_batch, num_predictions


class Teacher(nn.Module):
    """A trained encoder and its masked-LM head, frozen and without dropout."""

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.requires_grad_(False)
        self.eval()

    @torch.no_grad()
    def forward(self, batch: PretrainBatch) -> tuple[Tensor, Tensor]:
        """-> hidden states (B, T, D) and logits (B, K, V)."""
        hidden, read = self.head.read(self.encoder, batch.inputs)
        return hidden, self.head(at_positions(read, batch.positions))


class Distillation(Objective):
    """The teacher's probabilities, the targets and the direction of the teacher's vectors (arXiv:1910.01108, section 3).

    The teacher is moved and copied with this module, but neither trained nor saved with it.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary, teacher: Teacher) -> None:
        super().__init__()
        refuse_unlike(config, shape, teacher.encoder.config)
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)
        self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding, make_mask_decoder(shape))
        self._teacher = (teacher,)  # a tuple: an attribute that is a module would be registered, trained and saved

    @property
    def teacher(self) -> Teacher:
        """The frozen model that the encoder learns from."""
        return self._teacher[0]

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """Masked tokens as in masked language modelling."""
        return masked_batch(batch, seeds, self._config, self._vocabulary)

    def forward(self, batch: PretrainBatch) -> Tensor:
        """() weighted sum of the three losses, in nats but for the cosine."""
        config = self._config
        teacher_hidden, teacher_logits = self.teacher(batch)
        hidden, read = self.masked_head.read(self.encoder, batch.inputs)
        logits, targets = self.masked_head(at_positions(read, batch.positions)).float(), batch.targets
        soft = soft_loss(logits, teacher_logits.float(), targets != IGNORED, config.temperature)
        hard = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
        loss = (config.soft_weight * soft + config.masked_weight * hard) / batch.total_predictions
        if config.cosine_weight == 0:  # hidden sizes may differ then
            return loss
        tokens = batch.total_sequences * hidden.shape[1]
        return loss + config.cosine_weight * cosine_loss(hidden, teacher_hidden) / tokens

    def flops(self, length: int) -> int:
        """FLOPs of the student and the teacher on one sequence."""
        predictions = num_predictions(self._config.mask_rate, length)
        pairs = ((self.encoder, self.masked_head), (self.teacher.encoder, self.teacher.head))
        return sum(
            encoder.flops(length) + head.flops_of_decoder(encoder, length) + predictions * head.flops()
            for encoder, head in pairs
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Distillation":
        self.teacher._apply(fn, recurse)
        return super()._apply(fn, recurse)


def soft_loss(logits: Tensor, teacher_logits: Tensor, used: Tensor, temperature: float) -> Tensor:
    """(B, K, V) twice and the (B, K) mask of predictions -> () divergence in nats from the teacher, summed.

    Multiplied by the squared temperature, so that the size of the gradient does not depend on it (arXiv:1503.02531, section 2).
    """
    student, teacher = (logits / temperature).log_softmax(dim=-1), (teacher_logits / temperature).log_softmax(dim=-1)
    divergence = F.kl_div(student, teacher, reduction="none", log_target=True).sum(dim=-1)  # (B, K)
    return (divergence * used).sum() * temperature**2


def cosine_loss(hidden: Tensor, teacher_hidden: Tensor) -> Tensor:
    """(B, T, D) twice -> () 1 - cosine, summed over all tokens."""
    return (1 - F.cosine_similarity(hidden.float(), teacher_hidden.float(), dim=-1)).sum()


def refuse_unlike(config: ObjectiveConfig, shape: EncoderConfig, teacher: EncoderConfig) -> None:
    """ValueError for a teacher with another vocabulary size, or with another hidden size where its vectors are compared."""
    if shape.vocab_size != teacher.vocab_size:
        raise ValueError(
            f"pretrain.teacher={config.teacher} has a vocabulary of {teacher.vocab_size} tokens, "
            f"not model.vocab_size={shape.vocab_size}: give both one tokenizer"
        )
    if shape.hidden_size != teacher.hidden_size and config.cosine_weight > 0:
        raise ValueError(
            f"pretrain.teacher={config.teacher} has vectors of {teacher.hidden_size} features, not of "
            f"model.hidden_size={shape.hidden_size}: set pretrain.cosine_weight=0, or give both one size"
        )
