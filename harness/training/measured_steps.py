"""Training steps over one batch of random texts, by the loop that runs train with, and what they hold in memory.

Weights, gradients and optimiser state are the real tensors. Activations are what autograd saves while the loss is computed,
each storage once, without parameters and the batch itself. The peaks above the baseline are measured first, without
hooks, as an independent check of the sum. A peak above the sum is mostly what the C library keeps of freed blocks: less
of it with MALLOC_MMAP_THRESHOLD_=65536 in the environment. oneDNN keeps 3 to 7 MB more for its kernels.
"""

import contextlib
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from harness import tasks
from harness.config.schema import RunConfig
from harness.errors import present
from harness.hardware.device import Machine
from harness.hardware.peak_flops import peak_flops_per_s
from harness.measure import flops, memory_formula, subject
from harness.measure.memory import peak_memory, refuse_less_than
from harness.measure.memory_formula import Parts, Saved, recomputed
from harness.measure.records import StepRequest, TrainingStepMemory, TrainingTime
from harness.measure.reference import Clocks, Reference
from harness.models.adapt import adapt
from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.training.finetune import step_of
from harness.training.loop import Limit, Position, Training, compile_ahead, train
from harness.training.optimiser import held, make_optimiser

TIMED_S = 3.0
"""Seconds after which no further step is timed, after at least two."""

STEPS = 2
"""Steps for the peak of memory: from the second on, optimiser state and activations are allocated together."""


class NoLog:
    """A log that discards everything: losses of random texts mean nothing."""

    def stage(self, name: str, steps: int = 0) -> None: ...

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None: ...


class TrainingSteps:
    """One model under training: loss, gradients, clipping and optimiser over the same finetune.batch_size texts."""

    def __init__(self, config: RunConfig, model: Classifier, machine: Machine) -> None:
        self.config, self.model, self.machine = config, model, machine
        adapt(model, config.finetune)
        self.batch = subject.labelled_texts(config, config.finetune.batch_size, machine)
        self.optimiser = make_optimiser(model, config.finetune)
        self._kind, self._position = tasks.kind_of(config.task), Position()
        self._around_loss: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()

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

    def run_with(self, around_loss: contextlib.AbstractContextManager[Any]) -> None:
        """One step, its forward pass and loss inside this context."""
        self._around_loss = around_loss
        try:
            self.run(1)
        finally:
            self._around_loss = contextlib.nullcontext()

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
        with torch.autograd.profiler.record_function("forward"), self._around_loss:
            return self._kind.loss(self.model, batch)


def measure(config: RunConfig, request: StepRequest, machine: Machine) -> TrainingStepMemory:
    """Measures one step; must be the first thing that a process does with a model.

    RuntimeError if the peak is below the parts that are always allocated.
    """
    config = one_piece(config, request)
    warm_up = steps_of(one_piece(narrow(config), replace(request, batch_size=1)), machine)
    warm_up.run(1)  # loads the kernels, which count for no model
    with peak_memory(machine) as peak:
        steps = steps_of(config, machine)
        steps.run(STEPS)
    own, plain = step_times(steps, request)
    found, shape = parts(steps), subject.step_shape(config, request.batch_size)
    return TrainingStepMemory(
        step=request,
        parts=found,
        formula=memory_formula.parts(shape, config.hardware, request.checkpointing),
        peak=refuse_less_than(found.lasting, peak),
        step_s=median(own) if own else None,
        flops=flops.of_step(shape, request.checkpointing),
        plain_step_s=median(plain) if plain else None,
        peak_flops_per_s=peak_flops_per_s(machine) if own else None,
    )


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


def one_piece(config: RunConfig, request: StepRequest) -> RunConfig:
    """The config of a step of so many texts without gradient accumulation."""
    budget = replace(
        config.finetune,
        batch_size=request.batch_size,
        accumulation=1,
        activation_checkpointing=request.checkpointing,
    )
    return replace(config, finetune=budget)


def steps_of(config: RunConfig, machine: Machine) -> TrainingSteps:
    """Training steps of a new model."""
    return TrainingSteps(config, subject.build(config, machine), machine)


def narrow(config: RunConfig) -> RunConfig:
    """The variant with minimal width, so that its memory is negligible."""
    model = config.model
    width = 2 * model.num_attention_heads
    thin = replace(model, hidden_size=width, intermediate_size=width, vocab_size=model.pad_token_id + 2)
    return replace(config, model=thin)


def step_times(steps: TrainingSteps, request: StepRequest) -> tuple[list[float], list[float]]:
    """Seconds of each timed step, and of those without checkpointing in between."""
    own: list[float] = []
    plain: list[float] = []
    while len(own) < request.timed_steps and (len(own) < 2 or sum(own) < TIMED_S):
        if request.against_plain:
            plain.append(steps.run(1, checkpointing=False))
        own.append(steps.run(1))
    return own, plain


def parts(steps: TrainingSteps) -> Parts:
    """The four parts, measured on one more step."""
    model, batch = steps.model, [steps.batch.input_ids, present(steps.batch.labels)]
    saved, gradients = Saved([*model.parameters(), *batch]), []
    hook = steps.optimiser.register_step_pre_hook(
        lambda *_: gradients.append(held(parameter.grad for parameter in model.parameters()))
    )
    steps.run_with(saved)
    hook.remove()
    with steps.machine.autocast():
        again = recomputed(model, steps.batch, batch) if steps.config.finetune.activation_checkpointing else 0
    activations = None if again is None else saved.bytes + again
    return Parts(held(model.parameters()), gradients[0], steps.optimiser.state_bytes, activations)
