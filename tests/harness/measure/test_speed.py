"""Latency and throughput: a call of known duration is read as such, and nothing is counted twice."""

import time

import numpy as np
import pytest
import torch

from harness.config import HardwareConfig, MeasureConfig
from harness.data.cache import Prepared, Split
from harness.hardware import Machine
from harness.measure import speed
from models.batch import Batch
from models.config import EncoderConfig
from models.heads import build_classifier


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    lengths = np.arange(3, 43)
    total = int(lengths.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    split = Split(np.ones(total, np.int32), np.zeros(total, np.uint8), starts, np.zeros(40, np.int64), np.arange(40))
    return Prepared("key", 50, 0, 0, split, split)


def test_latency_of_a_sleeping_call_is_at_least_its_sleep(machine):
    values = speed.latencies_ms(lambda: time.sleep(0.003), warmup=1, repeats=5, machine=machine)
    assert len(values) == 5
    assert min(values) >= 3.0


def test_warm_up_calls_are_made_and_not_counted(machine):
    calls = []
    values = speed.latencies_ms(lambda: calls.append(1), warmup=3, repeats=4, machine=machine)
    assert (len(calls), len(values)) == (7, 4)


def test_quantiles_are_those_of_the_raw_values():
    told = speed.summary([float(value) for value in range(100, -1, -1)])
    prefix = "inference/latency_ms_"
    assert told == {prefix + "min": 0.0, prefix + "p50": 50.0, prefix + "p90": 90.0, prefix + "p99": 99.0}


def test_quantiles_never_cross():
    stream = np.random.default_rng(0)
    for size in (1, 2, 30):
        told = list(speed.summary(stream.lognormal(size=size).tolist()).values())
        assert told == sorted(told)


def test_throughput_times_time_is_the_work(machine, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(speed.time, "perf_counter", lambda: now[0])

    def call(batch: Batch) -> None:
        now[0] += 0.01 * batch.tokens + 0.5

    batches = [Batch(torch.zeros(1, 1), tokens=tokens) for tokens in (10, 200, 30)]
    per_s = speed.tokens_per_s(call, batches, machine)
    assert per_s * (0.01 * 240 + 3 * 0.5) == pytest.approx(240)


def test_throughput_batches_span_all_lengths(prepared, machine):
    batches = speed.sample_batches(prepared, 4, 3, machine)
    assert len(batches) == 3
    assert batches[0].input_ids.shape[1] < batches[1].input_ids.shape[1] < batches[2].input_ids.shape[1] == 42
    assert len(speed.sample_batches(prepared, 4, 1000, machine)) == 10


def test_measured_text_is_unpadded_and_the_same_each_time(machine):
    first, second = (speed.text_of(128, 50, machine) for _ in range(2))
    assert first.input_ids.shape == (1, 128)
    assert first.attention_mask is None
    assert torch.equal(first.input_ids, second.input_ids)
    assert 0 <= first.input_ids.min() <= first.input_ids.max() < 50


def test_measured_call_has_no_dropout_and_no_gradients(prepared, machine):
    model = build_classifier(EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1), 2, seed=0).train()
    call = speed.forward(model, machine)
    text = speed.text_of(16, 50, machine)
    assert not call(text).requires_grad
    assert torch.equal(call(text), call(text))


def test_training_threads_are_set_again_after_timing(prepared):
    machine = Machine(HardwareConfig(threads=2))
    model = build_classifier(EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1), 2, seed=0)
    config = MeasureConfig(length=16, warmup=0, repeats=3, batch_size=8, throughput_batches=2, threads=1)
    values, per_s = speed.time_inference(model, prepared, config, machine)
    assert torch.get_num_threads() == 2
    assert len(values) == 3
    assert per_s > 0
    machine.use_threads(1)
