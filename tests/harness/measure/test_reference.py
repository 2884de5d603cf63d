"""The reference workload: the same work each time, on one thread, and the threads are put back."""

import torch

from harness.config import HardwareConfig
from harness.hardware import Machine
from harness.measure import reference
from harness.measure.reference import reference_ms


def test_each_repeat_is_told_and_takes_time():
    values = reference_ms(Machine(HardwareConfig(threads=1)), 4)
    assert len(values) == 4
    assert min(values) > 0


def test_it_runs_on_one_thread_and_puts_the_threads_back(monkeypatch):
    machine, seen = Machine(HardwareConfig(threads=2)), []
    timed = reference.latencies_ms
    monkeypatch.setattr(reference, "latencies_ms", lambda *told: seen.append(torch.get_num_threads()) or timed(*told))
    try:
        reference_ms(machine, 1)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        machine.use_threads(1)


def test_the_work_is_the_same_whatever_was_drawn_before(monkeypatch):
    drawn = []
    monkeypatch.setattr(reference, "latencies_ms", lambda work, *told: drawn.append(torch.rand(1).item()))
    for _ in range(2):
        torch.manual_seed(3)
        reference_ms(Machine(HardwareConfig(threads=1)), 1)
    torch.manual_seed(3)
    assert drawn == [torch.rand(1).item()] * 2  # its numbers come from a stream of its own
