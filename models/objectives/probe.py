"""The measure that is the same for all objectives: masked tokens, every one of them shown as [MASK].

B sequences, T tokens, D hidden, V vocabulary.
"""

import torch
from torch import Tensor, nn

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder, initialise
from models.heads import MaskedLMHead
from models.objectives.config import ObjectiveConfig
from models.objectives.drawing import asked, drawn_places
from models.objectives.masked import masked_loss
from models.objectives.question import Question, Vocabulary


def pinned_question(batch: Batch, seeds: list[int], vocabulary: Vocabulary, rate: float) -> Question:
    """Tokens at this rate, all of them shown as [MASK]: nothing of an answer is left."""
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    places = drawn_places(batch, draws, ObjectiveConfig(mask_rate=rate), vocabulary)
    return asked(batch, places, torch.full_like(places, vocabulary.mask))


class Probe(nn.Module):
    """A head for masked tokens on an encoder that stays as it is; its output matrix begins as the encoder's embedding."""

    def __init__(self, shape: EncoderConfig, encoder: Encoder, seed: int) -> None:
        super().__init__()
        embedding = encoder.embeddings.token_embedding
        self.head = MaskedLMHead(shape, embedding)
        self.head.output.weight = nn.Parameter(embedding.weight.detach().clone())
        beginning = self.head.output.weight.detach().clone()
        initialise(self, shape.initializer_range, seed, shape.init, shape.depth)
        with torch.no_grad():
            self.head.output.weight.copy_(beginning)

    def loss(self, encoder: Encoder, question: Question) -> Tensor:
        """() mean cross-entropy in nats, without a gradient for the encoder."""
        with torch.no_grad():
            hidden = encoder(question.batch)
        return masked_loss(self.head, hidden, question)
