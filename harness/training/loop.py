"""The training loop of fine-tuning and pretraining: warm-up and schedule of the rate, gradient accumulation."""

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from harness.config.choices import Schedule
from harness.config.resolve import DECAY
from harness.config.schema import OptimiserConfig, PretrainConfig
from harness.data.seeds import derive
from harness.hardware.device import Machine
from harness.models.encoder import Encoder, set_activation_checkpointing
from harness.tracking.run_log import Reader, RunLog, now_ms
from harness.training.distributed import ALONE, Ranks, plain
from harness.training.optimiser import Clipped, use_sparse_gradients

LOG_EVERY = 10
"""Steps between readings of the losses, which wait for the device, and between points of curves that need not be denser."""


class DivergedError(Exception):
    """The loss is not a finite number."""


@dataclass
class Position:
    """Progress of a training. Tokens are without padding, `padded_tokens` with it; seconds are those of training."""

    step: int = 0
    rows: int = 0  # examples or sequences
    tokens: int = 0
    padded_tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    paused_seconds: float = 0.0  # of evaluation, not in `seconds`
    peak_bytes: int = 0  # of memory, up to the last checkpoint
    stopped: bool = False  # before the limit

    def advance(self, step: "Step", times: int = 1) -> None:
        """Counts so many more steps of this kind."""
        self.step += times
        self.rows += times * step.rows
        self.tokens += times * step.tokens
        self.padded_tokens += times * step.padded_tokens
        self.flops += times * step.flops


@dataclass(frozen=True)
class Limit:
    """Where training ends: at `total` of one field of Position."""

    unit: str  # step, tokens, flops or seconds
    total: float

    def done(self, position: Position) -> float:
        """How much of `total` is done."""
        return getattr(position, self.unit)

    def size(self, step: "Step") -> float:
        """How much of `total` one step does; 0 for seconds, which are not known in advance."""
        return {"step": 1, "tokens": step.tokens, "flops": step.flops, "seconds": 0.0}[self.unit]

    def reached(self, position: Position) -> bool:
        """Whether training is over."""
        return self.done(position) >= self.total


@dataclass
class Step:
    """The data of one optimizer step."""

    micro_batches: list[Any]  # processed one after the other
    rows: int
    tokens: int
    padded_tokens: int
    flops: float = 0.0
    weights: list[float] = field(default_factory=list)  # of each micro-batch's loss; empty: 1 for each


class Log(Protocol):
    """The log of a training, such as a RunLog."""

    def stage(self, name: str, steps: int = 0) -> None:
        """Begins a stage of so many planned steps."""

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None:
        """Adds a point to a curve."""


@dataclass(frozen=True)
class Callback:
    """What runs between steps, outside of the measured training time, when all losses so far are written."""

    is_due: Callable[[Position], bool]  # after this step; the same on all ranks
    run: Callable[[Position], None]


@dataclass(frozen=True)
class Training:
    """The model, loss, data, budget and optimizer settings of a training."""

    model: nn.Module
    loss: Callable[[Any], Tensor]  # of a micro-batch on the device
    next_step: Callable[[Position], Step]
    limit: Limit
    planned_steps: int  # 0 for a budget in seconds
    phase: str  # first part of the names of curves
    config: OptimiserConfig
    seed: int
    callbacks: tuple[Callback, ...] = ()
    ranks: Ranks = ALONE


