"""The device as a worker uses it."""

import torch

from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine


def test_stated_threads_come_before_those_of_training():
    before = torch.get_num_threads()
    machine = Machine(HardwareConfig(threads=2))
    try:
        machine.use_threads(1)
        assert torch.get_num_threads() == 1
        machine.use_threads()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
