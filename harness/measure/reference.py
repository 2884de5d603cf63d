"""A short piece of work that never changes: how long it takes says how the machine was, whatever model runs beside it."""

import torch

from harness.hardware import Machine
from harness.measure.speed import latencies_ms

SIZE = 384
"""Rows of the matrices that are multiplied."""

ELEMENTS = 4_000_000
"""Floats of the memory-bound pass: more than a core's own caches hold."""


def reference_ms(machine: Machine, repeats: int) -> list[float]:
    """Milliseconds of each repeat on one CPU thread, or on the GPU, always in float32; threads are as before afterwards."""
    stream = torch.Generator().manual_seed(0)
    matrix = torch.randn(SIZE, SIZE, generator=stream).to(machine.device)
    line = torch.randn(ELEMENTS, generator=stream).to(machine.device)
    product, total = torch.empty_like(matrix), torch.empty_like(line)

    def work() -> None:
        for _ in range(4):
            torch.mm(matrix, matrix, out=product)
        torch.add(line, line, out=total)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return latencies_ms(work, 2, repeats, machine)
    finally:
        torch.set_num_threads(threads)
