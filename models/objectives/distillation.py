"""An encoder learns from a trained one (arXiv:1910.01108): from its predictions of masked tokens, its hidden states
(arXiv:1909.10351), and the relations between tokens in its last layer (arXiv:2012.15828).

B sequences, T tokens, D hidden, K predicted positions, V vocabulary, H heads.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.attention.full import SelfAttention
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, without_values
from harness.models.foreign import make_encoder
from harness.models.heads import MaskedHead, MaskedLMHead, make_mask_decoder
from harness.models.losses import IGNORED, summed_loss
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.config import MatchedLayers, ObjectiveConfig
from harness.models.objectives.masked_lm import at_positions
from harness.models.objectives.masking import masked_batch, num_predictions


class Teacher(nn.Module):
    """A trained encoder, and its masked-LM head if it has one, frozen and without dropout."""

    def __init__(self, encoder: Encoder, head: MaskedHead | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.requires_grad_(False)
        self.eval()


class Seen(NamedTuple):
    """Outputs of a model for a batch."""

    states: list[Tensor]  # the embeddings and the output of every layer, or the last two of these, each (B, T, D)
    projected: Tensor | None  # (B, T, 3 H K) queries, keys and values of the last layer, where relations are compared
    logits: Tensor | None  # (B, K, V), where there is a masked-LM head


class Distillation(Objective):
    """A weighted sum of distillation losses; losses of weight 0 are not computed.

    Inputs are masked where masked tokens are predicted, and plain text otherwise. The teacher is moved and copied with
    this module, but neither trained nor saved with it.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary, teacher: Teacher) -> None:
        refuse_unlike(config, shape, teacher)
        super().__init__(config, shape, vocabulary)
        if config.soft_weight or config.masked_weight:
            self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding, make_mask_decoder(shape))
        theirs = teacher.encoder.config.hidden_size
        projected = config.hidden_weight and shape.hidden_size != theirs
        self.projection = nn.Linear(shape.hidden_size, theirs) if projected else None
        teacher = teacher if config.soft_weight else Teacher(teacher.encoder, None)
        self._teacher = (teacher,)  # a tuple: an attribute that is a module would be registered, trained and saved

    @property
    def teacher(self) -> Teacher:
        """The frozen model that the encoder learns from."""
        return self._teacher[0]

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """Masked tokens as in masked language modelling; without a head for them the unmasked text."""
        masked = masked_batch(batch, seeds, self._config, self.vocabulary)
        return masked if self.masked_head is not None else replace(masked, inputs=batch)

    def forward(self, batch: PretrainBatch) -> Tensor:
        """() weighted sum of the losses, in nats but for the cosine and the squared error."""
        config, T = self._config, batch.inputs.input_ids.shape[1]
        with torch.no_grad():
            taught = self._seen(self.teacher.encoder, self.teacher.head, batch)
        ours = self._seen(self.encoder, self.masked_head, batch)
        by_prediction, by_token = [], []
        if ours.logits is not None and taught.logits is not None:  # with soft_weight
            soft = soft_loss(ours.logits, taught.logits.float(), batch.targets != IGNORED, config.temperature)
            by_prediction.append(config.soft_weight * soft)
        if config.masked_weight and ours.logits is not None:
            by_prediction.append(config.masked_weight * summed_loss(ours.logits, batch.targets))
        if config.cosine_weight:
            cosines = F.cosine_similarity(ours.states[-1].float(), taught.states[-1].float(), dim=-1)
            by_token.append(config.cosine_weight * (1 - cosines).sum())
        if config.hidden_weight:
            pairs = matched(len(ours.states), len(taught.states), config.matched_layers)
            own = [ours.states[at] if self.projection is None else self.projection(ours.states[at]) for at, _ in pairs]
            errors = [F.mse_loss(one.float(), taught.states[at].float()) for one, (_, at) in zip(own, pairs, strict=True)]
            error = sum(errors[1:], errors[0]) / len(pairs) * ours.states[-1][..., 0].numel()  # summed over tokens
            by_token.append(config.hidden_weight * error)
        if ours.projected is not None and taught.projected is not None:  # with relation_weight
            relations = relation_loss(ours.projected, taught.projected, self.teacher.encoder.config.num_attention_heads)
            by_token.append(config.relation_weight * relations)
        nothing = torch.zeros((), device=batch.targets.device)
        by_text = sum(by_token, nothing) / (batch.total_sequences * T)
        return sum(by_prediction, nothing) / batch.total_predictions + by_text

    def _seen(self, encoder: Encoder, head: MaskedHead | None, batch: PretrainBatch) -> Seen:
        projected: list[Tensor] = []
        note: AbstractContextManager[object] = nullcontext()
        if self._config.relation_weight:
            note = last_attention(encoder).query_key_value.register_forward_hook(lambda *given: projected.append(given[-1]))
        with note:  # of states that nothing compares the last two are held
            inputs = batch.inputs
            layers = encoder.hidden_states(inputs) if encoder.is_foreign else encoder.layers(encoder.embeddings(inputs), inputs)
            states = list(deque(layers, maxlen=None if self._config.hidden_weight else 2))
        logits = None
        if head is not None:
            read = states[-1] if head.decoder is None else head.decoder(encoder, states[-2], batch.inputs)
            logits = head(at_positions(read, batch.positions)).float()
        return Seen(states, projected[-1] if projected else None, logits)

    def flops(self, length: int) -> int:
        """FLOPs of the student and the teacher on one sequence."""
        config, predictions = self._config, num_predictions(self._config.mask_rate, length)
        heads = ((self.encoder, self.masked_head), (self.teacher.encoder, self.teacher.head))
        total = sum(encoder.flops(length) for encoder, _ in heads)
        used = [(encoder, head) for encoder, head in heads if head is not None]
        total += sum(head.flops_of_decoder(encoder, length) + predictions * head.flops() for encoder, head in used)
        if self.projection is not None:
            own, theirs = (encoder.config.depth + 1 for encoder, _ in heads)
            total += len(matched(own, theirs, config.matched_layers)) * 2 * length * self.projection.weight.numel()
        if config.relation_weight:
            total += sum(3 * 2 * length * length * last_attention(encoder).output.in_features for encoder, _ in heads)
        return total

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Distillation":
        self.teacher._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch's own
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def matched(states: int, taught: int, layers: MatchedLayers) -> list[tuple[int, int]]:
    """Pairs of hidden states, counted from the embeddings: the student's and the teacher's at the same share of the depth."""
    if layers is MatchedLayers.last:
        return [(states - 1, taught - 1)]
    return [(own, round(own * (taught - 1) / max(states - 1, 1))) for own in range(states)]


