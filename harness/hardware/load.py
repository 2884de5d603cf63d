"""Load of the machine: CPUs that other processes keep busy, clock, processes on the GPU. None for what cannot be read."""

import os
import subprocess
import time
from pathlib import Path

import psutil

STAT = Path("/proc/stat")

BUSY = {1: "user", 2: "nice", 3: "system", 6: "irq", 7: "softirq", 8: "steal"}
"""Columns of the first line of /proc/stat that are work; `steal` is time of other guests; `user` includes own guests."""


def load_average() -> float:
    """Processes that ran or waited for a CPU, mean of the last minute."""
    return os.getloadavg()[0]


def cpu_mhz() -> float | None:
    """Mean clock of the CPUs now; in a virtual machine it may be a constant."""
    clock = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return clock.current if clock is not None and clock.current > 0 else None


def busy_seconds(stat: Path = STAT) -> float | None:
    """CPU seconds of all processes since the machine started, in steps of a kernel tick."""
    if not stat.exists():
        return None
    columns = stat.read_text().splitlines()[0].split()
    return sum(int(columns[place]) for place in BUSY) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU seconds of this process and its descendants, including those that have ended and were waited for."""
    process = psutil.Process()
    return _cpu_seconds(process) + sum(_cpu_seconds(child) for child in process.children(recursive=True))


def _cpu_seconds(process: psutil.Process) -> float:
    """CPU seconds of a process and its ended children; 0 for one that ends at this moment, whose parent then has them."""
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
        """Restarts the span."""
        self._began, self._busy, self._own = time.monotonic(), busy_seconds(self._stat), own_seconds()

    def foreign_cpus(self) -> float | None:
        """Mean number of CPUs since the start, at least 0; None if the kernel does not count."""
        seconds, own = time.monotonic() - self._began, own_seconds() - self._own
        now = busy_seconds(self._stat)
        if self._busy is None or now is None or now == 0 or seconds <= 0:
            return None
        return max(0.0, now - self._busy - own) / seconds


def nvidia_smi(*query: str) -> list[str] | None:
    """The lines with which the GPU's driver answers, without heads and units; None without a driver."""
    command = ["nvidia-smi", *query, "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    return [line.strip() for line in lines if line.strip()]


def other_gpu_processes() -> int | None:
    """Processes outside this process tree on the GPUs of this machine; None without a driver, or if own ones are not listed.

    In a container with its own process ids, own processes cannot be identified.
    """
    listed = nvidia_smi("--query-compute-apps=pid")
    if listed is None:
        return None
    own = {psutil.Process().pid, *(child.pid for child in psutil.Process().children(recursive=True))}
    return others(listed, own)


def others(listed: list[str], own: set[int]) -> int | None:
    """How many of the listed process ids are not own ones; None if one is not a number or none is an own one."""
    if not all(number.isdigit() for number in listed):
        return None
    numbers = {int(number) for number in listed}
    return len(numbers - own) if numbers & own else None
