"""Fine-tuning with a teacher: what a larger fine-tuned model answers, and its hidden states, beside the labels.

B texts, T tokens, C outputs, D hidden.
"""

from dataclasses import dataclass, replace
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F

from harness.config.schema import FinetuneConfig
from harness.errors import present
from harness.hardware.device import Machine
from harness.measure import flops
from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.models.objectives.config import MatchedLayers
from harness.models.objectives.distillation import matched
from harness.tasks.base import Kind, Split
from harness.tasks.batches import evaluation_order
from harness.tasks.prepared import Prepared
from harness.training.evaluation import predict
from harness.training.loop import Position


@dataclass(frozen=True)
class Taught:
    """The loss of a student: of the labels, of the teacher's answers (arXiv:1503.02531), of its hidden states
    (arXiv:1909.10351, section 3)."""

    config: FinetuneConfig
    kind: Kind
    student: Classifier
    teacher: Classifier  # frozen, in evaluation mode, on the same device

    def loss(self, batch: Batch) -> Tensor:
        """() weighted sum, each part the mean over the labels of the batch or over its real tokens."""
        config = self.config
        states = self.student.encoder.hidden_states(batch) if config.hidden_weight else None
        logits = self.student(batch) if states is None else self.student.of_hidden(states[-1], batch)
        taught, answers = [], batch.answers
        if answers is None:
            with torch.no_grad():
                taught = self.teacher.encoder.hidden_states(batch)
                answers = self.teacher.of_hidden(taught[-1], batch)
        loss = self.kind.loss_of(self.student, logits, batch)
        loss = loss + config.soft_weight * self.kind.soft_loss(logits, answers, batch, config.temperature)
        return loss if states is None else loss + config.hidden_weight * hidden_loss(states, taught, batch.attention_mask)


def with_answers(data: Prepared, teacher: Classifier, batch_size: int, machine: Machine, position: Position) -> Prepared:
    """The data with the teacher's answers to its training rows, computed once for all epochs.

    Time and FLOPs of the pass are added to the position; the bytes that the answers take are printed.
    """
    started, train = perf_counter(), present(data.train)
    answers = predict(teacher, train, batch_size, data.pad_token_id, machine)
    print(f"teacher: its answers to {len(train):,} rows are kept for all epochs, {answers.nbytes / 1e6:.3g} MB", flush=True)
    position.flops += flops_of_answers(teacher, train, batch_size)
    position.seconds += perf_counter() - started
    return replace(data, train=replace(train, answers=answers))


def flops_of_answers(teacher: Classifier, train: Split, batch_size: int) -> int:
    """FLOPs of the teacher's pass over all training rows."""
    shapes = [(len(rows), int(train.lengths[rows].max())) for rows in evaluation_order(train, batch_size)]
    return sum(flops.of_model(teacher, *shape) for shape in shapes)


def hidden_loss(states: list[Tensor], taught: list[Tensor], mask: Tensor | None) -> Tensor:
    """Hidden states of both, each (B, T, D), and the (B, T) mask of real tokens -> () squared error.

    The mean over real tokens, features, and layers at the same share of the depth, embeddings included.
    """
    real = torch.ones_like(states[0][..., 0], dtype=torch.bool) if mask is None else mask
    pairs = matched(len(states), len(taught), MatchedLayers.all)
    losses = [F.mse_loss(states[own][real].float(), taught[other][real].float()) for own, other in pairs]
    return sum(losses[1:], losses[0]) / len(pairs)
