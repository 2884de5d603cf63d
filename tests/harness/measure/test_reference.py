"""The reference workload: the same work each time, on one thread, and the threads are put back."""

import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure import latency
from harness.measure.latency import Reference


def test_it_runs_on_one_thread_and_puts_the_threads_back(monkeypatch):
    machine, seen = Machine(HardwareConfig(threads=2)), []
    timed = latency.clocked
    monkeypatch.setattr(latency, "clocked", lambda *arguments: seen.append(torch.get_num_threads()) or timed(*arguments))
    try:
        measured = Reference(machine).clocked()
        assert min(measured) > 0
        assert (seen, torch.get_num_threads()) == ([1, 1], 2)  # the first call is made where it is built
    finally:
        machine.use_threads(1)


def test_its_numbers_come_from_a_stream_of_its_own():
    torch.manual_seed(3)
    Reference(Machine(HardwareConfig(threads=1)))
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert drawn == torch.rand(1)
