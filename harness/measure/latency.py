"""The time of one call by two clocks, and the call that is timed: inference in evaluation mode."""

import time
from collections.abc import Callable
from typing import NamedTuple

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
