"""Which tokens a small generator replaced (arXiv:2003.10555).

B sequences, T tokens, D hidden, K predicted places, V vocabulary.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.batch import Batch
from models.config import Body, EncoderConfig, round_to
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.layers import ACTIVATIONS
from models.mask_decoder import make_mask_decoder
from models.objectives.config import ObjectiveConfig
from models.objectives.drawing import masked_question, predictions
from models.objectives.masked import at_places
from models.objectives.question import IGNORED, Objective, Question, Vocabulary


class DetectionHead(nn.Module):
    """One score a token, above 0 for one that was replaced: dense, non-linearity, linear."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.output = nn.Linear(config.hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T) logits."""
        return self.output(self.activation(self.dense(hidden))).squeeze(-1)

    def flops(self) -> int:
        """Of one token."""
        return 2 * (self.dense.weight.numel() + self.output.weight.numel())


class ReplacedTokenDetection(Objective):
    """A generator fills masked places, and the encoder finds where it was wrong (arXiv:2003.10555, sections 2 and 3.2).

    Both have the same token, position and type embeddings. Special pieces are never filled in.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.refuse(config, shape)
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)  # before the generator: initial values go by the first name of a shared tensor
        self.detection_head = DetectionHead(shape)
        small = generator_shape(shape, config.generator_fraction)
        self.generator = Encoder(small)
        _share_embeddings(self.encoder, self.generator)
        self.generator_head = MaskedLMHead(small, self.encoder.embeddings.token_embedding, make_mask_decoder(small))

    @classmethod
    def refuse(cls, config: ObjectiveConfig, shape: EncoderConfig) -> None:
        """ValueError for a body without layers: what stands beside a token would tell nothing of whether it was replaced."""
        if shape.body is Body.static:
            raise ValueError("pretrain.objective=rtd cannot be combined with model.body=static")

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """Masked tokens for the generator; what it fills in is drawn in the forward pass."""
        return masked_question(batch, seeds, self._config, self._vocabulary)

    def forward(self, question: Question) -> Tensor:
        """() generator's cross-entropy plus the weighted binary one over all tokens; fills in from torch's global stream."""
        generated, targets = self._generate(question), question.targets
        summed = F.cross_entropy(generated.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
        ids, labels = replaced(_original(question), question.places, targets, sample(generated, self._vocabulary.special))
        scores = self.detection_head(self.encoder(replace(question.batch, input_ids=ids))).float()  # (B, T)
        detection = F.binary_cross_entropy_with_logits(scores, labels.float(), reduction="sum")
        weight = self._config.detection_weight / (question.rows * ids.shape[1])
        return summed / question.total + weight * detection

    def _generate(self, question: Question) -> Tensor:
        """-> (B, K, V) logits."""
        _, read = self.generator_head.read(self.generator, question.batch)
        return self.generator_head(at_places(read, question.places)).float()

    def flops(self, length: int) -> int:
        """Of both encoders and their heads on one sequence."""
        generated = predictions(self._config.mask_rate, length) * self.generator_head.flops()
        generator = self.generator.flops(length) + self.generator_head.flops_of_decoder(self.generator, length) + generated
        return generator + self.encoder.flops(length) + length * self.detection_head.flops()


def generator_shape(shape: EncoderConfig, fraction: float) -> EncoderConfig:
    """The same variant with layers as narrow as `fraction` says and embeddings as wide (arXiv:2003.10555, section 3.2).

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
    """(..., V) logits -> (...) pieces drawn from their softmax without those of `never`."""
    noise = torch.empty_like(logits).exponential_().clamp(min=torch.finfo(logits.dtype).tiny).log()  # minus Gumbel's
    forbidden = torch.tensor(never, device=logits.device)
    return (logits - noise).index_fill(-1, forbidden, float("-inf")).argmax(dim=-1)


def replaced(original_ids: Tensor, places: Tensor, targets: Tensor, sampled: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) ids with the (B, K) sampled pieces in their places, and (B, T) bool: True where that changed the piece.

    Slots whose target is IGNORED change nothing.
    """
    ids = _put(original_ids, places, targets, sampled)
    return ids, ids != original_ids


def _original(question: Question) -> Tensor:
    """(B, T) ids as they were before any was masked."""
    return _put(question.batch.input_ids, question.places, question.targets, question.targets)


def _put(ids: Tensor, places: Tensor, targets: Tensor, pieces: Tensor) -> Tensor:
    """(B, T) ids with the (B, K) pieces in used slots; unused ones write into a column that is cut off again."""
    T = ids.shape[1]
    return F.pad(ids, (0, 1)).scatter(1, places.masked_fill(targets == IGNORED, T), pieces)[:, :T]


def _share_embeddings(encoder: Encoder, generator: Encoder) -> None:
    ours, theirs = encoder.embeddings, generator.embeddings
    theirs.token_embedding = ours.token_embedding
    theirs.position_embedding = ours.position_embedding
    theirs.type_embedding = ours.type_embedding
    theirs.mask_embedding = ours.mask_embedding
