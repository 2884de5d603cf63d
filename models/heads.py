"""What stands on an encoder for a task. B sequences, T tokens, D hidden, C outputs."""

from torch import Tensor, nn
from torch.nn import functional as F

from models.batch import Batch
from models.config import EncoderConfig
from models.dropout import Dropout
from models.encoder import Encoder, initialise


class Pooler(nn.Module):
    """The first token's vector through a dense layer and tanh (arXiv:1810.04805, section 3.1)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return self.dense(hidden[:, 0]).tanh()


class SequenceClassifier(nn.Module):
    """Encoder, pooler and one linear output; a single output is a regression."""

    def __init__(self, config: EncoderConfig, num_outputs: int) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, batch: Batch) -> Tensor:
        """Batch with (B, T) ids -> (B, C) logits or (B, 1) scores."""
        return self.head(self.dropout(self.pooler(self.encoder(batch))))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy in nats over classes, squared error for a regression; mean over the batch."""
        if self.head.out_features == 1:
            return F.mse_loss(logits.squeeze(-1).float(), labels)
        return F.cross_entropy(logits.float(), labels)


def build_classifier(config: EncoderConfig, num_outputs: int, seed: int) -> SequenceClassifier:
    """A classifier on CPU with initial values drawn from `seed`."""
    model = SequenceClassifier(config, num_outputs)
    initialise(model, config.initializer_range, seed)
    return model