def train(training: Training, optimiser: Clipped, position: Position, machine: Machine, run_log: Log) -> None:
    """Trains from the position to the limit and updates the position; DivergedError at a loss that is not finite."""
    model, config, limit, ranks = training.model, training.config, training.limit, training.ranks
    model.train()
    set_activation_checkpointing(model, config.activation_checkpointing)
    if not (machine.is_cuda or machine.compiles or ranks.count > 1):
        use_sparse_gradients(model)
    run_log.stage(training.phase, training.planned_steps)
    curves, clock = Curves(training.phase, run_log, ranks), Clock(machine, position.seconds, ranks)
    layers, loss_of = layers_of(model), ranks.parallel(model, training.loss)
    warmup = warmup_fraction(config, training.planned_steps)
    decay = config.decay_fraction or DECAY[config.schedule]
    while not (limit.reached(position) or position.stopped):
        step = training.next_step(position)
        factor = learning_rate_factor(limit.done(position), limit.total, warmup, limit.size(step), decay, config.schedule)
        rate = config.learning_rate * factor
        for group in optimiser.param_groups:
            group["lr"] = rate * group["rate_factor"]
        other = () if ranks.first else (ranks.rank,)  # equal masks for different rows would be less random than in one process
        torch.manual_seed(derive(training.seed, "dropout", position.step + 1, *other))

        step_loss = torch.zeros((), device=machine.device)  # stays on the device: reading it would wait
        weights = step.weights or [1.0] * len(step.micro_batches)
        for number, (micro_batch, weight) in enumerate(zip(step.micro_batches, weights, strict=True), 1):
            apart: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if isinstance(loss_of, DistributedDataParallel) and number < len(step.micro_batches):
                apart = loss_of.no_sync()  # the last one alone is communicated, with the gradients of those before it
            with apart:
                with machine.autocast():
                    loss = loss_of(micro_batch.to(machine.device)) * weight
                ranks.backward(loss)
            step_loss += loss.detach()
        rare = {"gradient_spread": spread(layers), "learning_rate": rate} if position.step % LOG_EVERY == 0 else {}
        norm = optimiser.update()

        position.advance(step)
        if limit.reached(position):
            optimiser.write()
        curves.add(position, step_loss, {"gradient_norm": norm, **rare})
        position.seconds = clock.read()
        if position.step % LOG_EVERY == 0 or limit.reached(position):
            curves.write()
            position.seconds = clock.read()
        if any(callback.is_due(position) for callback in training.callbacks):
            optimiser.write()
            curves.write()
            position.seconds = clock.read()
            with clock.stopped():
                for callback in training.callbacks:
                    if callback.is_due(position):
                        callback.run(position)
            model.train()
    optimiser.finish()
    machine.print_compiled(training.phase)


def compile_ahead(training: Training, position: Position, machine: Machine) -> None:
    """Forward and backward of one step without an update, so that a compiled model is compiled before it trains.

    The compiler's memory is then not part of training's. Weights, random state and position stay; one step is taken
    from `next_step`. Later shapes may compile further graphs, whose time Clock leaves out of the training time.
    """
    if training.limit.reached(position):
        return
    training.model.train()
    set_activation_checkpointing(training.model, training.config.activation_checkpointing)
    with torch.random.fork_rng([machine.device] if machine.is_cuda else []):
        for micro_batch in training.next_step(position).micro_batches:
            with machine.autocast():
                loss = training.loss(micro_batch.to(machine.device))
            loss.backward()
    for parameter in training.model.parameters():
        parameter.grad = None


def warmup_fraction(config: OptimiserConfig, planned_steps: int) -> float:
    """Share of the budget in which the rate rises: long enough for `warmup_steps` of a pretraining, up to a half.

    For a budget in seconds, whose number of steps is unknown (0), it is the config's.
    """
    if not isinstance(config, PretrainConfig) or not planned_steps:
        return config.warmup_fraction
    return max(config.warmup_fraction, min(0.5, config.warmup_steps / planned_steps))


def learning_rate_factor(
    done: float,
    total: float,
    warmup_fraction: float,
    size: float = 1,
    decay_fraction: float = 1.0,
    schedule: Schedule = Schedule.linear,
) -> float:
    """Factor of the learning rate for a step of `size` after `done` of `total`: linear warm-up, and decay to 0 by the schedule.

    The decay takes the last `decay_fraction` of the total, or what the warm-up leaves; before it the rate is constant. A
    warm-up of steps is a whole number of them; one of seconds, whose steps have no known size (0), is not rounded.
    """
    warmup = math.ceil(round(total * warmup_fraction, 6)) if size else total * warmup_fraction
    if done < warmup:
        return min(1.0, (done + size) / warmup)
    decay = max(warmup, total * (1 - decay_fraction))
    if done < decay or schedule is Schedule.constant:
        return 1.0
    left = max(0.0, (total - done) / max(size, total - decay))
    return (1 - math.cos(math.pi * left)) / 2 if schedule is Schedule.cosine else left


