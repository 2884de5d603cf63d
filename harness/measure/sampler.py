"""Memory by a second instrument: a thread that reads it every few milliseconds.

It misses peaks shorter than its pause, and serves to check the mark of the kernel, which misses nothing: a sampled peak well
above that mark, or far below it in a long phase, means that one of the two is wrong.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

EVERY_S = 0.03
"""Pause between two readings: without one the thread would take the interpreter from the measured work."""

STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Resident memory now, from the cheapest file that has it; None where the kernel does not report it."""
    return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else None


class Sampler:
    """Reads while its block runs, and once at its start and its end."""

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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
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
