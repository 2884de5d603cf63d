"""Under what was measured, and what a reader must know of the numbers."""

import functools
import importlib.metadata
import os
from collections.abc import Callable

from harness.commands.profile.launch import Column
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.study.match import note as match_note
from harness.terminal import wrapped

COMPILED = (
    "compiled: memory is without what a first call and the compiler leave behind, so it is below that of uncompiled models"
)
"""Why the two are not to be compared to the byte."""


RATIO = (
    "ratio of a time or rate: to the mean of both timings of the first variant in the same round, geometric mean over rounds "
    "[95 % t interval, Holm's for the variants of a row]; not resolved where it holds 1. A/A: the second of these timings to "
    "the first, which are the same"
)
"""How variants are compared."""


def read(configs: dict[str, RunConfig]) -> str:
    """One line: device, arithmetic, threads, length, library and load."""
    each = functools.partial(_each, configs)
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{each(lambda config: facts.device_name(config.hardware))}, {each(lambda config: config.hardware.dtype.value)}, "
        f"{each(lambda config: 'compiled' if config.hardware.compile else 'not compiled')}; "
        f"threads: {each(lambda config: config.measure.threads)} for latency and throughput, "
        f"{each(lambda config: facts.threads(config.hardware))} for training; "
        f"length {each(lambda config: config.measure.length)}; "
        f"torch {importlib.metadata.version('torch')}; load average {load} of {os.cpu_count()} cores"
    )


def notes(configs: dict[str, RunConfig], measured: dict[str, Column]) -> list[str]:
    """What the numbers are of, a list item each."""
    each = functools.partial(_each, configs)
    batch, calls = each(lambda config: config.measure.batch_size), each(lambda config: config.measure.repeats)
    rounds = max((len(one.records.get("timing", {})) for one in measured.values()), default=0)
    lines = [
        "random weights, texts of random ids without padding; the vocabulary is that of the model's config, not of a tokenizer",
        f"times: median over processes (lowest to highest), {rounds} each, in turn in shuffled order; memory: one each",
        f"latency: batch 1, quantiles of {calls} calls a launch after a warm-up until steady",
        f"throughput: batch {batch}; time to import: from the start of the process until torch and the model's code are there",
        f"peak memory: above a process with only its libraries loaded; inference: batch {batch}",
        f"training step, FLOPs and memory: batch {each(lambda config: config.finetune.batch_size)}",
        *([RATIO] if len(configs) > 1 else []),
        *([COMPILED] if any(config.hardware.compile for config in configs.values()) else []),
        *dict.fromkeys(filter(None, map(match_note, configs.values()))),
        *(_warm_up(label, one) for label, one in measured.items() if "timing" in one.records),
    ]
    return [wrapped(line, 2, "-") for line in lines]


def _each(configs: dict[str, RunConfig], value: Callable[[RunConfig], object]) -> str:
    """The value of every variant, equal ones once."""
    return "/".join(dict.fromkeys(str(value(config)) for config in configs.values()))


def _warm_up(label: str, measured: Column) -> str:
    warm = [launch.latency.warm_up for launch in measured.records["timing"].values()]
    calls = ", ".join(str(one.calls) for one in warm)
    unsteady = sum(not one.steady for one in warm)
    ending = f"; NOT steady in {unsteady} of {len(warm)} launches" if unsteady else ""
    return f"warm-up calls of {label}: {calls}{ending}"