class Curves:
    """The losses and norms of all steps. They stay on the device until they are written together."""

    def __init__(self, phase: str, run_log: Log, ranks: Ranks = ALONE) -> None:
        self._phase, self._run_log, self._ranks = phase, run_log, ranks
        self._unwritten: list[tuple[int, int, int, Tensor, dict[str, Tensor | float | None]]] = []

    def add(self, position: Position, loss: Tensor, beside: dict[str, Tensor | float | None]) -> None:
        """Adds the loss of one step and its other values, by the last part of their names; None adds no point."""
        self._unwritten.append((position.step, position.tokens, now_ms(), loss, beside))

    def write(self) -> None:
        """Reads and writes the values since the last call; DivergedError for the first loss that is not finite.

        Other values that are not finite, such as a norm above the range of float32, add no point.
        """
        losses = self._ranks.summed([loss for _, _, _, loss, _ in self._unwritten])
        for (step, tokens, time_ms, _, beside), value in zip(self._unwritten, losses, strict=True):
            if not math.isfinite(value):
                raise DivergedError(f"the loss of step {step} is {value}")
            self._run_log.curve(f"{self._phase}/loss", step, value, tokens, time_ms)
            for name, other in beside.items():
                if other is not None and math.isfinite(number := float(other)):
                    self._run_log.curve(f"{self._phase}/{name}", step, number, tokens, time_ms)
        self._unwritten.clear()


class Clock:
    """Training time: added to that of earlier processes, without callbacks and compilation."""

    def __init__(self, machine: Machine, seconds: float, ranks: Ranks = ALONE) -> None:
        self._machine, self._ranks = machine, ranks
        self._started = _now(machine) - machine.compiling_s() - seconds

    def read(self) -> float:
        """Elapsed seconds, without synchronising the device; read a loss first for an exact value.

        They are those of the first rank on all ranks, because budgets and rates may depend on them.
        """
        return self._ranks.agreed(time.perf_counter() - self._machine.compiling_s() - self._started)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Leaves the time of the block out."""
        before = _now(self._machine) - self._machine.compiling_s()
        yield
        self._started += _now(self._machine) - self._machine.compiling_s() - before


def _now(machine: Machine) -> float:
    machine.synchronise()
    return time.perf_counter()


MEDIANS = ("gradient_norm", "gradient_spread")
"""Curves of a training of which a run has the median."""

Layers = list[list[nn.Parameter]]


def layers_of(model: nn.Module) -> Layers:
    """The parameters of each layer of the model's encoder, of layers that share all of theirs once."""
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, Encoder):
        return []
    layers: dict[tuple[int, ...], list[nn.Parameter]] = {}
    for blocks in encoder.layers.execution_order():
        parameters = list(dict.fromkeys(parameter for block in blocks for parameter in block.parameters()))
        layers[tuple(map(id, parameters))] = parameters
    return list(layers.values())


def spread(layers: Layers) -> Tensor | None:
    """Largest norm of a layer's gradients over the smallest, () on their device; None where fewer than two layers have any."""
    gradients = [[p.grad for p in layer if p.grad is not None] for layer in layers]
    norms = [nn.utils.get_total_norm(layer) for layer in gradients if layer]
    if len(norms) < 2:
        return None
    over = torch.stack(norms)
    return plain(over.max() / over.min())


def write_medians(run_log: RunLog, phase: str) -> None:
    """Writes the medians of the curves over the whole training, points of earlier processes included."""
    points: dict[str, list[float]] = {}
    for entry in Reader(run_log.folder).new_entries():
        points.setdefault(entry.get("key", ""), []).append(entry.get("value", 0.0))
    for name in MEDIANS:
        if values := points.get(f"{phase}/{name}"):
            run_log.value(f"{phase}/{name}_p50", statistics.median(values))
