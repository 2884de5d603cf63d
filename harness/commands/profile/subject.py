"""What is measured: a variant with random weights, and texts of random ids without padding. B texts, T tokens."""

import torch
from torch import Tensor

from harness import tasks
from harness.commands.describe.command import OUTPUTS
from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.hardware.device import Machine
from harness.training.finetune import step_of
from harness.training.loop import Limit, Position, Training, compile_ahead, make_optimiser, train
from models.batch import Batch
from models.heads import Classifier, build_classifier


def outputs_of(task: TaskConfig) -> int:
    """Outputs of the head; of a task that does not say, as many as in the published counts."""
    return tasks.num_outputs(task) or OUTPUTS


def build(config: RunConfig, machine: Machine) -> Classifier:
    """The variant with fresh values, on the device, compiled where hardware.compile says so."""
    head = tasks.kind_of(config.task).head()
    model = build_classifier(config.model, outputs_of(config.task), config.seed, head).to(machine.device)
    machine.synchronise()
    return machine.compiled(model)


def texts(config: RunConfig, count: int, machine: Machine) -> Batch:
    """So many texts of the measured length with random ids and labels, the same for every variant of one vocabulary."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(0, config.model.vocab_size, (count, config.measure.length), generator=draw)
    batch = Batch(input_ids=ids, labels=_labels(config.task, ids, draw), tokens=ids.numel())
    return batch.to(machine.device)


def _labels(task: TaskConfig, ids: Tensor, draw: torch.Generator) -> Tensor:
    """In the shape that the head of the task is trained on."""
    (B, T), outputs = ids.shape, outputs_of(task)
    if task.kind is TaskKind.regression:
        return torch.rand(B, generator=draw)
    ends = {TaskKind.classification: ((B,), outputs), TaskKind.tokens: ((B, T), outputs), TaskKind.spans: ((B, 2), T)}
    shape, below = ends[task.kind]
    return torch.randint(0, below, shape, generator=draw)


class Unwritten:
    """Stands for the journal of a training whose losses mean nothing."""

    def stage(self, name: str, steps: int = 0) -> None:
        """Said to nobody."""

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None:
        """Kept nowhere."""


class Steps:
    """Steps of fine-tuning over one batch again and again, as a run does them: loss, gradients, clipping, AdamW."""

    def __init__(self, config: RunConfig, model: Classifier, machine: Machine) -> None:
        self._config, self._model, self._machine = config, model, machine
        self._kind = tasks.kind_of(config.task)
        self._batch = texts(config, config.finetune.batch_size, machine)
        self._optimiser = make_optimiser(model, config.finetune)
        self._position = Position()

    def run(self, number: int) -> None:
        """So many more steps on the threads of training; DivergedError when the loss is no number."""
        self._machine.use_threads()
        train(self._training(number), self._optimiser, self._position, self._machine, Unwritten())

    def compile_ahead(self) -> None:
        """What the first step would compile, and no step."""
        self._machine.use_threads()
        compile_ahead(self._training(1), self._position, self._machine)

    def _training(self, number: int) -> Training:
        limit = Limit("step", self._position.step + number)
        step = step_of(self._batch, self._config.finetune.accumulation, self._kind.asked)
        return Training(
            model=self._model,
            loss=self.loss,
            next_step=lambda _: step,
            limit=limit,
            planned_steps=int(limit.total),
            phase="finetune",
            config=self._config.finetune,
            seed=self._config.seed,
        )

    def loss(self, batch: Batch) -> Tensor:
        """The forward pass; a range of its own in a trace."""
        with torch.autograd.profiler.record_function("forward"):
            return self._kind.loss(self._model, batch)
