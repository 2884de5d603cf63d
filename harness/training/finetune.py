"""Fine-tuning on a task, and the selection of the best epoch."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from harness import tasks
from harness.config.choices import KeepBest, TaskKind
from harness.config.rules import BALANCED
from harness.config.schema import FinetuneConfig, RunConfig
from harness.errors import present
from harness.hardware.device import Machine
from harness.hardware.energy import EnergyMeter
from harness.measure import flops
from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.models.losses import IGNORED, in_batch_loss
from harness.models.objectives.config import MatchedLayers
from harness.models.objectives.distillation import matched
from harness.tasks.base import Kind, Split
from harness.tasks.batches import evaluation_order, pieces, step_of_lengths, training_batches
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog
from harness.training.distributed import ALONE, Ranks, not_empty
from harness.training.evaluation import evaluate_split, headline, predict
from harness.training.loop import Callback, Limit, Position, Step, Training, train
from harness.training.optimiser import make_optimiser, rates_by_layer
from harness.training.sharding import weights_of


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
        if states is None:
            return loss
        mask = batch.attention_mask  # the mean over real tokens, features, and layers at the same share of the depth
        real = torch.ones_like(states[0][..., 0], dtype=torch.bool) if mask is None else mask
        pairs = matched(len(states), len(taught), MatchedLayers.all)
        losses = [F.mse_loss(states[own][real].float(), taught[other][real].float()) for own, other in pairs]
        return loss + config.hidden_weight * (sum(losses[1:], losses[0]) / len(pairs))


def with_answers(data: Prepared, teacher: Classifier, batch_size: int, machine: Machine, position: Position) -> Prepared:
    """The data with the teacher's answers to its training rows, computed once for all epochs.

    Time and FLOPs of the pass are added to the position; the bytes that the answers take are printed.
    """
    started, train = perf_counter(), present(data.train)
    answers = predict(teacher, train, batch_size, data.pad_token_id, machine)
    print(f"teacher: its outputs for {len(train):,} rows are kept for all epochs, {answers.nbytes / 1e6:.3g} MB", flush=True)
    position.flops += flops_of_answers(teacher, train, batch_size)
    position.seconds += perf_counter() - started
    return replace(data, train=replace(train, answers=answers))


def flops_of_answers(teacher: Classifier, train: Split, batch_size: int) -> int:
    """FLOPs of the teacher's pass over all training rows."""
    shapes = [(len(rows) * train.group, int(train.lengths[rows].max())) for rows in evaluation_order(train, batch_size)]
    return sum(flops.of_model(teacher, *shape) for shape in shapes)


Cost = Callable[[int, int], float]
"""FLOPs of forward and backward over so many texts, padded to so many tokens."""


