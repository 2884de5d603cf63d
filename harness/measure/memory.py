"""Peak memory of this process above a baseline, by two instruments: the system's own high-water mark, and a sampler beside it.

On CPU the mark is the kernel's for resident memory; on CUDA it is the allocator's for tensors, beside what the allocator
reserved and what the driver counts for the process. What a system does not say is None.
"""

import ctypes
import ctypes.util
import gc
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from harness.hardware.device import Machine
from harness.measure import sampler
from harness.measure.sampler import Sampler

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")

SLACK = 1 << 20
"""Bytes that a mark may lack: the kernel adds up its page counts of several CPUs only now and then."""


@dataclass(frozen=True)
class Peak:
    """Bytes above the baseline at the worst moment of a phase; reserved and process, at its end and whole, are CUDA's alone."""

    kernel: int | None
    sampled: int | None
    reserved: int | None = None
    process: int | None = None


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


def data_bytes() -> int | None:
    """Private memory that the process has asked for, touched or not, as RLIMIT_DATA counts it."""
    return _field("VmData")


def _field(name: str) -> int | None:
    if not STATUS.exists():
        return None
    lines = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    line = next(lines, None)
    return int(line.split()[1]) * 1024 if line else None


def process_bytes_on_gpu() -> int | None:
    """What the driver counts for this process, context and libraries with it; None where it does not say, as in containers."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = (line.split(",") for line in told.splitlines() if line.count(",") == 1)
    own = [mebibytes.strip() for pid, mebibytes in rows if pid.strip() == str(os.getpid())]
    return int(own[0]) << 20 if own and own[0].isdigit() else None


def refuse_less_than(weights: int, peak: Peak) -> Peak:
    """The peak; RuntimeError when it is below the bytes of weights that were there all the time, so that one must be wrong."""
    if peak.kernel is not None and peak.kernel + SLACK < weights:
        raise RuntimeError(f"measured a peak of {peak.kernel} bytes, but the weights alone are {weights} bytes")
    return peak


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

    def both(self, work: Callable[[], object]) -> Peak:
        """The peak while `work` runs, by both instruments."""
        self.start()
        with Sampler(torch.cuda.memory_allocated if self._machine.is_cuda else sampler.resident_bytes) as beside:
            work()
        kernel, sampled = self.peak(), beside.peak
        if self._machine.is_cuda:
            return Peak(kernel, sampled, torch.cuda.max_memory_reserved(), process_bytes_on_gpu())
        return Peak(kernel, None if self._baseline is None or sampled is None else max(0, sampled - self._baseline))

    def leave_out(self, work: Callable[[], object]) -> None:
        """What `work` leaves in this process joins the baseline: for calls that compile, whose remains are not the model's."""
        release()
        before = resident_bytes()
        work()
        release()
        after = resident_bytes()
        if self._baseline is not None and before is not None and after is not None:
            self._baseline += max(0, after - before)

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
