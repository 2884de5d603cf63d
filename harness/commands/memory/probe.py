"""One training step's memory in a process of its own, and the largest batch that fits, by as many of them as it takes."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.config.schema import RunConfig
from harness.measure.launch import Outcome, launch
from harness.measure.records import Request, StepRequest, TrainingStepMemory

LARGEST = 4096
"""Sequences of the largest batch that is tried."""


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


@dataclass(frozen=True)
class Fit:
    """The largest batch that fitted, and the smallest one that did not."""

    fitting: Probe | None
    failing: Probe | None


def probe(config: RunConfig, step: StepRequest, limit: int | None = None) -> Probe:
    """Measures in a process of its own; that it was refused memory, or killed for it, is a result. RuntimeError otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        request = Request(("training_step",), step=step, memory_limit=limit)
        return _result(step.batch_size, launch(config, request, Path(folder)))


def _result(batch_size: int, outcome: Outcome) -> Probe:
    if outcome.code == 0:
        return Probe(batch_size, outcome.measured.training_step)
    if outcome.code == -9:
        return Probe(batch_size, None, "killed")
    if outcome.ending.out_of_memory:
        return Probe(batch_size, None, "refused memory")
    raise RuntimeError(f"the process that measured batch size {batch_size} failed ({outcome.code}): {outcome.ending.reason}")


def largest(limit: int, run: Callable[[int], Probe]) -> Fit:
    """By doubling until one does not fit, then by bisection; `run` is called once for each batch size."""
    fitting, failing = None, None
    size = 1
    while failing is None and size <= LARGEST:
        tried = run(size)
        fitting, failing = (tried, None) if tried.fits(limit) else (fitting, tried)
        size *= 2
    while fitting and failing and failing.batch_size - fitting.batch_size > 1:
        tried = run((fitting.batch_size + failing.batch_size) // 2)
        fitting, failing = (tried, failing) if tried.fits(limit) else (fitting, tried)
    return Fit(fitting, failing)
