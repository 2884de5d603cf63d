"""Training steps over one batch of random texts, by the loop that runs train with."""

import contextlib
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness import tasks
from harness.config.schema import RunConfig
from harness.hardware.device import Machine
from harness.measure import subject
from harness.measure.latency import Clocks, Reference
from harness.measure.records import TrainingTime
from harness.models.adapt import adapt
from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.training.finetune import step_of
from harness.training.loop import Limit, Position, Training, compile_ahead, train
from harness.training.optimiser import make_optimiser

STEPS = 2
"""Steps for the peak of memory: from the second on, optimizer state and activations are allocated together."""


class NoLog:
    """A log that discards everything, for losses on random texts."""

    def stage(self, name: str, steps: int = 0) -> None: ...

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None: ...


class TrainingSteps:
    """One model under training: loss, gradients, clipping and optimizer over the same finetune.batch_size texts."""

    def __init__(self, config: RunConfig, model: Classifier, machine: Machine) -> None:
        self.config, self.model, self.machine = config, model, machine
        adapt(model, config.finetune)
        self.batch = subject.labelled_texts(config, config.finetune.batch_size, machine)
        self.optimiser = make_optimiser(model, config.finetune)
        self._kind, self._position = tasks.kind_of(config.task), Position()
        self.around_loss: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()  # of the forward pass

    def run(self, number: int, checkpointing: bool | None = None) -> float:
        """Seconds of `number` more steps on the threads of training; DivergedError if the loss is not finite.

        `checkpointing` overrides finetune.activation_checkpointing.
        """
        self.machine.use_threads()
        before = self._position.seconds
        train(self._training(number, checkpointing), self.optimiser, self._position, self.machine, NoLog())
        return self._position.seconds - before

    def compile_ahead(self) -> None:
        """Compiles what the first step would compile, without a step."""
        self.machine.use_threads()
        compile_ahead(self._training(1, None), self._position, self.machine)

    def _training(self, number: int, checkpointing: bool | None) -> Training:
        budget, limit = self.config.finetune, Limit("step", self._position.step + number)
        if checkpointing is not None:
            budget = replace(budget, activation_checkpointing=checkpointing)
        step = step_of(self.batch, budget.accumulation, self._kind.num_targets)
        return Training(
            model=self.model,
            loss=self._loss,
            next_step=lambda _: step,
            limit=limit,
            planned_steps=int(limit.total),
            phase="finetune",
            config=budget,
            seed=self.config.seed,
        )

    def _loss(self, batch: Batch) -> Tensor:
        """The forward pass is a separate range in a trace."""
        with torch.autograd.profiler.record_function("forward"), self.around_loss:
            return self._kind.loss(self.model, batch)


def time_steps(config: RunConfig) -> TrainingTime:
    """Steps over measure.train_batch_size texts on measure.threads, after one that loads the kernels."""
    hardware = replace(config.hardware, threads=config.measure.threads)
    budget = replace(config.finetune, batch_size=config.measure.train_batch_size, accumulation=1)
    machine = Machine(hardware)
    steps = steps_of(replace(config, finetune=budget, hardware=hardware), machine)
    steps.run(1)
    clocks = Clocks(machine, Reference(machine))
    for _ in range(config.measure.train_steps):
        clocks.between(lambda: steps.run(1))
    return TrainingTime(tokens=steps.batch.tokens, **clocks.lists())


def steps_of(config: RunConfig, machine: Machine) -> TrainingSteps:
    """Training steps of a new model."""
    return TrainingSteps(config, subject.build(config, machine), machine)
