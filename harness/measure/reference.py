"""A fixed workload whose time shows how fast the machine was while a model was timed."""

from statistics import median

import torch

from harness.hardware.device import Machine
from harness.measure.latency import time_ms

SIZE = 384
"""Rows of the matrices that are multiplied."""

ELEMENTS = 4_000_000
"""Floats of the memory-bound pass: more than the private caches of a core hold."""

CALLS = 3
"""Calls of which the median is taken."""


class Reference:
    """The reference workload with allocated memory, always in float32, on one CPU thread or on the GPU."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        stream = torch.Generator().manual_seed(0)
        self._matrix = torch.randn(SIZE, SIZE, generator=stream).to(machine.device)
        self._line = torch.randn(ELEMENTS, generator=stream).to(machine.device)
        self._product, self._total = torch.empty_like(self._matrix), torch.empty_like(self._line)
        self.time_ms()

    def time_ms(self) -> float:
        """Median milliseconds of a few calls; restores the number of threads."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return median(time_ms(self._work, self._machine) for _ in range(CALLS))
        finally:
            torch.set_num_threads(threads)

    def _work(self) -> None:
        for _ in range(4):
            torch.mm(self._matrix, self._matrix, out=self._product)
        torch.add(self._line, self._line, out=self._total)
