"""What a teacher says of masked tokens, beside what stood there (arXiv:1910.01108).

B sequences, T tokens, D hidden, K predicted places, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.mask_decoder import make_mask_decoder
from models.objectives.config import ObjectiveConfig
from models.objectives.drawing import masked_question, predictions
from models.objectives.masked import at_places
from models.objectives.question import IGNORED, Objective, Question, Vocabulary


class Teacher(nn.Module):
    """A trained encoder and its head for masked tokens, frozen and without dropout."""

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.requires_grad_(False)
        self.eval()

    @torch.no_grad()
    def forward(self, question: Question) -> tuple[Tensor, Tensor]:
        """-> hidden states (B, T, D) and logits (B, K, V)."""
        hidden, read = self.head.read(self.encoder, question.batch)
        return hidden, self.head(at_places(read, question.places))


class Distillation(Objective):
    """The teacher's answer, the right answer and the direction of the teacher's vectors (arXiv:1910.01108, section 3).

    The teacher goes wherever this is moved or copied to, and is neither trained nor saved with it.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary, teacher: Teacher) -> None:
        super().__init__()
        _refuse_unlike(config, shape, teacher.encoder.config)
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)
        self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding, make_mask_decoder(shape))
        self._teacher = (teacher,)  # a tuple, as a module would be registered: its weights would be trained and saved

    @property
    def teacher(self) -> Teacher:
        """Whom the encoder learns from."""
        return self._teacher[0]

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """Masked tokens as any masked objective draws them."""
        return masked_question(batch, seeds, self._config, self._vocabulary)

    def forward(self, question: Question) -> Tensor:
        """() weighted sum of the three losses, in nats but for the cosine."""
        config = self._config
        their_hidden, their_logits = self.teacher(question)
        hidden, read = self.masked_head.read(self.encoder, question.batch)
        logits, targets = self.masked_head(at_places(read, question.places)).float(), question.targets
        soft = soft_loss(logits, their_logits.float(), targets != IGNORED, config.temperature)
        right = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
        loss = (config.soft_weight * soft + config.masked_weight * right) / question.total
        if config.cosine_weight == 0:  # the sizes may differ then
            return loss
        return loss + config.cosine_weight * cosine_loss(hidden, their_hidden) / (question.rows * hidden.shape[1])

    def flops(self, length: int) -> int:
        """Of the student and the teacher on one sequence."""
        places = predictions(self._config.mask_rate, length)
        pairs = ((self.encoder, self.masked_head), (self.teacher.encoder, self.teacher.head))
        return sum(
            encoder.flops(length) + head.flops_of_decoder(encoder, length) + places * head.flops() for encoder, head in pairs
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Distillation":
        self.teacher._apply(fn, recurse)
        return super()._apply(fn, recurse)


def soft_loss(logits: Tensor, their_logits: Tensor, used: Tensor, temperature: float) -> Tensor:
    """(B, K, V) twice and the (B, K) mask of predictions -> () divergence in nats from the teacher, summed.

    Times the temperature's square, so that the gradient's size does not depend on it (arXiv:1503.02531, section 2).
    """
    ours, theirs = (logits / temperature).log_softmax(dim=-1), (their_logits / temperature).log_softmax(dim=-1)
    divergence = F.kl_div(ours, theirs, reduction="none", log_target=True).sum(dim=-1)  # (B, K)
    return (divergence * used).sum() * temperature**2


def cosine_loss(hidden: Tensor, their_hidden: Tensor) -> Tensor:
    """(B, T, D) twice -> () 1 - cosine, summed over all tokens."""
    return (1 - F.cosine_similarity(hidden.float(), their_hidden.float(), dim=-1)).sum()


def _refuse_unlike(config: ObjectiveConfig, shape: EncoderConfig, theirs: EncoderConfig) -> None:
    if shape.vocab_size != theirs.vocab_size:
        raise ValueError(
            f"pretrain.teacher={config.teacher} knows {theirs.vocab_size} pieces, not model.vocab_size={shape.vocab_size}: "
            "give both one tokenizer"
        )
    if shape.hidden_size != theirs.hidden_size and config.cosine_weight > 0:
        raise ValueError(
            f"pretrain.teacher={config.teacher} has vectors of {theirs.hidden_size} features, not of "
            f"model.hidden_size={shape.hidden_size}: set pretrain.cosine_weight=0, or give both one size"
        )
