"""Wall-clock and device time of one call: inference in evaluation mode."""

import time
from collections.abc import Callable
from typing import NamedTuple, TypedDict

import torch
from torch import nn

from harness.hardware.device import Machine
from harness.models.batch import Batch


class Clocked(NamedTuple):
    """Milliseconds of one call by the wall clock, for which a user waits, and by that of the device, which computes.

    Device time is the CPU time of this thread, or the time between two events of a GPU: what others on the machine do is not in
    it. None where several CPU threads compute.
    """

    wall_ms: float
    device_ms: float | None


def clocked(call: Callable[[], object], machine: Machine) -> Clocked:
    """One call by both clocks, from an idle device to an idle device."""
    machine.synchronise()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if machine.is_cuda else []
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    for event in events[:1]:
        event.record()
    call()
    for event in events[1:]:
        event.record()
    machine.synchronise()
    cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
    if events:
        return Clocked(wall / 1e6, events[0].elapsed_time(events[1]))
    return Clocked(wall / 1e6, cpu / 1e6 if torch.get_num_threads() == 1 else None)


def time_ms(call: Callable[[], object], machine: Machine) -> float:
    """Milliseconds of one call by the wall clock, from an idle device to an idle device."""
    return clocked(call, machine).wall_ms


def forward(model: nn.Module, machine: Machine) -> Callable[[Batch], torch.Tensor]:
    """The call that is measured: evaluation mode, no gradients, the configured dtype."""
    model.eval()

    def call(batch: Batch) -> torch.Tensor:
        with torch.inference_mode(), machine.autocast():
            return model(batch)

    return call


SIZE = 384
"""Rows of the matrices that are multiplied."""

ELEMENTS = 4_000_000
"""Floats of the memory-bound pass: more than the private caches of a core hold."""


class Reference:
    """The reference workload with allocated memory, always in float32, on one CPU thread or on the GPU."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        stream = torch.Generator().manual_seed(0)
        self._matrix = torch.randn(SIZE, SIZE, generator=stream).to(machine.device)
        self._line = torch.randn(ELEMENTS, generator=stream).to(machine.device)
        self._product, self._total = torch.empty_like(self._matrix), torch.empty_like(self._line)
        self.clocked()

    def clocked(self) -> Clocked:
        """One call by both clocks; restores the number of threads."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return clocked(self._work, self._machine)
        finally:
            torch.set_num_threads(threads)

    def _work(self) -> None:
        for _ in range(4):
            torch.mm(self._matrix, self._matrix, out=self._product)
        torch.add(self._line, self._line, out=self._total)


class Milliseconds(TypedDict):
    """Fields of a record: calls, and the reference workload between them; None where the device has no clock of its own."""

    raw_ms: list[float]
    reference_ms: list[float]
    device_ms: list[float] | None
    reference_device_ms: list[float] | None


class Clocks:
    """Calls that are timed with the reference workload in between: milliseconds of both by both clocks."""

    def __init__(self, machine: Machine, reference: Reference) -> None:
        self._machine, self._reference = machine, reference
        self._calls: list[Clocked] = []
        self._between: list[Clocked] = [reference.clocked()]

    def time(self, call: Callable[[], object]) -> None:
        """Times one call."""
        self._calls.append(clocked(call, self._machine))

    def time_reference(self) -> None:
        """Times the reference workload."""
        self._between.append(self._reference.clocked())

    def between(self, call: Callable[[], object]) -> float:
        """Times one call and the reference workload after it; milliseconds of the call by the wall clock."""
        self.time(call)
        self.time_reference()
        return self._calls[-1].wall_ms

    def lists(self, first: int = 0) -> Milliseconds:
        """Calls from number `first` on."""
        calls, between = self._calls[first:], self._between[first:]
        by_device = all(call.device_ms is not None for call in self._calls)
        return {
            "raw_ms": [call.wall_ms for call in calls],
            "reference_ms": [call.wall_ms for call in between],
            "device_ms": _on_device(calls) if by_device else None,
            "reference_device_ms": _on_device(between) if by_device else None,
        }


def _on_device(calls: list[Clocked]) -> list[float]:
    return [call.device_ms for call in calls if call.device_ms is not None]
