"""What a training step holds in memory: `python -m harness memory model=albert scale=base batch_sizes=[1,4,8] [fits=2GB]`.

Prints weights, gradients, optimiser state and activations of each batch size, measured and by formula, beside the peak of the
process; what activation checkpointing saves and costs; and the largest batch that fits. Each batch size is a fresh process.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, with_a_task
from harness.commands.terminal import Row, table
from harness.config.schema import RunConfig
from harness.errors import InputError, unknown
from harness.hardware import facts

if TYPE_CHECKING:
    from harness.commands.memory.probe import Fit, Probe
    from harness.measure.memory_formula import Parts
    from harness.measure.training_memory import Measured

KEYS = {
    "batch_sizes": "sequences of one optimiser step, in one piece ([1,4,8])",
    "length": "tokens of each sequence (measure.length: 128, or as many as the model takes)",
    "activation_checkpointing": "true, false or both (finetune.activation_checkpointing)",
    "fits": "memory, such as 2GB: the largest batch that stays within it is looked for",
}

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

DASH = "-"


@dataclass(frozen=True)
class Request:
    """What the command line asks for; `checkpointing` is None where the config says it."""

    batch_sizes: tuple[int, ...]
    checkpointing: tuple[bool, ...] | None
    fits: int | None


def parse(arguments: list[str]) -> tuple[Request, list[str]]:
    """Own keys, and what is left for Hydra; InputError for a value that cannot be meant."""
    parser = Parser(
        "memory",
        "Shows what a training step holds in memory, measured and by formula.",
        "Everything else chooses model and machine: model=albert scale=base hardware.threads=2 ...",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments)
    length = [f"measure.length={own['length']}"] if "length" in own else []
    return request_of(own), [*with_a_task(choices), *length]


def request_of(given: dict[str, str]) -> Request:
    """The request; InputError for a value that cannot be meant."""
    modes = {"true": (True,), "false": (False,), "both": (False, True)}
    mode = given.get("activation_checkpointing")
    if mode is not None and mode not in modes:
        raise unknown("choice", mode, modes, "activation_checkpointing")
    sizes = given.get("batch_sizes", "[1,4,8]")
    if not re.fullmatch(r"\[?[1-9]\d*(,[1-9]\d*)*\]?", sizes.replace(" ", "")):
        raise InputError(f"batch_sizes={sizes!r} must be numbers of at least 1, such as [1,4,8]")
    numbers = tuple(dict.fromkeys(int(size) for size in re.findall(r"\d+", sizes)))
    return Request(numbers, None if mode is None else modes[mode], bytes_of(given["fits"]) if "fits" in given else None)


def bytes_of(text: str) -> int:
    """`2GB`, `1.5GiB`, `800 MB` or plain bytes; InputError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?i?B?)", text.strip(), re.IGNORECASE)
    unit = found[2].upper() if found else None
    if not found or unit not in UNITS or float(found[1]) == 0:
        raise InputError(f"fits={text!r} must be a size above 0 with its unit, such as 800MB, 2GB or 1.5GiB")
    return int(float(found[1]) * UNITS[unit])


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be composed or measured."""
    request, choices = parse(arguments)
    from harness.config import compose  # Hydra, which --help does not need

    def show_each(cells: list[RunConfig]) -> int:
        for cell in {(cell.label, cell.scale_name): cell for cell in cells}.values():
            for part in shown(request, cell):
                print(part, flush=True)
        return 0

    return compose.main(choices, show_each)


def shown(request: Request, cell: RunConfig) -> Iterator[str]:
    """What is printed of one variant, part by part, as it is measured; InputError for what does not fit this machine."""
    modes = request.checkpointing or (cell.finetune.activation_checkpointing,)
    refuse_impossible(request, cell, modes)
    yield f"{cell.label} at scale {cell.scale_name}: one training step\n{conditions(cell)}\n"
    rows = [_measured(cell, size, mode, paired=mode and False in modes) for size in request.batch_sizes for mode in modes]
    yield parts_table(rows) + "\n"
    yield price_table(rows) + "\n"
    for mode in modes if request.fits is not None else ():
        yield fit_line(request.fits, mode, _largest(cell, request.fits, mode))


def refuse_impossible(request: Request, cell: RunConfig, modes: tuple[bool, ...]) -> None:
    """InputError for a body without layers to compute again, for a compiled model, and for more memory than is free."""
    from dataclasses import replace

    from harness.config import resolve

    resolve.refuse_impossible(replace(cell, finetune=replace(cell.finetune, activation_checkpointing=any(modes))))
    if cell.hardware.compile:
        raise InputError("hardware.compile=true: what autograd keeps is seen uncompiled alone, expected hardware.compile=false")
    free = facts.free_bytes(cell.hardware)
    if request.fits is not None and free is not None and request.fits > free:
        raise InputError(f"fits={request.fits / 1e9:.3g}GB is more than the {free / 1e9:.3g} GB that are free here: give less")


def conditions(cell: RunConfig) -> str:
    """Under what all numbers were taken, in one line."""
    told, length = cell.hardware, cell.measure.length
    return (
        f"{facts.description(told)}, {told.device.value}, {length} tokens a sequence without padding, AdamW (fused); "
        "each row is a fresh process, peaks are above it with its libraries loaded"
    )


def _measured(cell: RunConfig, batch_size: int, checkpointing: bool, paired: bool) -> "Measured":
    from harness.commands.memory.probe import probe
    from harness.measure.training_memory import Asked

    found = probe(cell, Asked(batch_size, checkpointing, against_plain=paired))
    if found.measured is None:
        raise InputError(f"batch_sizes: {batch_size} does not fit into this machine ({found.stopped}); give smaller ones")
    return found.measured


def _largest(cell: RunConfig, limit: int, checkpointing: bool) -> "Fit":
    from harness.commands.memory.probe import largest, probe
    from harness.measure.training_memory import Asked

    return largest(limit, lambda size: probe(cell, Asked(size, checkpointing, timed_steps=0), limit))


def parts_table(rows: "list[Measured]") -> str:
    """Two lines a row, measured and by formula; a dash where nobody says."""
    head = ("MB", "batch", "checkpointing", "weights", "gradients", "optimiser", "activations", "sum")
    lines: list[Row] = []
    for row in rows:
        which = (str(row.asked.batch_size), yes(row.asked.checkpointing))
        lines.append(("measured", *which, *_cells(row.parts), megabytes(row.peak.kernel), megabytes(row.peak.sampled)))
        lines.append(("formula", *which, *_cells(row.formula), DASH, DASH))
    return table((*head, "kernel peak", "sampled peak"), lines, "lrl" + "r" * 7)


def _cells(parts: "Parts") -> Row:
    values = (parts.weights, parts.gradients, parts.optimiser, parts.activations, parts.total)
    return tuple(megabytes(value) for value in values)


def price_table(rows: "list[Measured]") -> str:
    """Time and FLOPs of a step; where a batch was measured both ways, how they compare.

    The ratio of times is that of steps in turn in one process: the times of two processes meet different loads.
    """
    plain = {row.asked.batch_size: row for row in rows if not row.asked.checkpointing}
    lines = []
    for row in rows:
        against = plain.get(row.asked.batch_size) if row.asked.checkpointing else None
        lines.append(
            (
                str(row.asked.batch_size),
                yes(row.asked.checkpointing),
                DASH if row.step_s is None else f"{1e3 * row.step_s:.1f}",
                ratio(row.step_s, row.plain_step_s),
                ratio(row.peak.kernel, against and against.peak.kernel),
                ratio(row.parts.activations, against and against.parts.activations),
                f"{row.flops.model / 1e9:.3f}",
                f"{row.flops.hardware / 1e9:.3f}",
                ratio(row.flops.hardware, row.flops.model if row.asked.checkpointing else None),
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


def utilisation(flops: int, row: "Measured") -> str:
    """FLOPs of a step over what the fastest matrix product does in its time; a dash for an untimed step or a slow peak.

    MFU is that of what the model needs, HFU of what the device does for it (arXiv:2204.02311, appendix B).
    """
    if row.step_s is None or row.peak_flops_per_s is None:
        return DASH
    share = flops / row.step_s / row.peak_flops_per_s
    return f"{share:.3f}" if share <= 1 else DASH


def fit_line(limit: int, checkpointing: bool, fit: "Fit") -> str:
    """Both sides of the border, each with its peak."""
    begin = f"within {megabytes(limit)} MB, checkpointing {yes(checkpointing)}:"
    fitting = "no batch fits" if fit.fitting is None else f"batch {_told(fit.fitting)} fits"
    failing = "no larger one was tried" if fit.failing is None else f"batch {_told(fit.failing)} does not"
    return f"{begin} {fitting}, {failing}"


def _told(tried: "Probe") -> str:
    return f"{tried.batch_size} ({tried.stopped or f'peak {megabytes(tried.peak)} MB'})"


def megabytes(value: int | None) -> str:
    """In 10^6 bytes."""
    return DASH if value is None else f"{value / 1e6:,.1f}"


def yes(fact: bool) -> str:
    """In a word."""
    return "yes" if fact else "no"


def ratio(value: float | None, against: float | None) -> str:
    """How many times as much; a dash where there is nothing to compare with."""
    return DASH if value is None or not against else f"{value / against:.2f}x"
