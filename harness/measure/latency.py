"""The time of one call, and the call that is timed: inference in evaluation mode."""

import time
from collections.abc import Callable

import torch

from harness.hardware.device import Machine
from models.batch import Batch
from models.heads import Classifier


def time_ms(call: Callable[[], object], machine: Machine) -> float:
    """Milliseconds of one call, from an idle device to an idle device."""
    machine.synchronise()
    started = time.perf_counter_ns()
    call()
    machine.synchronise()
    return (time.perf_counter_ns() - started) / 1e6


def forward(model: Classifier, machine: Machine) -> Callable[[Batch], torch.Tensor]:
    """The call that is measured: evaluation mode, no gradients, the configured dtype."""
    model.eval()

    def call(batch: Batch) -> torch.Tensor:
        with torch.inference_mode(), machine.autocast():
            return model(batch)

    return call
