"""Memory of a training step: `python -m harness memory model=albert scale=base batch_sizes=[1,4,8] [fits=2GB]`.

Prints weights, gradients, optimizer state and activations of each batch size, measured and by formula, and the peak of the
process; what activation checkpointing saves and costs; and the largest batch that fits. Each batch size has its own process.
"""

import functools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from harness.checkpoints import start
from harness.config import resolve, rules
from harness.config.choices import Device, Optimizer
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import device, facts
from harness.hardware.load import nvidia_smi
from harness.measure import subject
from harness.measure.launch import launch
from harness.measure.records import Request, StepRequest, TrainingStepMemory
from harness.plugins.costs.options import Memory
from harness.plugins.shared.countdown import Countdown
from harness.terminal import DASH, live_line, table, wrapped

STEP = "harness.plugins.costs.step_memory:training_step"
"""The instrument."""

LARGEST = 4096
"""Sequences of the largest batch that is tried."""


def main(options: Memory, configs: list[RunConfig]) -> int:
    """Prints the tables of each variant as soon as they are measured; 0. InputError for what does not fit this machine."""
    runs = [resolve.resolve(config, start.read(config)) for config in configs]
    for config in {(run.label, run.scale_name): run for run in runs}.values():
        for part in measured(options, config):
            print(part, flush=True)
    return 0


def measured(options: Memory, config: RunConfig) -> Iterator[str]:
    """The tables of one variant, each as soon as it is measured; InputError for what does not fit this machine."""
    choices = {"true": (True,), "false": (False,), "both": (False, True), None: (config.finetune.activation_checkpointing,)}
    modes = choices[options.activation_checkpointing]
    refuse_unmeasurable(options, config, modes)
    conditions = (
        f"{facts.description(config.hardware)}, {config.hardware.device.value}, {config.measure.length} tokens a sequence "
        "without padding, AdamW (fused); each row ran in its own process; peaks exclude its libraries"
    )
    yield f"{config.label} at scale {config.scale_name}: one training step\n{wrapped(conditions)}\n"
    steps = [(size, mode) for size in dict.fromkeys(options.batch_sizes) for mode in modes]
    searches = 0 if options.fits is None else 2 * LARGEST.bit_length() * len(modes)  # doublings, then as many halvings
    countdown, rows = Countdown(len(steps) + searches), []
    with live_line("measuring") as line:

        def run(size: int, mode: bool, limit: int | None = None, **request: Any) -> Probe:
            line.show(countdown.part(f"batch {size}, checkpointing {yes(mode)}"))
            return probe(config, StepRequest(size, mode, **request), limit)

        for size, mode in steps:
            tried = run(size, mode, against_plain=mode and False in modes)
            if tried.measured is None:
                raise InputError(f"batch_sizes: {size} does not fit into this machine ({tried.stopped}); use smaller ones")
            rows.append(tried.measured)
        yield parts_table(rows) + "\n"
        yield price_table(rows) + "\n"
        if options.fits is None:
            return
        for mode in modes:
            tried_within = functools.partial(run, mode=mode, limit=options.fits, timed_steps=0)
            fitting, failing = largest(options.fits, tried_within)
            fits = f"batch {fitting} fits" if fitting else "no batch fits"
            ends = f"batch {failing} does not" if failing else "no larger one was tried"
            yield f"within {megabytes(options.fits)} MB, checkpointing {yes(mode)}: {fits}, {ends}"


@dataclass(frozen=True)
class Probe:
    """The result of one process: what it measured, or why it was stopped."""

    batch_size: int
    measured: TrainingStepMemory | None
    stopped: str = ""

    @property
    def peak(self) -> int | None:
        """Bytes above the baseline at the worst moment; None for a process that was stopped."""
        return None if self.measured is None else self.measured.peak.kernel

    def fits(self, limit: int) -> bool:
        """Whether it ran and stayed within so many bytes."""
        return self.peak is not None and self.peak <= limit

    def __str__(self) -> str:
        return f"{self.batch_size} ({self.stopped or f'peak {megabytes(self.peak)} MB'})"


