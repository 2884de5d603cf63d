"""Peak memory of this process above a baseline, by two instruments: the high-water mark of the system, and a sampler.

On CPU the mark is that of the kernel for resident memory. On CUDA it is that of the allocator for tensors; the reserved memory
and what the driver counts for the process are reported too. What a system does not report is None.

    with peak_memory(machine) as peak:
        ...
    peak.kernel

The sampler misses peaks shorter than its pause, and serves to check the mark of the kernel, which misses nothing: a sampled
peak well above that mark, or far below it in a long phase, means that one of the two is wrong.
"""

import contextlib
import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from harness.hardware.device import Machine
from harness.hardware.load import nvidia_smi
from harness.measure.records import Peak

EVERY_S = 0.03
"""Pause between two readings: without one the thread would take the interpreter from the measured work."""

STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Bytes of resident memory; None if the kernel does not report them."""
    return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else None


class Sampler:
    """Samples memory while its block runs, including its start and end."""

    def __init__(self, read: Callable[[], int | None] = resident_bytes, every_s: float = EVERY_S) -> None:
        self._read, self._every_s = read, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory sampler", daemon=True)
        self.peak: int | None = None
        self.readings = 0

    def __enter__(self) -> "Sampler":
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._ended.wait(self._every_s):
            self._sample()

    def _sample(self) -> None:
        now = self._read()
        self.readings += 1
        if now is not None:
            self.peak = now if self.peak is None else max(self.peak, now)


STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")

SLACK = 1 << 20
"""Bytes by which the mark may be too low: the kernel sums its per-CPU page counts with a delay."""

GUARD_SHARE, GUARD_BYTES = 1.5, 512 << 20
"""How far beyond its limit a process may allocate before it is refused: not all allocated memory becomes resident."""


def release() -> None:
    """Returns freed memory to the system, so that a phase does not reuse that of an earlier one unnoticed."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _field(name: str) -> int | None:
    if not STATUS.exists():
        return None
    lines = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    line = next(lines, None)
    return int(line.split()[1]) * 1024 if line else None


def refuse_less_than(weights: int, peak: Peak) -> Peak:
    """The peak; RuntimeError if it is below the bytes of weights that were allocated all the time."""
    if peak.kernel is not None and peak.kernel + SLACK < weights:
        raise RuntimeError(f"measured a peak of {peak.kernel} bytes, but the weights alone are {weights} bytes")
    return peak


class Baseline:
    """The memory that peaks are counted from: this process with its libraries and data, before any model."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        # What every training loads (threads, matrix library, autograd, optimiser) is in the baseline.
        values = torch.nn.Parameter(torch.randn(64, 64, device=machine.device))
        with machine.autocast():
            (values @ values).sum().backward()
        torch.optim.AdamW([values], fused=True).step()
        del values
        release()
        self._resident = None if machine.is_cuda else resident_bytes()
        self._before, self.is_paused = 0, False

    @contextlib.contextmanager
    def leave_out(self) -> Iterator[None]:
        """Adds memory that the block leaves allocated to the baseline: for compilation, which is not memory of the model."""
        release()
        before = resident_bytes()
        yield
        release()
        after = resident_bytes()
        if self._resident is not None and before is not None and after is not None:
            self._resident += max(0, after - before)

    def start(self, before: int = 0) -> None:
        """Resets the peak, to that of an earlier part of the phase."""
        release()
        self._before = before
        if self._machine.is_cuda:
            torch.cuda.reset_peak_memory_stats()
        elif CLEAR.exists():
            CLEAR.write_text("5")

    def peak(self) -> int | None:
        """Peak bytes above the baseline since the start; None where the kernel has no such mark."""
        if self._machine.is_cuda:
            self._machine.synchronise()
            return max(self._before, torch.cuda.max_memory_allocated())
        peak = self._above(_field("VmHWM") if CLEAR.exists() else None)
        return None if peak is None else max(self._before, peak)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves temporary memory of the block out of the peak."""
        before, self.is_paused = self.peak() or 0, True
        yield
        self.start(before)
        self.is_paused = False

    def sampled(self, beside: Sampler) -> int | None:
        """The peak of the sampler above the baseline."""
        return beside.peak if self._machine.is_cuda else self._above(beside.peak)

    def _above(self, resident: int | None) -> int | None:
        return None if self._resident is None or resident is None else max(0, resident - self._resident)


@contextlib.contextmanager
def peak_memory(machine: Machine, baseline: Baseline | None = None) -> Iterator[Peak]:
    """The peak of the block by both instruments, above the baseline, by default the process as it is now; filled at its end."""
    baseline, peak = baseline or Baseline(machine), Peak()
    baseline.start()
    read = partial(torch.cuda.memory_allocated, machine.device) if machine.is_cuda else resident_bytes
    sampler = Sampler(lambda: None if baseline.is_paused else read())
    with sampler as beside:  # whose thread has the first GPU as its current one, whichever this process uses
        yield peak
    peak.kernel, peak.sampled = baseline.peak(), baseline.sampled(beside)
    if machine.is_cuda:
        peak.reserved = torch.cuda.max_memory_reserved()
        listed = nvidia_smi("--query-compute-apps=pid,used_memory") or []  # not in containers
        own = [line.partition(",")[2].strip() for line in listed if line.partition(",")[0].strip() == str(os.getpid())]
        peak.process = int(own[0]) << 20 if own and own[0].isdigit() else None


def limit_memory(machine: Machine, limit: int) -> None:
    """Makes the system refuse memory far over the limit, before the whole machine runs out of memory."""
    if machine.is_cuda:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.mem_get_info()[1]))
        return
    held = _field("VmData")
    if held is not None:
        most = held + int(GUARD_SHARE * limit) + GUARD_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
