"""Under what was measured, and what a reader must know of the numbers."""

import importlib.metadata
import os
from collections.abc import Callable

from harness.commands.profile.launch import Measured
from harness.config.schema import RunConfig
from harness.hardware import facts

COMPILED = (
    "compiled: memory is without what a first call and the compiler leave behind, so it is below that of uncompiled models"
)
"""Why the two are not to be compared to the byte."""


def read(cells: dict[str, RunConfig]) -> str:
    """One line: device, arithmetic, threads, length, library and load."""

    def each(value: Callable[[RunConfig], object]) -> str:
        return "/".join(dict.fromkeys(str(value(cell)) for cell in cells.values()))

    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{each(lambda cell: facts.device_name(cell.hardware))}, {each(lambda cell: cell.hardware.dtype.value)}, "
        f"{each(lambda cell: 'compiled' if cell.hardware.compile else 'not compiled')}; "
        f"threads: {each(lambda cell: cell.measure.threads)} for latency and throughput, "
        f"{each(lambda cell: facts.threads(cell.hardware))} for training; length {each(lambda cell: cell.measure.length)}; "
        f"torch {importlib.metadata.version('torch')}; load average {load} of {os.cpu_count()} cores"
    )


def notes(cells: dict[str, RunConfig], measured: dict[str, Measured], rounds: int) -> list[str]:
    """What the numbers are of."""

    def each(value: Callable[[RunConfig], object]) -> str:
        return "/".join(dict.fromkeys(str(value(cell)) for cell in cells.values()))

    batch = each(lambda cell: cell.measure.batch_size)
    told = [
        "random weights, texts of random ids without padding; the vocabulary is that of the model's config, not of a tokenizer",
        f"times: median over fresh processes (lowest to highest), {rounds} each, in turn in shuffled order; memory: one each",
        f"latency: batch 1, quantiles of {each(lambda cell: cell.measure.repeats)} calls a launch after a warm-up until steady",
        f"throughput: batch {batch}; time to import: torch and the model's code",
        f"peak memory: above a fresh process with its libraries; inference: batch {batch}",
        f"training step, FLOPs and memory: batch {each(lambda cell: cell.finetune.batch_size)}",
        *(["ratio: median over rounds of the ratio within a round (lowest to highest)"] if len(cells) > 1 else []),
        *([COMPILED] if any(cell.hardware.compile for cell in cells.values()) else []),
        *(_warm_up(label, one) for label, one in measured.items() if "speed" in one.values),
    ]
    return ["\n".join(f"- {line}" for line in told)]


def _warm_up(label: str, measured: Measured) -> str:
    warm = [values["warm_up"] for values in measured.values["speed"].values()]
    calls = ", ".join(str(one["calls"]) for one in warm)
    unsteady = sum(not one["steady"] for one in warm)
    ending = f"; NOT steady in {unsteady} of {len(warm)} launches" if unsteady else ""
    return f"warm-up calls of {label}: {calls}{ending}"
