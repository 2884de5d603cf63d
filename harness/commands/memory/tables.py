"""The memory of training steps as text: each batch size measured and by formula, its price, and the largest batch that fits."""

from collections.abc import Iterator
from dataclasses import replace

from harness.checkpoints import start
from harness.commands.memory.probe import Fit, Probe, largest, probe
from harness.commands.memory.request import Request
from harness.config import resolve
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import device, facts
from harness.measure.memory_formula import Parts
from harness.measure.records import StepRequest, TrainingStepMemory
from harness.terminal import Row, table, wrapped

DASH = "-"


def as_run(config: RunConfig) -> RunConfig:
    """As a run resolves it: with the shape of the weights that it starts from, and the arithmetic that `auto` stands for."""
    return resolve.resolve(config, start.read(config))


def measured(request: Request, config: RunConfig) -> Iterator[str]:
    """The tables of one variant, each as soon as it is measured; InputError for what does not fit this machine."""
    modes = request.checkpointing or (config.finetune.activation_checkpointing,)
    refuse_impossible(request, config, modes)
    yield f"{config.label} at scale {config.scale_name}: one training step\n{wrapped(conditions(config), 0)}\n"
    rows = [_measured(config, size, mode, paired=mode and False in modes) for size in request.batch_sizes for mode in modes]
    yield parts_table(rows) + "\n"
    yield price_table(rows) + "\n"
    for mode in modes if request.fits is not None else ():
        yield fit_line(request.fits, mode, _largest(config, request.fits, mode))


def refuse_impossible(request: Request, config: RunConfig, modes: tuple[bool, ...]) -> None:
    """InputError for a body without layers to recompute, a compiled model, an absent GPU, and more memory than is free."""
    resolve.refuse_impossible(replace(config, finetune=replace(config.finetune, activation_checkpointing=any(modes))))
    if config.hardware.compile:
        raise InputError(
            "hardware.compile=true: what autograd keeps is measured of uncompiled models alone, expected hardware.compile=false"
        )
    device.refuse_absent(config.hardware)
    free = facts.free_bytes(config.hardware)
    if request.fits is not None and free is not None and request.fits > free:
        raise InputError(f"fits={request.fits / 1e9:.3g}GB is more than the {free / 1e9:.3g} GB that are free here: use less")


def conditions(config: RunConfig) -> str:
    """The conditions of all measurements, in one line."""
    hardware, length = config.hardware, config.measure.length
    return (
        f"{facts.description(hardware)}, {hardware.device.value}, {length} tokens a sequence without padding, AdamW (fused); "
        "each row is a process of its own, peaks are above it with its libraries loaded"
    )


def _measured(config: RunConfig, batch_size: int, checkpointing: bool, paired: bool) -> TrainingStepMemory:
    found = probe(config, StepRequest(batch_size, checkpointing, against_plain=paired))
    if found.measured is None:
        raise InputError(f"batch_sizes: {batch_size} does not fit into this machine ({found.stopped}); use smaller ones")
    return found.measured


def _largest(config: RunConfig, limit: int, checkpointing: bool) -> Fit:
    return largest(limit, lambda size: probe(config, StepRequest(size, checkpointing, timed_steps=0), limit))


def parts_table(rows: list[TrainingStepMemory]) -> str:
    """Two lines a row, measured and by formula; a dash where unknown."""
    head = ("MB", "batch", "checkpointing", "weights", "gradients", "optimiser", "activations", "sum")
    lines: list[Row] = []
    for row in rows:
        which = (str(row.step.batch_size), yes(row.step.checkpointing))
        lines.append(("measured", *which, *_megabytes(row.parts), megabytes(row.peak.kernel), megabytes(row.peak.sampled)))
        lines.append(("formula", *which, *_megabytes(row.formula), DASH, DASH))
    return table((*head, "kernel peak", "sampled peak"), lines, "lrl" + "r" * 7)


def _megabytes(parts: Parts) -> Row:
    values = (parts.weights, parts.gradients, parts.optimiser, parts.activations, parts.total)
    return tuple(megabytes(value) for value in values)


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
                ratio(row.peak.kernel, against and against.peak.kernel),
                ratio(row.parts.activations, against and against.parts.activations),
                f"{row.flops.model / 1e9:.3f}",
                f"{row.flops.hardware / 1e9:.3f}",
                ratio(row.flops.hardware, row.flops.model if row.step.checkpointing else None),
                utilisation(row.flops.model, row),
                utilisation(row.flops.hardware, row),
            )
        )
    head = (
        "batch",
        "checkpointing",
        "step p50 ms",
        "time",
        "kernel peak",
        "activations",
        "model GFLOP",
        "hardware GFLOP",
        "FLOP",
        "MFU",
        "HFU",
    )
    return table(head, lines, "rl" + "r" * 9)


def utilisation(flops: int, row: TrainingStepMemory) -> str:
    """FLOPs of a step over what the fastest matrix product does in its time; a dash for an untimed step or a slow peak.

    MFU is that of what the model needs, HFU of what the device does for it (arXiv:2204.02311, appendix B).
    """
    if row.step_s is None or row.peak_flops_per_s is None:
        return DASH
    share = flops / row.step_s / row.peak_flops_per_s
    return f"{share:.3f}" if share <= 1 else DASH


def fit_line(limit: int, checkpointing: bool, fit: Fit) -> str:
    """The largest batch that fits and the smallest that does not, each with its peak."""
    begin = f"within {megabytes(limit)} MB, checkpointing {yes(checkpointing)}:"
    fitting = "no batch fits" if fit.fitting is None else f"batch {_tried(fit.fitting)} fits"
    failing = "no larger one was tried" if fit.failing is None else f"batch {_tried(fit.failing)} does not"
    return f"{begin} {fitting}, {failing}"


def _tried(tried: Probe) -> str:
    return f"{tried.batch_size} ({tried.stopped or f'peak {megabytes(tried.peak)} MB'})"


def megabytes(value: int | None) -> str:
    """In 10^6 bytes."""
    return DASH if value is None else f"{value / 1e6:,.1f}"


def yes(fact: bool) -> str:
    """`yes` or `no`."""
    return "yes" if fact else "no"


def ratio(value: float | None, against: float | None) -> str:
    """How many times as much; a dash without a value to compare with."""
    return DASH if value is None or not against else f"{value / against:.2f}x"
