"""The subject of measuring: a variant with random weights, and its inputs. B texts, T tokens."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness import tasks
from harness.config.choices import UNTRAINED, TaskKind
from harness.config.schema import MeasureConfig, RunConfig, TaskConfig
from harness.errors import InputError, present
from harness.hardware.device import Machine
from harness.measure.flops import Shape
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import Classifier, build_classifier, on_meta
from harness.tasks import prepared
from harness.tasks.base import Split
from harness.tasks.batches import collate, evaluation_order
from harness.tasks.prepared import Prepared

OUTPUTS = 2
"""Outputs of the head if the task does not determine them, as in published counts."""

BATCHES = 2
"""Throughput batches of random ids; all have the same length, so more of them would add nothing."""


def refuse_scored(task: TaskConfig) -> None:
    """InputError for a task that trains no head on the encoder: there is no classifier to show."""
    if task.kind in UNTRAINED:
        raise InputError(f"task={task.name} scores a model without a head on the encoder: choose another task")


def outputs_of(task: TaskConfig) -> int:
    """Outputs of the task's head."""
    return tasks.num_outputs(task) or OUTPUTS


def group_of(task: TaskConfig) -> int:
    """Texts of an item: the endings of a multiple choice."""
    return len(task.labels) if task.kind is TaskKind.multiple_choice else 1


def shapes(model: EncoderConfig, task: TaskConfig) -> Classifier:
    """The variant with the head of the task, without values."""
    return on_meta(model, outputs_of(task), tasks.kind_of(task).head())


def load_code(config: RunConfig) -> float:
    """Imports what an encoder of another package is computed by, before memory is measured: libraries are none of a model.

    Seconds that this took, 0 for our own.
    """
    if config.model.encoder is None:
        return 0.0
    started = time.perf_counter()
    shapes(config.model, config.task)
    return time.perf_counter() - started


def classifier(config: RunConfig, seed: int = 0) -> Classifier:
    """The variant with the head of its task, randomly initialised, on CPU."""
    return build_classifier(config.model, outputs_of(config.task), seed, tasks.kind_of(config.task).head())


def build(config: RunConfig, machine: Machine) -> Classifier:
    """The variant on the device, compiled if hardware.compile is set."""
    model = classifier(config).to(machine.device)
    machine.synchronise()
    return machine.prepare(model)


def texts(vocab_size: int, length: int, machine: Machine, batch_size: int = 1) -> Batch:
    """Texts of random ids without padding, the same for every variant of one vocabulary."""
    return _texts(vocab_size, length, batch_size, torch.Generator().manual_seed(0)).to(machine.device)


def labelled_texts(config: RunConfig, batch_size: int, machine: Machine) -> Batch:
    """Texts of random ids of measure.length with random labels, in the shape that the task is trained on."""
    stream, group = torch.Generator().manual_seed(0), group_of(config.task)
    batch = _texts(config.model.vocab_size, present(config.measure.length), batch_size * group, stream)
    batch.group, batch.labels = group, _labels(config.task, batch.input_ids, stream)
    return batch.to(machine.device)


def _texts(vocab_size: int, length: int, batch_size: int, stream: torch.Generator) -> Batch:
    ids = torch.randint(0, vocab_size, (batch_size, length), generator=stream)
    return Batch(input_ids=ids, tokens=ids.numel())


def _labels(task: TaskConfig, ids: Tensor, stream: torch.Generator) -> Tensor:
    (B, T), outputs = ids.shape, outputs_of(task)
    if task.kind is TaskKind.regression:
        return torch.rand(B, generator=stream)
    if task.kind is TaskKind.multilabel:
        return torch.randint(0, 2, (B, outputs), generator=stream).float()
    ends = {TaskKind.classification: ((B,), outputs), TaskKind.tokens: ((B, T), outputs), TaskKind.spans: ((B, 2), T)}
    ends |= {TaskKind.multiple_choice: ((B // group_of(task),), group_of(task))}
    shape, below = ends[task.kind]
    return torch.randint(0, below, shape, generator=stream)


def sample_batches(validation: Split, pad_token_id: int, measure: MeasureConfig, machine: Machine) -> list[Batch]:
    """Throughput batches over the whole range of lengths, on the device."""
    order = evaluation_order(validation, measure.batch_size)
    picked = np.unique(np.linspace(0, len(order) - 1, min(measure.throughput_batches, len(order))).round().astype(int))
    return [collate(validation, order[index], pad_token_id).to(machine.device) for index in picked]


def step_shape(config: RunConfig, batch_size: int) -> Shape:
    """The classifier of the task and its batch of measure.length tokens, as counts of FLOPs and memory take them."""
    head, averaged = tasks.kind_of(config.task).head(), config.finetune.ema_decay is not None
    group, length = group_of(config.task), present(config.measure.length)
    return Shape(config.model, outputs_of(config.task), batch_size * group, length, head, config.finetune, averaged, group)


@dataclass(frozen=True)
class Subject:
    """One variant on one machine, with its texts: those of the task, or random ids."""

    config: RunConfig
    machine: Machine
    data: Prepared | None = None

    @property
    def vocab_size(self) -> int:
        """Upper limit of random ids."""
        return self.config.model.vocab_size if self.data is None else self.data.vocab_size

    def text(self, length: int, batch_size: int = 1) -> Batch:
        """Random ids without padding."""
        return texts(self.vocab_size, length, self.machine, batch_size)

    def batches(self) -> list[Batch]:
        """Batches for the peak of memory: of the task, or of random ids if there is no data."""
        measure = self.config.measure
        if self.data is None:
            return [self.text(present(measure.length), measure.batch_size)] * BATCHES
        return sample_batches(self.data.validation, self.data.pad_token_id, measure, self.machine)

    def timed_batches(self, key: str | None) -> list[Batch]:
        """Throughput batches: measure.throughput_texts of random ids, else those of the prepared data with this key."""
        measure = self.config.measure
        if key is None or measure.throughput_texts:
            return [self.text(present(measure.length), measure.throughput_texts or measure.batch_size)]
        facts = prepared.facts(self.config.output, key)
        return sample_batches(prepared.read_validation(self.config, key), facts.pad_token_id, measure, self.machine)
