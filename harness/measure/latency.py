"""Timing one call, and what is called: inference in evaluation mode over texts of a length or over real batches."""

import time
from collections.abc import Callable

import numpy as np
import torch

from harness.hardware.device import Machine
from harness.tasks.batches import collate, evaluation_order
from harness.tasks.prepared import Prepared
from models.batch import Batch
from models.heads import Classifier


def time_ms(call: Callable[[], object], machine: Machine) -> float:
    """Milliseconds of one call, from an idle device to an idle device."""
    machine.synchronise()
    started = time.perf_counter_ns()
    call()
    machine.synchronise()
    return (time.perf_counter_ns() - started) / 1e6


def text_of(length: int, vocab_size: int, machine: Machine, batch_size: int = 1) -> Batch:
    """Texts of random ids without padding, the same for every variant of one vocabulary."""
    ids = torch.randint(0, vocab_size, (batch_size, length), generator=torch.Generator().manual_seed(0))
    return Batch(input_ids=ids, tokens=batch_size * length).to(machine.device)


def sample_batches(data: Prepared, batch_size: int, count: int, machine: Machine) -> list[Batch]:
    """Validation batches over the whole range of lengths, on the device."""
    order = evaluation_order(data.validation, batch_size)
    picked = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int))
    return [collate(data.validation, order[index], data.pad_token_id).to(machine.device) for index in picked]


def forward(model: Classifier, machine: Machine) -> Callable[[Batch], torch.Tensor]:
    """The call that is measured: evaluation mode, no gradients, the configured arithmetic."""
    model.eval()

    def call(batch: Batch) -> torch.Tensor:
        with torch.inference_mode(), machine.autocast():
            return model(batch)

    return call
