"""Energy from the machine's own counters: RAPL of the processor, NVML of the GPU. None without a counter.

Both count the energy of the whole package or card for all processes: the rest of the machine must be idle.
"""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

POWERCAP = Path("/sys/class/powercap")

NVML_LIBRARY = "libnvidia-ml.so.1"
"""Part of the driver, so that no package is needed."""

READ_EVERY_S = 60.0
"""Well below the time in which a counter wraps around: tens of minutes at full power."""


@dataclass(frozen=True)
class Counter:
    """A monotonic counter, which wraps to zero at `wraps_at` if that is known."""

    read: Callable[[], int]
    joules_per_unit: float
    wraps_at: int | None = None

    def between(self, before: int, after: int) -> float:
        """Joules between two readings with at most one wrap; RuntimeError if it fell although it does not wrap."""
        if after >= before:
            return (after - before) * self.joules_per_unit
        if self.wraps_at is None:
            raise RuntimeError(f"energy counter fell from {before} to {after}")
        return (after - before + self.wraps_at) * self.joules_per_unit


def counters(*, cuda: bool) -> list[Counter]:
    """Counters of the GPU or of the processor; none where the machine has none or this user may not read them."""
    return nvml_counters() if cuda else rapl_counters()


def rapl_counters(folder: Path = POWERCAP) -> list[Counter]:
    """Packages and their memory; other zones are parts of a package or duplicates."""
    found = []
    for zone in sorted(folder.glob("intel-rapl:*")):
        name, wraps_at = _read(zone / "name") or "", _read(zone / "max_energy_range_uj")
        if not name.startswith("package") and name != "dram":
            continue
        file = zone / "energy_uj"
        if wraps_at is None or _read(file) is None:  # the kernel refuses: since CVE-2020-8694 only root may read
            return []
        found.append(Counter(partial(_number, file), 1e-6, int(wraps_at)))
    return found


def _number(path: Path) -> int:
    return int(path.read_text())


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def nvml_counters() -> list[Counter]:
    """Millijoules of the current CUDA device since its driver was loaded; none before the Volta generation."""
    try:
        library = ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        return []
    import torch  # here: takes a second, and facts about the machine are read without it

    if not torch.cuda.is_available():  # Machine reports a missing device
        return []
    handle = ctypes.c_void_p()
    uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
    if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        return []
    if library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(ctypes.c_ulonglong())):
        return []
    return [Counter(lambda: _millijoules(library, handle), 1e-3)]


def _millijoules(library: ctypes.CDLL, handle: ctypes.c_void_p) -> int:
    value = ctypes.c_ulonglong()
    status = library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(value))
    if status:
        raise RuntimeError(f"the energy counter of the GPU stopped working: NVML status {status}")
    return value.value


class EnergyMeter:
    """Sums the counters while its block runs; it reads often enough that none wraps twice between readings."""

    def __init__(self, found: list[Counter], read_every_s: float = READ_EVERY_S) -> None:
        self._counters, self._read_every_s = found, read_every_s
        self._total, self._last = 0.0, [0] * len(found)
        self._ended, self._counting = threading.Event(), threading.Lock()
        self._failed: list[Exception] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Starts counting; once per meter."""
        self._last = [counter.read() for counter in self._counters]
        if self._counters:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stops counting; OSError or RuntimeError if a counter could not be read."""
        if not self._counters:
            return
        self._ended.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        self._read()

    @property
    def counted(self) -> float | None:
        """Joules up to the end or the current pause; None without a counter."""
        return self._total if self._counters else None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The block is not counted. The caller synchronises the device before it and at its end."""
        with self._counting:
            self._read()
            try:
                yield
            finally:
                self._last = [counter.read() for counter in self._counters]

    def _watch(self) -> None:
        while not self._ended.wait(self._read_every_s):
            try:
                with self._counting:
                    self._read()
            except (OSError, RuntimeError) as error:
                self._failed.append(error)
                return

    def _read(self) -> None:
        now = [counter.read() for counter in self._counters]
        for counter, before, after in zip(self._counters, self._last, now, strict=True):
            self._total += counter.between(before, after)
        self._last = now
