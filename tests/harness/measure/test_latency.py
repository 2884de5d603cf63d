"""The time of a call: one of known duration is read as such."""

import time

import pytest
import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure import latency, subject
from models.config import EncoderConfig
from models.heads import build_classifier


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


def test_time_of_a_sleeping_call_is_its_sleep(machine):
    """The clock may read more, for the scheduler wakes late, and never less."""
    values = sorted(latency.time_ms(lambda: time.sleep(0.02), machine) for _ in range(9))
    assert values[0] >= 20.0
    assert values[4] < 30.0


def test_measured_call_has_no_dropout_and_no_gradients(machine):
    model = build_classifier(EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1), 2, seed=0).train()
    call = latency.forward(model, machine)
    text = subject.texts(50, 16, machine)
    assert not call(text).requires_grad
    assert torch.equal(call(text), call(text))
