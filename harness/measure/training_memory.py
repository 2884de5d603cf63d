"""The four parts of a training step's memory, measured on real steps of the one training loop, in this process.

Weights, gradients and optimiser state are the real tensors. Activations are what autograd saves while the loss is computed,
each storage once, without parameters and the given batch. The peaks above the baseline are taken first, with nothing watching,
so that they can contradict the sum. A peak above the sum is mostly what the C library keeps of freed blocks: started with
MALLOC_MMAP_THRESHOLD_=65536 in its environment, a process has less of it.
"""

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness import tasks
from harness.config.choices import TaskKind
from harness.config.schema import RunConfig
from harness.hardware.device import Machine
from harness.measure import flops, memory_formula
from harness.measure.memory import Peak, PeakMemory, refuse_less_than
from harness.measure.memory_formula import Parts, Shape
from harness.measure.peak_flops import peak_flops_per_s
from harness.tracking.run_log import Journal
from harness.training.loop import Limit, Position, Step, Training, make_optimiser, train
from models.batch import Batch
from models.encoder import Stack, one_layer
from models.heads import build_classifier

OUTPUTS = 2
"""Classes of the head where no task says it."""

PEAK_STEPS = 2
"""Steps under the peak: the optimiser state is there from the second on."""

TIMED_S = 3.0
"""Seconds after which no further step is timed, where there are two already."""


@dataclass(frozen=True)
class Asked:
    """Which step is measured."""

    batch_size: int
    checkpointing: bool = False
    timed_steps: int = 5
    against_plain: bool = False  # each timed step is paired with one without checkpointing: a load that changes meets both


@dataclass(frozen=True)
class Measured:
    """All of one step: bytes, seconds and FLOPs."""

    asked: Asked
    parts: Parts
    formula: Parts
    peak: Peak
    step_s: float | None  # median
    flops: flops.StepFlops
    plain_step_s: float | None = None  # median of the steps without checkpointing that were timed in between
    peak_flops_per_s: float | None = None  # of the fastest matrix product, where steps were timed


class Saved(torch.autograd.graph.saved_tensors_hooks):
    """Counts what autograd saves inside its block, each storage once, without those of the tensors that are named."""

    def __init__(self, without: Iterable[Tensor]) -> None:
        self._storages = {tensor.untyped_storage().data_ptr(): 0 for tensor in without}
        super().__init__(self._pack, lambda saved: saved)

    @property
    def bytes(self) -> int:
        """So far."""
        return sum(self._storages.values())

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self._storages.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor


def shape_of(config: RunConfig, batch_size: int) -> Shape:
    """The classifier of the task and its batch of `measure.length` tokens."""
    kind = tasks.kind_of(config.task)
    outputs = kind.num_outputs(config.task) or OUTPUTS
    return Shape(config.model, outputs, batch_size, config.measure.length, kind.head())


def batch_of(config: RunConfig, shape: Shape) -> Batch:
    """Random ids without padding and the first class everywhere, on CPU."""
    size = (shape.batch_size, shape.length)
    ids = torch.randint(0, shape.config.vocab_size, size, generator=torch.Generator().manual_seed(0))
    labels = {
        TaskKind.classification: torch.zeros(size[0], dtype=torch.int64),
        TaskKind.regression: torch.zeros(size[0]),
        TaskKind.tokens: torch.zeros(size, dtype=torch.int64),
        TaskKind.spans: torch.zeros(size[0], 2, dtype=torch.int64),
    }
    return Batch(input_ids=ids, labels=labels[config.task.kind], tokens=ids.numel())


