"""The time of a call: one of known duration is read as such."""

import time

import pytest
import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure import latency, subject
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


def test_time_of_a_call_is_at_least_what_it_took_and_at_most_what_its_measuring_took(machine):
    inside: list[float] = []

    def call() -> None:
        began = time.perf_counter()
        time.sleep(0.02)
        inside.append(1e3 * (time.perf_counter() - began))

    began = time.perf_counter()
    value = latency.time_ms(call, machine)
    assert 20.0 <= inside[0] <= value <= 1e3 * (time.perf_counter() - began)


def test_device_time_is_what_the_thread_computed_and_not_what_it_waited(machine):
    """A sleep is in the wall clock alone; work is in both. Several threads have no CPU time of one."""

    def call() -> None:
        time.sleep(0.05)
        ends = time.thread_time() + 0.02
        while time.thread_time() < ends:
            pass

    measured = latency.clocked(call, machine)
    assert measured.wall_ms >= 70.0
    assert 20.0 <= measured.device_ms < 50.0
    torch.set_num_threads(2)
    try:
        assert latency.clocked(lambda: None, machine).device_ms is None
    finally:
        torch.set_num_threads(1)


def test_measured_call_has_no_dropout_and_no_gradients(machine):
    model = build_classifier(EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1), 2, seed=0).train()
    call = latency.forward(model, machine)
    text = subject.texts(50, 16, machine)
    assert not call(text).requires_grad
    assert torch.equal(call(text), call(text))
