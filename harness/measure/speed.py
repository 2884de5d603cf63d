"""Inference latency and throughput: warmed up, synchronised, on a fixed number of threads, nothing logged while timing."""

import time
from collections.abc import Callable

import numpy as np
import torch

from harness.config import MeasureConfig
from harness.data.batches import collate, evaluation_order
from harness.data.cache import Prepared
from harness.hardware import Machine
from models.batch import Batch
from models.heads import Classifier


def latencies_ms(call: Callable[[], object], warmup: int, repeats: int, machine: Machine) -> list[float]:
    """Milliseconds of each timed call, in order."""
    for _ in range(warmup):
        call()
    machine.synchronise()
    values = []
    for _ in range(repeats):
        started = time.perf_counter_ns()
        call()
        machine.synchronise()
        values.append((time.perf_counter_ns() - started) / 1e6)
    return values


def summary(values: list[float]) -> dict[str, float]:
    """Metric name -> statistic of the raw values."""
    names = {"p50": 50, "p90": 90, "p99": 99}
    quantiles = {f"inference/latency_ms_{name}": float(np.percentile(values, rank)) for name, rank in names.items()}
    return {"inference/latency_ms_min": min(values), **quantiles}


def text_of(length: int, vocab_size: int, machine: Machine) -> Batch:
    """One text of random ids without padding, the same for every variant of one vocabulary."""
    ids = torch.randint(0, vocab_size, (1, length), generator=torch.Generator().manual_seed(0))
    return Batch(input_ids=ids, tokens=length).to(machine.device)


def sample_batches(data: Prepared, batch_size: int, count: int, machine: Machine) -> list[Batch]:
    """Validation batches over the whole range of lengths, on the device."""
    order = evaluation_order(data.validation, batch_size)
    picked = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int))
    return [collate(data.validation, order[index], data.pad_token_id).to(machine.device) for index in picked]


def tokens_per_s(call: Callable[[Batch], object], batches: list[Batch], machine: Machine) -> float:
    """Real tokens of all batches over the synchronised time of all of them, after one unmeasured batch."""
    call(batches[-1])
    machine.synchronise()
    started = time.perf_counter()
    for batch in batches:
        call(batch)
    machine.synchronise()
    return sum(batch.tokens for batch in batches) / (time.perf_counter() - started)


def forward(model: Classifier, machine: Machine) -> Callable[[Batch], torch.Tensor]:
    """The call that is measured: evaluation mode, no gradients, the configured arithmetic."""
    model.eval()

    def call(batch: Batch) -> torch.Tensor:
        with torch.inference_mode(), machine.autocast():
            return model(batch)

    return call


def time_inference(model: Classifier, data: Prepared, config: MeasureConfig, machine: Machine) -> tuple[list[float], float]:
    """Raw latencies in milliseconds at batch 1, and real tokens per second over validation batches.

    Both on `measure.threads` CPU threads; training's threads are set again afterwards.
    """
    call = forward(model, machine)
    text = text_of(config.length, data.vocab_size, machine)
    batches = sample_batches(data, config.batch_size, config.throughput_batches, machine)
    machine.use_threads(config.threads)
    try:
        values = latencies_ms(lambda: call(text), config.warmup, config.repeats, machine)
        return values, tokens_per_s(call, batches, machine)
    finally:
        machine.use_threads()
