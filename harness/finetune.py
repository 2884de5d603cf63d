"""Fine-tuning on a task and its evaluation, item by item."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from harness import scores, tasks
from harness.batches import collate, evaluation_order, pieces, training_batches
from harness.config import FinetuneConfig, RunConfig, TaskConfig
from harness.data import Prepared, Split
from harness.hardware import Machine
from harness.journal import Journal
from harness.train import Limit, Position, Step, Training, make_optimiser, train
from models.batch import Batch
from models.heads import SequenceClassifier


def finetune(config: RunConfig, model: SequenceClassifier, data: Prepared, machine: Machine, journal: Journal) -> Position:
    """Trains the model in place on the task's training split; returns how far it came."""
    budget = config.finetune
    batches = training_batches(data.train, budget.batch_size, config.seed, data.pad_token_id)
    steps = planned_steps(budget, len(data.train))
    training = Training(
        model=model,
        loss=lambda batch: model.loss(model(batch), batch.labels),
        next_step=lambda position: step_of(next(batches), budget.accumulation),
        limit=Limit("step", steps),
        planned_steps=steps,
        phase="finetune",
        config=budget,
        seed=config.seed,
    )
    position = Position()
    train(training, make_optimiser(model, budget), position, machine, journal)
    return position


def step_of(batch: Batch, accumulation: int) -> Step:
    """The batch in pieces, each weighed by its share of the examples: its loss is their mean."""
    rows = len(batch.input_ids)
    cut = pieces(batch, accumulation)
    return Step(cut, rows, batch.tokens, shares=[len(piece.input_ids) / rows for piece in cut])


def planned_steps(budget: FinetuneConfig, examples: int) -> int:
    """Optimiser steps of the budget, at least one."""
    steps = max(1, round(budget.epochs * math.ceil(examples / budget.batch_size)))
    return steps if budget.max_steps is None else min(steps, budget.max_steps)


@dataclass
class Predictions:
    """One row an item, in the order of the data."""

    items: np.ndarray  # (N,)
    labels: np.ndarray  # (N,)
    logits: np.ndarray  # (N, C) float32, C = 1 for a regression

    @property
    def predicted(self) -> np.ndarray:
        """(N,) class numbers, or scores for a regression."""
        return self.logits[:, 0] if self.logits.shape[1] == 1 else self.logits.argmax(axis=1)


@torch.inference_mode()
def predict(model: SequenceClassifier, split: Split, batch_size: int, pad_token_id: int, machine: Machine) -> Predictions:
    """The model's answer to every example of the split, without dropout."""
    model.eval()
    logits = np.empty((len(split), model.head.out_features), dtype=np.float32)
    for chosen in evaluation_order(split, batch_size):
        batch = collate(split, chosen, pad_token_id).to(machine.device)
        with machine.autocast():
            logits[chosen] = model(batch).float().cpu().numpy()
    return Predictions(split.items, split.labels, logits)


def evaluate(task: TaskConfig, predictions: Predictions, majority_class: int, journal: Journal) -> None:
    """Writes the task's scores, its headline score, the loss, and the score of always giving the most frequent answer."""
    truth, predicted = predictions.labels, predictions.predicted
    values = {name: scores.compute(name, truth, predicted) for name in task.scores}
    for name, value in values.items():
        journal.value(f"eval/{name}", value)
    journal.value("eval/score", values[task.headline])
    journal.value("eval/loss", _mean_loss(predictions, tasks.is_regression(task)))
    journal.value("eval/examples", len(truth))
    constant = np.full_like(predicted, majority_class)
    journal.value("eval/majority_score", scores.compute(task.headline, truth, constant))


def _mean_loss(predictions: Predictions, regression: bool) -> float:
    logits, labels = torch.from_numpy(predictions.logits), torch.from_numpy(predictions.labels)
    if regression:
        return torch.nn.functional.mse_loss(logits[:, 0], labels).item()
    return torch.nn.functional.cross_entropy(logits, labels).item()


def write_predictions(predictions: Predictions, path: Path) -> None:
    """One row an item: its id, its label, the prediction and every logit."""
    import pyarrow
    from pyarrow import parquet

    columns = {"item": predictions.items, "label": predictions.labels, "prediction": predictions.predicted}
    columns |= {f"logit_{index}": predictions.logits[:, index] for index in range(predictions.logits.shape[1])}
    parquet.write_table(pyarrow.table(columns), path)