def probe(config: RunConfig, step: StepRequest, limit: int | None = None) -> Probe:
    """Measures in a process of its own; that it was refused memory, or killed for it, is a result. RuntimeError otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = launch(config, Request((STEP,), step=step, memory_limit=limit), Path(folder))
        stopped = "killed" if outcome.code == -9 else "refused memory" if outcome.ending.out_of_memory else ""
        if outcome.code and not stopped:
            raise RuntimeError(f"the process that measured batch size {step.batch_size} failed: {outcome.ending.reason}")
        return Probe(step.batch_size, None if stopped else outcome.measured.training_step, stopped)


def largest(limit: int, run: Callable[[int], Probe]) -> tuple[Probe | None, Probe | None]:
    """(largest batch that fits, smallest one that does not): by doubling, then by bisection; each size is run once."""
    fitting = failing = None
    size = 1
    while size <= LARGEST and (failing is None or (fitting is not None and failing.batch_size - fitting.batch_size > 1)):
        tried = run(size)
        fitting, failing = (tried, failing) if tried.fits(limit) else (fitting, tried)
        size = 2 * size if failing is None else (fitting.batch_size + failing.batch_size) // 2 if fitting else size
    return fitting, failing


def refuse_unmeasurable(options: Memory, config: RunConfig, modes: tuple[bool, ...]) -> None:
    """InputError for a body without layers to recompute, a compiled model, an absent GPU, and more memory than is free."""
    subject.refuse_scored(config.task)
    if config.model.encoder is not None:
        raise InputError(
            f"model.encoder={config.model.encoder}: `memory` has a formula for native encoders only: use `profile`"
        )
    rules.refuse_impossible(replace(config, finetune=replace(config.finetune, activation_checkpointing=any(modes))))
    if config.finetune.optimizer is not Optimizer.adamw:
        name = config.finetune.optimizer.value
        raise InputError(f"`memory` has a formula for adamw only, not for finetune.optimizer={name}: leave the key out")
    if config.hardware.compile:
        raise InputError(
            "hardware.compile=true: activations are measured for uncompiled models only: set hardware.compile=false"
        )
    device.refuse_absent(config.hardware)
    reported = nvidia_smi("--query-gpu=memory.free", "--id=0") if config.hardware.device is Device.cuda else []
    free = int(reported[0]) << 20 if reported and reported[0].isdigit() else None  # some GPUs report none
    if config.hardware.device is Device.cpu:
        free = psutil.virtual_memory().available
    if options.fits is not None and free is not None and options.fits > free:
        raise InputError(f"fits={options.fits / 1e9:.3g}GB is more than the {free / 1e9:.3g} GB that are free here: use less")


def parts_table(rows: list[TrainingStepMemory]) -> str:
    """Two lines a row, measured and by formula; a dash where unknown."""
    head = ("MB", "batch", "checkpointing", "weights", "gradients", "optimiser", "activations", "sum")
    lines = []
    for row in rows:
        peaks = row.peak.kernel, row.peak.sampled
        for kind, parts, *measured in (("measured", row.parts, *peaks), ("formula", row.formula, None, None)):
            values = (parts.weights, parts.gradients, parts.optimiser, parts.activations, parts.total, *measured)
            lines.append((kind, str(row.step.batch_size), yes(row.step.checkpointing), *map(megabytes, values)))
    return table((*head, "kernel peak", "sampled peak"), lines, "lrlr", keys=3)


def price_table(rows: list[TrainingStepMemory]) -> str:
    """Time and FLOPs of a step; where a batch was measured both ways, how they compare.

    The ratio of times is that of steps in turn in one process: the load differs between processes.
    """
    plain = {row.step.batch_size: row for row in rows if not row.step.checkpointing}
    lines = []
    for row in rows:
        against = plain.get(row.step.batch_size) if row.step.checkpointing else None
        lines.append(
            (
                str(row.step.batch_size),
                yes(row.step.checkpointing),
                DASH if row.step_s is None else f"{1e3 * row.step_s:.1f}",
                ratio(row.step_s, row.plain_step_s),
                ratio(row.peak.kernel, against.peak.kernel if against else None),
                ratio(row.parts.activations, against.parts.activations if against else None),
                f"{row.flops.model / 1e9:.3f}",
                f"{row.flops.hardware / 1e9:.3f}",
                ratio(row.flops.hardware, row.flops.model if row.step.checkpointing else None),
                utilisation(row.flops.model, row),
                utilisation(row.flops.hardware, row),
            )
        )
    head = "batch|checkpointing|step p50 ms|time|kernel peak|activations|model GFLOP|hardware GFLOP|FLOP|MFU|HFU"
    return table(tuple(head.split("|")), lines, "rlr", keys=2)


def utilisation(flops: int, row: TrainingStepMemory) -> str:
    """FLOPs of a step over what the fastest matrix product does in its time; a dash for an untimed step or a slow peak.

    MFU is that of what the model needs, HFU of what the device does for it (arXiv:2204.02311, appendix B).
    """
    if row.step_s is None or row.peak_flops_per_s is None:
        return DASH
    share = flops / row.step_s / row.peak_flops_per_s
    return f"{share:.3f}" if share <= 1 else DASH


def megabytes(value: int | None) -> str:
    """In 10^6 bytes."""
    return DASH if value is None else f"{value / 1e6:,.1f}"


def yes(fact: bool) -> str:
    """`yes` or `no`."""
    return "yes" if fact else "no"


def ratio(value: float | None, against: float | None) -> str:
    """How many times as much; a dash without a value to compare with."""
    return DASH if value is None or not against else f"{value / against:.2f}x"
