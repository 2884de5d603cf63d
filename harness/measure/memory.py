"""Peak memory of this process above a baseline, read from the kernel's own high-water mark, or from the CUDA allocator."""

import ctypes
import ctypes.util
import gc
from collections.abc import Callable
from pathlib import Path

import torch

from harness.hardware import Machine

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def release() -> None:
    """Gives freed memory back to the system, so that one phase does not hide in the remains of another."""
    gc.collect()
    name = ctypes.util.find_library("c")
    trim = getattr(ctypes.CDLL(name), "malloc_trim", None) if name else None
    if trim is not None:
        trim(0)


def resident_bytes() -> int | None:
    """Resident memory now, None where the kernel does not say."""
    return _field("VmRSS")


def _field(name: str) -> int | None:
    if not STATUS.exists():
        return None
    lines = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    line = next(lines, None)
    return int(line.split()[1]) * 1024 if line else None


class PeakMemory:
    """Measures phases against one baseline: the process with its libraries and data, before any model."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        _touch_kernels(machine)
        release()
        self._baseline = None if machine.is_cuda else resident_bytes()

    def of(self, work: Callable[[], object]) -> int | None:
        """Peak bytes above the baseline while `work` runs; None where the kernel gives no such mark."""
        self.start()
        work()
        return self.peak()

    def start(self) -> None:
        """Forgets all peaks before."""
        release()
        if self._machine.is_cuda:
            torch.cuda.reset_peak_memory_stats()
        elif CLEAR.exists():
            CLEAR.write_text("5")

    def peak(self) -> int | None:
        """Peak bytes above the baseline since the start; None where the kernel gives no such mark."""
        if self._machine.is_cuda:
            self._machine.synchronise()
            return torch.cuda.max_memory_allocated()
        peak = _field("VmHWM")
        return None if self._baseline is None or peak is None or not CLEAR.exists() else max(0, peak - self._baseline)


def _touch_kernels(machine: Machine) -> None:
    """Loads what every training needs (threads, matrix library, autograd, optimiser), so that it counts for none of them."""
    values = torch.nn.Parameter(torch.randn(64, 64, device=machine.device))
    with machine.autocast():
        (values @ values).sum().backward()
    torch.optim.AdamW([values], fused=True).step()
