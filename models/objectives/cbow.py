"""A token from the mean of its neighbours (arXiv:1301.3781, section 3.1). B sequences, T tokens, K places, D hidden."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from models.batch import Batch
from models.config import Body, EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.objectives.config import ObjectiveConfig, ObjectiveName
from models.objectives.drawing import asked, drawn_places, predictions
from models.objectives.masked import at_places
from models.objectives.question import IGNORED, Objective, Question, Vocabulary, refuse_pairs


class ContinuousBag(Objective):
    """Which piece stands at a place, from the mean vector of the ordinary pieces up to `context` places to each side of it.

    Places are drawn as masks are: a step then asks as much as one of masked tokens does, where scoring the vocabulary at
    every place would be all that a model without layers costs. Nothing is hidden: a mean leaves its own place out.
    """

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)
        self.lm_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding)

    @classmethod
    def refuse(cls, config: ObjectiveConfig, shape: EncoderConfig) -> None:
        """ValueError for a body with layers, which a mean of neighbours would leave without a use."""
        refuse_pairs(ObjectiveName.cbow, {f"body={shape.body.value}": shape.body is not Body.static})

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """Places (B, K) of a batch whose mask (B, T) is True for ordinary pieces."""
        ordinary = ~torch.isin(batch.input_ids, torch.tensor(self._vocabulary.special))
        draws = [torch.Generator().manual_seed(seed) for seed in seeds]
        places = drawn_places(batch, draws, self._config, self._vocabulary)
        unchanged = batch.input_ids.gather(1, places.clamp(min=0))
        return asked(replace(batch, attention_mask=ordinary), places, unchanged)

    def forward(self, question: Question) -> Tensor:
        logits = self.lm_head(self.means(question)).float().flatten(0, 1)
        summed = F.cross_entropy(logits, question.targets.flatten(), ignore_index=IGNORED, reduction="sum")
        return summed / question.total

    def means(self, question: Question) -> Tensor:
        """(B, K, D), zeros where no ordinary piece is near."""
        hidden, ordinary = self.encoder(question.batch), question.batch.attention_mask
        T, context = hidden.shape[1], self._config.context
        after = torch.arange(1, context + 1, device=hidden.device)
        near = (question.places[..., None] + torch.cat([-after, after])).flatten(1)  # (B, K * 2 context)
        inside = near.clamp(0, T - 1)
        counted = ordinary.gather(1, inside) & (near == inside)
        vectors = at_places(hidden, inside) * counted[..., None]
        by_place = (-1, 2 * context)
        number = counted.unflatten(1, by_place).sum(dim=2).clamp(min=1)
        return vectors.unflatten(1, by_place).sum(dim=2) / number[..., None]

    def flops(self, length: int) -> int:
        return self.encoder.flops(length) + predictions(self._config.mask_rate, length) * self.lm_head.flops()
