"""Classification with smoothed labels."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.tasks.classification import Classification


class Smoothed(Classification):
    """A tenth of the label is spread over all classes."""

    def loss_of(self, model: Classifier, logits: Tensor, batch: Batch) -> Tensor:
        """()."""
        return cross_entropy(logits.float(), batch.labels, label_smoothing=0.1)
