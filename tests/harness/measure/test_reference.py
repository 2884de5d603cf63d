"""The reference workload: the same work each time, on one thread, and the threads are put back."""

import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure import reference
from harness.measure.latency import Clocked
from harness.measure.reference import CALLS, Reference


def test_it_runs_on_one_thread_and_puts_the_threads_back(monkeypatch):
    machine, seen = Machine(HardwareConfig(threads=2)), []
    timed = reference.clocked
    monkeypatch.setattr(reference, "clocked", lambda *arguments: seen.append(torch.get_num_threads()) or timed(*arguments))
    try:
        measured = Reference(machine).clocked()
        assert min(measured) > 0
        assert (seen, torch.get_num_threads()) == ([1] * 2 * CALLS, 2)
    finally:
        machine.use_threads(1)


def test_one_slow_call_does_not_move_it(monkeypatch):
    times = iter([1.0, 1.0, 1.0, 2.0, 50.0, 3.0])
    monkeypatch.setattr(reference, "clocked", lambda work, machine: Clocked(next(times), 4.0))
    assert Reference(Machine(HardwareConfig(threads=1))).clocked() == (3.0, 4.0)


def test_its_numbers_come_from_a_stream_of_its_own():
    torch.manual_seed(3)
    Reference(Machine(HardwareConfig(threads=1)))
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert drawn == torch.rand(1)
