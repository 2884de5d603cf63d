"""Masked language modelling with a second task on two segments. B sequences, T tokens, D hidden, K predicted positions."""

from torch import Tensor, nn
from torch.nn import functional as F

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead, Pooler
from models.mask_decoder import make_mask_decoder
from models.objectives.base import Objective, PretrainBatch, Vocabulary
from models.objectives.config import ObjectiveConfig, PairKind
from models.objectives.masked_lm import prediction_loss
from models.objectives.masking import masked_batch, num_predictions


class MaskedLMWithPairs(Objective):
    """Masked tokens, and from the vector of the text whether its two segments are in order. Abstract."""

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._config, self._vocabulary = config, vocabulary
        self.encoder = Encoder(shape)
        self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding, make_mask_decoder(shape))
        self.pooler = Pooler(shape)
        self.pair_head = nn.Linear(shape.hidden_size, 2)

    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        return masked_batch(batch, seeds, self._config, self._vocabulary)

    def forward(self, batch: PretrainBatch) -> Tensor:
        hidden, read = self.masked_head.read(self.encoder, batch.inputs)
        pair_logits = self.pair_head(self.pooler(hidden, batch.inputs.attention_mask)).float()  # (B, 2)
        pair_loss = F.cross_entropy(pair_logits, batch.inputs.labels, reduction="sum") / batch.total_sequences
        return prediction_loss(self.masked_head, read, batch) + pair_loss

    def flops(self, length: int) -> int:
        heads = self.pooler.flops() + 2 * self.pair_head.weight.numel()
        predictions = num_predictions(self._config.mask_rate, length)
        heads += predictions * self.masked_head.flops()
        return self.encoder.flops(length) + self.masked_head.flops_of_decoder(self.encoder, length) + heads


class NextSentence(MaskedLMWithPairs):
    """Whether the second segment follows the first or is from another document (arXiv:1810.04805, section 3.1)."""

    segment_pairs = PairKind.next


class SentenceOrder(MaskedLMWithPairs):
    """Whether the two segments are in order or swapped (arXiv:1909.11942, section 3.1)."""

    segment_pairs = PairKind.order
