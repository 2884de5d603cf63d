"""The one loop for everything that trains: AdamW, linear warm-up and decay, clipping, accumulation."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harness.config.schema import OptimiserConfig
from harness.hardware.device import Machine
from harness.seeds import derive
from harness.tracking.run_log import Journal, now_ms
from models.encoder import set_activation_checkpointing

LOG_EVERY = 10
"""Steps between looks at the losses: each look waits for the device."""


class DivergedError(Exception):
    """The loss is no longer a finite number: a state of the run, not a result."""


@dataclass
class Position:
    """How far a training has come: real tokens, padding not counted, and synchronised seconds of training alone.

    Padded tokens are all that went through the model, the real ones with them.
    """

    step: int = 0
    rows: int = 0  # examples or sequences
    tokens: int = 0
    padded_tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    paused_seconds: float = 0.0


@dataclass(frozen=True)
class Limit:
    """Where a training ends: at so many of a field of Position."""

    unit: str  # step, tokens, flops or seconds
    total: float

    def done(self, position: Position) -> float:
        """How much of `total` is done."""
        return getattr(position, self.unit)

    def size(self, step: "Step") -> float:
        """How much of `total` one step does; that of time is not known before."""
        return {"step": 1, "tokens": step.tokens, "flops": step.flops, "seconds": 0.0}[self.unit]

    def reached(self, position: Position) -> bool:
        """Whether nothing is left."""
        return self.done(position) >= self.total


@dataclass
class Step:
    """The data of one optimiser step, in pieces that go through the model one after the other."""

    pieces: list[Any]
    rows: int
    tokens: int
    padded_tokens: int
    flops: float = 0.0
    shares: list[float] = field(default_factory=list)  # factor of each piece's loss; none: the losses add up as they are


class Pauses(Protocol):
    """What happens between steps and is not counted as training time."""

    def due(self, position: Position) -> bool:
        """Whether there is something to do after this step."""

    def take(self, position: Position) -> None:
        """Does it; the journal has all losses up to here."""


@dataclass(frozen=True)
class Training:
    """What is trained how."""

    model: nn.Module
    loss: Callable[[Any], Tensor]  # of a piece on the device
    next_step: Callable[[Position], Step]
    limit: Limit
    planned_steps: int  # 0 where the clock decides
    phase: str  # first part of the curves' names
    config: OptimiserConfig
    seed: int
    pauses: "Pauses | None" = None


def compile_ahead(training: Training, position: Position, machine: Machine) -> None:
    """The loss and gradients of one step that is not made: a model that runs compiled is so before it trains.

    So the compiler's memory need not count as training's. Weights, random state and position stay; a `next_step` that hands out
    each step once must be one of its own. A later shape may need a graph of its own, which Clock leaves out of training's time.
    """
    if training.limit.reached(position):
        return
    training.model.train()
    set_activation_checkpointing(training.model, training.config.activation_checkpointing)
    cuda = [machine.device] if machine.is_cuda else []
    with torch.random.fork_rng(cuda):
        _backward(training, training.next_step(position), machine)
    for parameter in training.model.parameters():
        parameter.grad = None


def train(training: Training, optimiser: torch.optim.Optimizer, position: Position, machine: Machine, journal: Journal) -> None:
    """Trains from the position to the limit and keeps the position true; DivergedError at a loss that is not finite."""
    training.model.train()
    set_activation_checkpointing(training.model, training.config.activation_checkpointing)
    journal.stage(training.phase, training.planned_steps)
    losses = Losses(training.phase, journal)
    clock = Clock(machine, position.seconds)
    while not training.limit.reached(position):
        _one_step(training, optimiser, position, machine, losses)
        position.seconds = clock.read()
        if position.step % LOG_EVERY == 0 or training.limit.reached(position):
            losses.write()
            position.seconds = clock.read()
        if training.pauses is not None and training.pauses.due(position):
            losses.write()
            position.seconds = clock.read()
            with clock.stopped():
                training.pauses.take(position)
                training.model.train()
    machine.tell_compiled(training.phase)


def _one_step(
    training: Training, optimiser: torch.optim.Optimizer, position: Position, machine: Machine, losses: "Losses"
) -> None:
    step = training.next_step(position)
    done, size = training.limit.done(position), training.limit.size(step)
    rate = learning_rate_factor(done, training.limit.total, training.config.warmup_fraction, size)
    for group in optimiser.param_groups:
        group["lr"] = training.config.learning_rate * rate
    position.step += 1
    torch.manual_seed(derive(training.seed, "dropout", position.step))
    loss = _backward(training, step, machine)
    nn.utils.clip_grad_norm_(training.model.parameters(), training.config.max_grad_norm)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    position.rows += step.rows
    position.tokens += step.tokens
    position.padded_tokens += step.padded_tokens
    position.flops += step.flops
    losses.add(position, loss)


def make_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.AdamW:
    """AdamW (arXiv:1711.05101) that decays matrices, not biases and norms."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (config.adam_betas[0], config.adam_betas[1])
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.adam_eps, fused=True)


def learning_rate_factor(done: float, total: float, warmup_fraction: float, size: float = 1) -> float:
    """Share of the learning rate for a step of `size` where `done` of `total` is done.

    Up over the warm-up, then down towards 0 at the end.
    """
    warmup = math.ceil(total * warmup_fraction)
    if done < warmup:
        return min(1.0, (done + size) / warmup)
    return max(0.0, (total - done) / max(size, total - warmup))


def _backward(training: Training, step: Step, machine: Machine) -> Tensor:
    """Gradients of the loss over the whole step, piece by piece; the loss is detached and stays on the device."""
    total = torch.zeros((), device=machine.device)
    shares = step.shares or [1.0] * len(step.pieces)
    for piece, share in zip(step.pieces, shares, strict=True):
        with machine.autocast():
            loss = training.loss(piece.to(machine.device)) * share
        loss.backward()
        total += loss.detach()
    return total


class Losses:
    """The loss curve: values wait on the device until they are looked at together."""

    def __init__(self, phase: str, journal: Journal) -> None:
        self._key, self._journal = f"{phase}/loss", journal
        self._waiting: list[tuple[int, Tensor, int, int]] = []

    def add(self, position: Position, loss: Tensor) -> None:
        """One more step's loss."""
        self._waiting.append((position.step, loss, position.tokens, now_ms()))

    def write(self) -> None:
        """Looks at all that wait; DivergedError for the first that is not finite."""
        for step, loss, tokens, time_ms in self._waiting:
            value = loss.item()
            if not math.isfinite(value):
                raise DivergedError(f"the loss of step {step} is {value}")
            self._journal.curve(self._key, step, value, tokens, time_ms)
        self._waiting.clear()


class Clock:
    """Synchronised seconds, on top of those of earlier processes, less what is not training: pauses, and compilation."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        self._machine = machine
        self._started = _now(machine) - machine.compiling_s() - seconds

    def read(self) -> float:
        """Seconds so far; not synchronised, so that reading costs nothing: whoever needs it exact looks at a loss before."""
        return time.perf_counter() - self._machine.compiling_s() - self._started

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """What happens inside takes no time."""
        before = _now(self._machine) - self._machine.compiling_s()
        yield
        self._started += _now(self._machine) - self._machine.compiling_s() - before


def _now(machine: Machine) -> float:
    machine.synchronise()
    return time.perf_counter()
