"""What else the machine did: load, CPUs that others kept busy, clock, others on the GPU. What cannot be read is None."""

import os
import subprocess
import time
from pathlib import Path

import psutil

from harness.hardware.device import Machine

STAT = Path("/proc/stat")

BUSY = {1: "user", 2: "nice", 3: "system", 6: "irq", 7: "softirq", 8: "steal"}
"""Columns of the first line of /proc/stat that are work; `steal` is that of the host's other guests, guests are in `user`."""


def load_average() -> float:
    """Processes that ran or waited for a CPU, mean of the last minute."""
    return os.getloadavg()[0]


def cpu_mhz() -> float | None:
    """Clock of the CPUs now, their mean; in a guest it may be a fixed number that the host gives."""
    told = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return told.current if told is not None and told.current > 0 else None


def busy_seconds(stat: Path = STAT) -> float | None:
    """CPU seconds that all processes together have had since the machine started, in steps of a kernel tick."""
    if not stat.exists():
        return None
    columns = stat.read_text().splitlines()[0].split()
    return sum(int(columns[place]) for place in BUSY) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU seconds that this process and its descendants have had, those that ended and were waited for included."""
    process = psutil.Process()
    return _cpu_seconds(process) + sum(_cpu_seconds(child) for child in process.children(recursive=True))


def _cpu_seconds(process: psutil.Process) -> float:
    """Of a process and of its own children that ended; 0 for one that ends at this moment: its parent has them then."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


class ForeignLoad:
    """CPUs that processes outside this process tree kept busy over a span of time."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self.start()

    def start(self) -> None:
        """The span begins now."""
        self._began, self._busy, self._own = time.monotonic(), busy_seconds(self._stat), own_seconds()

    def foreign_cpus(self) -> float | None:
        """Mean number since the start, at least 0; None where the kernel does not count, or counts nothing at all."""
        seconds, own = time.monotonic() - self._began, own_seconds() - self._own
        now = busy_seconds(self._stat)
        if self._busy is None or now is None or now == 0 or seconds <= 0:
            return None
        return max(0.0, now - self._busy - own) / seconds


def other_gpu_processes(machine: Machine) -> int | None:
    """Processes outside this tree that compute on a GPU of this machine; None without a GPU, or where own ones are not told.

    A container that has process numbers of its own cannot tell which of those on the GPU is itself.
    """
    if not machine.is_cuda:
        return None
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return None
    own = {psutil.Process().pid, *(child.pid for child in psutil.Process().children(recursive=True))}
    return others(told, own)


def others(told: list[str], own: set[int]) -> int | None:
    """How many of the process numbers told are not own ones; None where one is no number or none is an own one."""
    if not all(number.isdigit() for number in told):
        return None
    numbers = {int(number) for number in told}
    return len(numbers - own) if numbers & own else None
