"""Energy from the machine's own counters: RAPL of the processor, NVML of the GPU. Where there is none there is no number.

Both count what the whole package or card took, whoever used it: the rest of the machine has to be idle.
"""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.choices import Device

if TYPE_CHECKING:
    from harness.hardware.device import Machine

POWERCAP = Path("/sys/class/powercap")

NVML_LIBRARY = "libnvidia-ml.so.1"
"""Part of the driver, so that no package is needed."""

LOOK_EVERY_S = 60.0
"""Well below the time in which a counter runs once around: tens of minutes at full power."""


@dataclass(frozen=True)
class Counter:
    """One counter that only rises, and starts again from zero at `wraps_at` where that is given."""

    read: Callable[[], int]
    joules_per_unit: float
    wraps_at: int | None = None

    def between(self, before: int, after: int) -> float:
        """Joules from one reading to a later one, at most once around; RuntimeError for one that fell and never wraps."""
        if after >= before:
            return (after - before) * self.joules_per_unit
        if self.wraps_at is None:
            raise RuntimeError(f"energy counter fell from {before} to {after}")
        return (after - before + self.wraps_at) * self.joules_per_unit


def counters(machine: "Machine") -> list[Counter]:
    """Those of the device that the work runs on; none where the machine has none or does not let this user read it."""
    return nvml_counters() if machine.is_cuda else rapl_counters()


def kind(device: Device) -> str | None:
    """Name of the counters that `counters` finds for this device, None where there are none."""
    if device is Device.cuda:
        return "NVML" if nvml_counters() else None
    return "RAPL" if rapl_counters() else None


def rapl_counters(folder: Path = POWERCAP) -> list[Counter]:
    """Packages and their memory; other zones are parts of a package, or count one a second time."""
    zones = [zone for zone in sorted(folder.glob("intel-rapl:*")) if _is_counted(zone)]
    found = [_rapl_counter(zone) for zone in zones]
    return [] if None in found else [counter for counter in found if counter is not None]


def _is_counted(zone: Path) -> bool:
    name = _read(zone / "name")
    return name is not None and (name.startswith("package") or name == "dram")


def _rapl_counter(zone: Path) -> Counter | None:
    """None where the kernel refuses: since CVE-2020-8694 only root may read."""
    file = zone / "energy_uj"
    wraps_at = _read(zone / "max_energy_range_uj")
    if wraps_at is None or _read(file) is None:
        return None
    return Counter(lambda: int(file.read_text()), 1e-6, int(wraps_at))


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def nvml_counters() -> list[Counter]:
    """That of the current CUDA device, in millijoules since the driver was loaded; none before the Volta generation."""
    try:
        library = ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        return []
    import torch  # heavy; facts about the machine are read without it

    if not torch.cuda.is_available():  # Machine raises the clear error
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
        raise RuntimeError(f"the GPU's energy counter answered before and now gives NVML status {status}")
    return value.value


class EnergyMeter:
    """Adds up what counters count between start and end, looking often enough that none runs around twice unseen."""

    def __init__(self, found: list[Counter], look_every_s: float = LOOK_EVERY_S) -> None:
        self._counters, self._look_every_s = found, look_every_s
        self._total, self._last = 0.0, [0] * len(found)
        self._ended, self._counting = threading.Event(), threading.Lock()
        self._failed: list[Exception] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begins; once for each meter."""
        self._last = [counter.read() for counter in self._counters]
        if self._counters:
            self._thread.start()

    def end(self) -> float | None:
        """Joules since the start, None without a counter; OSError or RuntimeError where a counter stopped answering."""
        if not self._counters:
            return None
        self._ended.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        self._look()
        return self._total

    def of(self, work: Callable[[], object]) -> float | None:
        """From start to end of this work, which may pause the meter; None and errors as `end` has them."""
        self.start()
        try:
            work()
        except BaseException:
            self.end()
            raise
        return self.end()

    @property
    def counted(self) -> float | None:
        """Joules up to the pause that it is in, None without a counter."""
        return self._total if self._counters else None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is not counted; it waits for the device by itself, as what came before."""
        with self._counting:
            self._look()
            try:
                yield
            finally:
                self._last = [counter.read() for counter in self._counters]

    def _watch(self) -> None:
        while not self._ended.wait(self._look_every_s):
            try:
                with self._counting:
                    self._look()
            except (OSError, RuntimeError) as error:
                self._failed.append(error)
                return

    def _look(self) -> None:
        now = [counter.read() for counter in self._counters]
        for counter, before, after in zip(self._counters, self._last, now, strict=True):
            self._total += counter.between(before, after)
        self._last = now