def finetune(
    config: RunConfig,
    model: Classifier,
    data: Prepared,
    machine: Machine,
    run_log: RunLog,
    cost: Cost,
    meter: EnergyMeter | None = None,
    ranks: Ranks = ALONE,
    teacher: Classifier | None = None,
    pause: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Position:
    """Trains the model in place on the task's training split and returns the final position.

    The model ends with the weights of its last step, or those of the best epoch by `finetune.keep_best`; with several ranks,
    the first one evaluates and has them. `meter` pauses during evaluation, which runs within `pause`.
    """
    model.class_weights = class_weights(config, data, machine)
    weights = weights_of(model, machine, ranks)
    position = Position()
    if teacher is not None and not config.finetune.hidden_weight:
        data = with_answers(data, teacher, config.finetune.eval_batch_size, machine, position)
    training = training_of(config, weights.trained, data, cost, ranks, teacher)
    rates = rates_by_layer(model, config.finetune.layer_decay)
    optimiser = make_optimiser(weights.trained, config.finetune, rates)
    if not (machine.is_cuda or machine.compiles or ranks.count > 1):
        optimiser.use_rows(weights.trained)
    if config.finetune.keep_best is KeepBest.none:
        train(training, optimiser, position, machine, run_log)
        weights.collect(optimiser)
    else:
        best = BestCheckpoint(config, model, data, machine, run_log, meter or EnergyMeter([]), ranks, pause)
        evaluated = weights.collected(Callback(best.is_due, best.run), optimiser)
        train(replace(training, callbacks=(evaluated,)), optimiser, position, machine, run_log)
        weights.collect(optimiser)
        best.restore()
    run_log.value("finetune/optimizer_state_bytes", optimiser.state_bytes)
    return position


def training_of(
    config: RunConfig,
    model: Classifier,
    data: Prepared,
    cost: Cost,
    ranks: Ranks = ALONE,
    teacher: Classifier | None = None,
) -> Training:
    """The training that `finetune` runs, with or without a teacher; its batches can be consumed once."""
    budget, kind = config.finetune, tasks.kind_of(config.task)
    step = step_of_lengths(config.hardware)
    batches = training_batches(present(data.train), budget.batch_size, config.seed, data.pad_token_id, step)
    limit = limit_of(config, data)
    loss = partial(kind.loss, model) if teacher is None else Taught(budget, kind, model, teacher).loss
    return Training(
        model=model,
        loss=partial(loss_of_pairs, model, budget.cosine_temperature) if budget.in_batch_negatives else loss,
        next_step=lambda position: step_of(next(batches), budget.accumulation, kind.num_targets, cost, ranks),
        limit=limit,
        planned_steps=int(limit.total) if limit.unit == "step" else 0,
        phase="finetune",
        config=budget,
        seed=config.seed,
        ranks=ranks,
    )


def limit_of(config: RunConfig, data: Prepared) -> Limit:
    """The budget: seconds, or the steps of the epochs."""
    seconds = config.finetune.seconds
    return (
        Limit("step", config.finetune.planned_steps(len(present(data.train)))) if seconds is None else Limit("seconds", seconds)
    )


def loss_of_pairs(model: Classifier, temperature: float, batch: Batch) -> torch.Tensor:
    """() loss of a batch of questions and their paragraphs; those of an equal question, or equal ones, are no negatives."""
    questions, paragraphs = (model(side) for side in batch.sides)
    labels = present(batch.labels)
    same_question = (batch.input_ids[:, None] == batch.input_ids).all(dim=-1)
    with torch.autocast(labels.device.type, enabled=False):  # bfloat16 rounds cosines by 0.4 %, before the temperature divides
        return in_batch_loss(questions, paragraphs, same_question | (labels[:, None] == labels), temperature)


def class_weights(config: RunConfig, data: Prepared, machine: Machine) -> torch.Tensor | None:
    """(C,) factors of the loss of each class; None where all count alike.

    Balanced ones are the rows (of kind `tokens`: words) over the classes times the rows of the class, as scikit-learn's; for
    kind `multilabel`, whose classes are decided separately, the texts without the label over those with it.
    """
    given, labels = config.finetune.class_weights, present(data.train).labels
    if given is None:
        return None
    if given != BALANCED:
        by_label = {str(label): float(weight) for label, weight in given.items()}
        weights = torch.tensor([by_label[label] for label in config.task.labels])
    elif config.task.kind is TaskKind.multilabel:
        weights = torch.from_numpy((1 - labels).sum(axis=0) / labels.sum(axis=0).clip(1))
    else:
        counts = np.bincount(labels[labels != IGNORED], minlength=len(config.task.labels))
        weights = torch.from_numpy(counts.sum() / (len(counts) * counts.clip(1)))
    print(f"class weights: {dict(zip(config.task.labels, weights.tolist(), strict=True))}", flush=True)
    return weights.float().to(machine.device)


class Checkpoint(NamedTuple):
    """Weights on the CPU, the step after which they were copied, and their score."""

    score: float
    step: int
    weights: dict[str, torch.Tensor]


@dataclass
class BestCheckpoint:
    """Evaluates a split in every epoch and at the end, and keeps the weights of the best score, the earliest of equal ones.

    An undefined score is never the best. If all are undefined, the last weights stay. With `finetune.early_stopping` the
    training ends after so many evaluations in a row without a better score.
    """

    config: RunConfig
    model: Classifier
    data: Prepared
    machine: Machine
    run_log: RunLog
    meter: EnergyMeter
    ranks: Ranks
    pause: Callable[[], AbstractContextManager[None]]
    best: Checkpoint | None = None
    without_better: int = 0  # evaluations in a row

    def __post_init__(self) -> None:
        by_tune, trained_on = self.config.finetune.keep_best is KeepBest.tune, len(present(self.data.train))
        self.split, self.key = (present(self.data.tune), "tune/score") if by_tune else (self.data.validation, "eval/score")
        self.steps_per_epoch = self.config.finetune.steps_per_epoch(trained_on)
        self.limit = limit_of(self.config, self.data)
        if by_tune:
            of = f"{len(self.split):,} of {trained_on + len(self.split):,} training rows"
            print(f"tune: {of} are held out to select the weights", flush=True)

    def is_due(self, position: Position) -> bool:
        """`evaluations_per_epoch` times in an epoch, the last time at its end, and at the end of the training."""
        count = self.config.finetune.evaluations_per_epoch
        before, now = (step * count // self.steps_per_epoch for step in (position.step - 1, position.step))
        return now > before or self.limit.reached(position)

    def run(self, position: Position) -> None:
        """Evaluates on the first rank, while the others wait."""
        if self.ranks.first:
            self._evaluate(position)
        position.stopped = bool(self.ranks.agreed(position.stopped))

    def _evaluate(self, position: Position) -> None:
        """Writes the score and the cost of training so far, and copies the weights if they are the best so far."""
        with self.meter.paused(), self.pause():
            for key, value in (costs(position) | {"finetune/energy_j": self.meter.counted}).items():
                if value is not None:
                    self.run_log.curve(key, position.step, value, position.tokens)
            answers = evaluate_split(self.config, self.model, self.split, self.data, self.machine)
            score = headline(self.config.task, answers)
            if score is None:
                return
            self.run_log.curve(self.key, position.step, score, position.tokens)
            is_better, patience = self.best is None or score > self.best.score, self.config.finetune.early_stopping
            self.without_better = 0 if is_better else self.without_better + 1
            if patience is not None and self.without_better >= patience and not self.limit.reached(position):
                position.stopped = True
                unit, total = self.limit.unit, self.limit.total
                of = f" of {total:,}" if unit == "step" else f", {position.seconds:.3g} of {total:,} s"
                said = f"stopped after step {position.step:,}{of}: no better score on tune in {patience} evaluations"
                print(said, flush=True)
            if is_better:
                weights = {name: value.to("cpu", copy=True) for name, value in self.model.state_dict().items()}
                self.best = Checkpoint(score, position.step, weights)

    def restore(self) -> None:
        """Loads the best weights into the model, and writes their score and epoch."""
        if self.best is None:
            return
        self.model.load_state_dict(self.best.weights)
        self.run_log.value(self.key, self.best.score)
        self.run_log.value("finetune/best_epoch", self.best.step / self.steps_per_epoch)


def costs(position: Position) -> dict[str, float | None]:
    """Metric name -> cost of training so far, without evaluation; None where it is unknown."""
    return {
        "finetune/tokens": position.tokens,
        "finetune/flops": None if math.isnan(position.flops) else position.flops,
        "finetune/duration_s": position.seconds,
    }


def rates(position: Position) -> dict[str, float]:
    """Metric name -> throughput of training, and the share of padding among the padded tokens."""
    return {
        "finetune/tokens_per_s": position.tokens / position.seconds,
        "finetune/padded_tokens_per_s": position.padded_tokens / position.seconds,
        "finetune/samples_per_s": position.rows / position.seconds,
        "finetune/padding_share": 1 - position.tokens / position.padded_tokens,
    }


def step_of(
    batch: Batch,
    accumulation: int,
    count: Callable[[Batch], int] = attrgetter("items"),
    cost: Callable[[int, int], float] = lambda rows, length: 0.0,
    ranks: Ranks = ALONE,
) -> Step:
    """The batch as micro-batches, each weighted by its share of the labels, so that the step's loss is the mean over all.

    `count` gives the labels of a micro-batch, `cost` the FLOPs of so many rows of so many tokens, padding included. With
    several ranks, each gets its rows of every micro-batch, weighted by their share of all labels.
    """
    micro_batches = pieces(batch, accumulation)
    labels = [count(micro_batch) for micro_batch in micro_batches]
    sides, total = [side for micro_batch in micro_batches for side in micro_batch.sides], max(1, sum(labels))
    flops = sum(cost(*side.input_ids.shape) for side in sides)
    if ranks.count > 1:
        shares = [ranks.share(micro_batch.items) for micro_batch in micro_batches]
        labels = [count(micro_batch.part(rows)) for micro_batch, rows in zip(micro_batches, shares, strict=True)]
        micro_batches = [micro_batch.part(not_empty(rows)) for micro_batch, rows in zip(micro_batches, shares, strict=True)]
    weights = [number / total for number in labels]
    tokens, padded = sum(side.tokens for side in batch.sides), sum(side.input_ids.numel() for side in batch.sides)
    return Step(micro_batches, batch.items, tokens, padded, flops, weights)