class Steps:
    """One model under training, step by step."""

    def __init__(self, config: RunConfig, asked: Asked, machine: Machine, journal: Journal) -> None:
        self.config, self.machine, self.journal = config, machine, journal
        self.shape = shape_of(config, asked.batch_size)
        self.model = build_classifier(config.model, self.shape.num_outputs, config.seed, self.shape.head).to(machine.device)
        self.batch = batch_of(config, self.shape).to(machine.device)
        self.budget = replace(config.finetune, activation_checkpointing=asked.checkpointing)
        self.optimiser = make_optimiser(self.model, self.budget)
        self.saved: Saved | None = None

    def run(self, steps: int, plain: bool = False) -> float:
        """Seconds of so many optimiser steps; `plain` ones keep all activations, whatever was asked."""
        position = Position()
        training = Training(
            model=self.model,
            loss=self._loss,
            next_step=lambda _: Step([self.batch], self.shape.batch_size, self.shape.tokens, self.batch.input_ids.numel()),
            limit=Limit("step", steps),
            planned_steps=steps,
            phase="finetune",
            config=replace(self.budget, activation_checkpointing=False) if plain else self.budget,
            seed=self.config.seed,
        )
        train(training, self.optimiser, position, self.machine, self.journal)
        return position.seconds

    def parts(self) -> Parts:
        """Of one more step."""
        given = [self.batch.input_ids, self.batch.labels]
        self.saved = Saved([*self.model.parameters(), *given])
        gradients: list[int] = []
        watching = self.optimiser.register_step_pre_hook(lambda *_: gradients.append(held(p.grad for p in self._parameters())))
        self.run(1)
        watching.remove()
        activations, self.saved = self.saved.bytes, None
        state = held(value for values in self.optimiser.state.values() for value in values.values())
        return Parts(held(self._parameters()), gradients[0], state, self._with_one_layer(activations, given))

    def _with_one_layer(self, outside: int, given: list[Tensor]) -> int | None:
        """What is saved while the largest layer is computed again; None for a body whose layers cannot be run alone."""
        if not self.budget.activation_checkpointing:
            return outside
        stack = self.model.encoder.layers
        if not isinstance(stack, Stack):
            return None
        return outside + max(self._of_layer(stack, blocks, given) for blocks in stack.execution_order())

    def _of_layer(self, stack: Stack, blocks: tuple, given: list[Tensor]) -> int:
        """Bytes that one layer saves beside its input and what all layers share."""
        size = (self.shape.batch_size, self.shape.length, self.shape.config.hidden_size)
        hidden, context = torch.randn(size, device=self.machine.device, requires_grad=True), stack.context(self.batch)
        saved = Saved([*self.model.parameters(), *given, hidden])
        with saved, self.machine.autocast():
            one_layer(blocks, context, hidden)
        return saved.bytes

    def _parameters(self) -> Iterable[Tensor]:
        return self.model.parameters()

    def _loss(self, batch: Batch) -> Tensor:
        kind = tasks.kind_of(self.config.task)
        if self.saved is None:
            return kind.loss(self.model, batch)
        with self.saved:
            return kind.loss(self.model, batch)


def held(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of all storages, each once."""
    storages = (tensor.untyped_storage() for tensor in tensors if tensor is not None)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def measure(config: RunConfig, asked: Asked, folder: Path) -> Measured:
    """Measures one step; means most as the first thing that a process does. `folder` takes the journal of the training.

    RuntimeError when the peak is below the parts that were there all the time.
    """
    machine = Machine(config.hardware)
    journal = Journal(folder)
    Steps(narrow(config), replace(asked, batch_size=1), machine, journal).run(1)  # loads the kernels, which count for no model
    made: list[Steps] = []

    def build_and_train() -> None:
        made.append(Steps(config, asked, machine, journal))
        made[0].run(PEAK_STEPS)

    peak = PeakMemory(machine).both(build_and_train)
    steps = made[0]
    own, plain_ones = step_times(steps, asked)
    parts = steps.parts()
    shape = steps.shape
    return Measured(
        asked,
        parts,
        memory_formula.parts(shape, config.hardware, asked.checkpointing),
        refuse_less_than(parts.lasting, peak),
        statistics.median(own) if own else None,
        flops.of_step(config.model, shape.num_outputs, shape.batch_size, shape.length, asked.checkpointing, shape.head),
        statistics.median(plain_ones) if plain_ones else None,
        peak_flops_per_s(machine) if own else None,
    )


def narrow(config: RunConfig) -> RunConfig:
    """The same variant so thin that it weighs next to nothing."""
    model = config.model
    width = 2 * model.num_attention_heads
    thin = replace(model, hidden_size=width, intermediate_size=width, vocab_size=model.pad_token_id + 2)
    return replace(config, model=thin)


def step_times(steps: Steps, asked: Asked) -> tuple[list[float], list[float]]:
    """Seconds of each timed step, and of the plain ones in between."""
    own: list[float] = []
    plain_ones: list[float] = []
    while len(own) < asked.timed_steps and (len(own) < 2 or sum(own) < TIMED_S):
        if asked.against_plain:
            plain_ones.append(steps.run(1, plain=True))
        own.append(steps.run(1))
    return own, plain_ones


def plain(measured: Measured) -> dict[str, Any]:
    """As JSON takes it."""
    return asdict(measured)


def from_plain(value: dict[str, Any]) -> Measured:
    """What `plain` made of it."""
    kinds = {"asked": Asked, "parts": Parts, "formula": Parts, "peak": Peak, "flops": flops.StepFlops}
    return Measured(**value | {name: kind(**value[name]) for name, kind in kinds.items()})