def last_attention(encoder: Encoder) -> SelfAttention:
    """The attention of the last layer; ValueError unless it has one projection of queries, keys and values."""
    found = [module for module in encoder.modules() if isinstance(module, SelfAttention)]
    if not found:
        raise ValueError(
            f"pretrain.relation_weight compares queries, keys and values, which model.body={encoder.config.body.value} "
            f"with position={encoder.config.position.value} does not have in one projection: set pretrain.relation_weight=0"
        )
    return found[-1]


def relation_loss(projected: Tensor, taught: Tensor, heads: int) -> Tensor:
    """(B, T, 3 W) of the student and the teacher -> () divergence in nats from the teacher, summed over tokens.

    W features are cut into `heads`; the scaled products of queries with queries, keys with keys and values with values
    are distributions over tokens (arXiv:2012.15828, section 3.1). The three and the heads are averaged.
    """
    ours, theirs = (relations(both, heads) for both in (projected, taught))
    divergence = F.kl_div(ours, theirs, reduction="none", log_target=True).sum(dim=-1)  # (B, 3, H, T)
    return divergence.mean(dim=(1, 2)).sum()


def relations(projected: Tensor, heads: int) -> Tensor:
    """(B, T, 3 W) -> (B, 3, H, T, T) logarithms of distributions over the last dimension."""
    split = projected.float().unflatten(-1, (3, heads, -1)).permute(0, 2, 3, 1, 4)  # (B, 3, H, T, W / H)
    return (split @ split.transpose(-1, -2) / split.shape[-1] ** 0.5).log_softmax(dim=-1)


def soft_loss(logits: Tensor, teacher_logits: Tensor, used: Tensor, temperature: float) -> Tensor:
    """(B, K, V) twice and the (B, K) mask of predictions -> () divergence in nats from the teacher, summed.

    Multiplied by the squared temperature, so that the size of the gradient does not depend on it (arXiv:1503.02531, section 2).
    """
    student, teacher = (logits / temperature).log_softmax(dim=-1), (teacher_logits / temperature).log_softmax(dim=-1)
    divergence = F.kl_div(student, teacher, reduction="none", log_target=True).sum(dim=-1)  # (B, K)
    return (divergence * used).sum() * temperature**2


def refuse_unlike(config: ObjectiveConfig, shape: EncoderConfig, teacher: Teacher) -> None:
    """ValueError for a student and a teacher that cannot be compared by a loss with a weight, or where none has one."""
    theirs, named = teacher.encoder.config, f"pretrain.teacher={config.teacher}"
    weights = ("soft_weight", "masked_weight", "cosine_weight", "hidden_weight", "relation_weight")
    if not any(getattr(config, weight) for weight in weights):
        raise ValueError(f"{', '.join(f'pretrain.{weight}' for weight in weights)} are all 0: nothing is learned")
    if shape.vocab_size != theirs.vocab_size:
        raise ValueError(
            f"{named} has a vocabulary of {theirs.vocab_size} tokens, "
            f"not model.vocab_size={shape.vocab_size}: give both the same tokenizer"
        )
    if shape.hidden_size != theirs.hidden_size and config.cosine_weight > 0:
        raise ValueError(
            f"{named} has a hidden size of {theirs.hidden_size}, not "
            f"model.hidden_size={shape.hidden_size}: set pretrain.cosine_weight=0, or give both the same size"
        )
    if config.relation_weight:
        with without_values():
            ours = make_encoder(shape)
        for encoder in (ours, teacher.encoder):
            last_attention(encoder)
        if shape.attention_width % theirs.num_attention_heads:
            raise ValueError(
                f"{named} has {theirs.num_attention_heads} heads, which do not divide the {shape.attention_width} features of "
                "the student's queries: set pretrain.relation_weight=0"
            )
