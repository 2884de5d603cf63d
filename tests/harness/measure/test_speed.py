"""Latency and throughput: a call of known duration is read as such, and nothing is counted twice."""

import time

import numpy as np
import pytest
import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure import latency
from harness.tasks.prepared import Prepared, Split
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


def test_time_of_a_sleeping_call_is_its_sleep(machine):
    """The clock may read more, for the scheduler wakes late, and never less."""
    values = sorted(latency.time_ms(lambda: time.sleep(0.02), machine) for _ in range(9))
    assert values[0] >= 20.0
    assert values[4] < 30.0


def test_throughput_batches_span_all_lengths(prepared, machine):
    batches = latency.sample_batches(prepared, 4, 3, machine)
    assert len(batches) == 3
    assert batches[0].input_ids.shape[1] < batches[1].input_ids.shape[1] < batches[2].input_ids.shape[1] == 42
    assert len(latency.sample_batches(prepared, 4, 1000, machine)) == 10


def test_measured_text_is_unpadded_and_the_same_each_time(machine):
    first, second = (latency.text_of(128, 50, machine) for _ in range(2))
    assert first.input_ids.shape == (1, 128)
    assert first.attention_mask is None
    assert torch.equal(first.input_ids, second.input_ids)
    assert 0 <= first.input_ids.min() <= first.input_ids.max() < 50


def test_measured_call_has_no_dropout_and_no_gradients(prepared, machine):
    model = build_classifier(EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1), 2, seed=0).train()
    call = latency.forward(model, machine)
    text = latency.text_of(16, 50, machine)
    assert not call(text).requires_grad
    assert torch.equal(call(text), call(text))
