"""Energy: what the counters of a processor say, once around included, and nothing where there is none."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from child_processes import wait_for

from harness.config.choices import Device
from harness.config.schema import HardwareConfig
from harness.hardware import energy, facts
from harness.hardware.energy import Counter, EnergyMeter, rapl_counters

AROUND = 262_143_328_850


def joules(work: Callable[[], object], found: list[Counter], **changes) -> float | None:
    """By a meter of its own."""
    with EnergyMeter(found, **changes) as meter:
        work()
    return meter.counted


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """One package with its cores and its memory, and zones that count the same a second time."""
    zones = {
        "intel-rapl:0": ("package-0", 5_000_000),
        "intel-rapl:0:0": ("core", 1_000_000),
        "intel-rapl:0:1": ("dram", AROUND - 1_000_000),
        "intel-rapl:1": ("psys", 9_000_000),
        "intel-rapl-mmio:0": ("package-0", 5_000_000),
    }
    for zone, (name, microjoules) in zones.items():
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "name").write_text(f"{name}\n")
        (tmp_path / zone / "energy_uj").write_text(f"{microjoules}\n")
        (tmp_path / zone / "max_energy_range_uj").write_text(f"{AROUND}\n")
    return tmp_path


def use(folder: Path, zone: str, joules: float) -> None:
    """What the kernel does while the processor takes so much."""
    file = folder / zone / "energy_uj"
    file.write_text(str((int(file.read_text()) + int(joules * 1e6)) % AROUND))


def test_package_and_memory_add_up_and_their_parts_do_not_count_again(powercap):
    def work() -> None:
        for zone in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl-mmio:0"):
            use(powercap, zone, 3.0)
        use(powercap, "intel-rapl:0:1", 0.5)

    assert joules(work, rapl_counters(powercap)) == pytest.approx(3.5)


def test_a_counter_that_starts_again_is_read_once_around(powercap):
    assert joules(lambda: use(powercap, "intel-rapl:0:1", 2.5), rapl_counters(powercap)) == pytest.approx(2.5)


def test_a_counter_that_goes_around_often_is_looked_at_often_enough():
    ticks = iter(range(0, 100_000, 7))
    counter = Counter(lambda: next(ticks) % 10, 1.0, wraps_at=10)
    reads: list[int] = []
    counted = Counter(lambda: reads.append(1) or counter.read(), 1.0, wraps_at=10)
    work = lambda: wait_for(lambda: len(reads) > 2)  # noqa: E731
    assert joules(work, [counted], read_every_s=0.02) == 7 * (len(reads) - 1)


def test_what_a_pause_takes_is_not_counted():
    total = [100]
    with energy.EnergyMeter([Counter(lambda: total[0], 0.5)], read_every_s=0.01) as meter:
        total[0] += 2
        with meter.paused():
            assert meter.counted == 1.0
            total[0] += 32
            time.sleep(0.1)  # the watcher has its chances to count it
        total[0] += 4
    assert meter.counted == 3.0


def test_work_that_takes_nothing_is_zero_and_not_missing(powercap):
    assert joules(lambda: None, rapl_counters(powercap)) == 0.0


@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj"])
def test_no_number_where_one_counter_cannot_be_read(powercap, file):
    (powercap / "intel-rapl:0" / file).unlink()
    (powercap / "intel-rapl:0" / file).mkdir()  # refuses to be read, also for root
    assert rapl_counters(powercap) == []
    assert joules(lambda: None, rapl_counters(powercap)) is None


def test_no_number_without_counters(tmp_path):
    done = []
    assert rapl_counters(tmp_path / "missing") == []
    assert joules(lambda: done.append(1), []) is None
    assert done == [1]


def test_a_counter_that_goes_while_it_is_used_is_an_error(powercap):
    with pytest.raises(OSError, match="energy_uj"):
        joules((powercap / "intel-rapl:0" / "energy_uj").unlink, rapl_counters(powercap))


def test_a_counter_that_never_wraps_and_falls_is_an_error():
    readings = iter([5, 3])
    with pytest.raises(RuntimeError, match="fell from 5 to 3"):
        joules(lambda: None, [Counter(lambda: next(readings), 1e-3)])


def test_a_machine_without_a_driver_has_no_gpu_counter(monkeypatch):
    monkeypatch.setattr(energy, "NVML_LIBRARY", "libthere-is-no-such-driver.so")
    assert energy.nvml_counters() == []


def test_a_processor_counts_for_work_on_the_processor(powercap, monkeypatch):
    monkeypatch.setattr(energy, "rapl_counters", lambda: rapl_counters(powercap))
    assert len(energy.counters(cuda=False)) == 2


def test_a_run_says_the_load_with_two_decimals(monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (13.2734375, 1.0, 1.0))
    assert facts.environment(HardwareConfig(threads=1))["load_average"] == 13.27


def test_a_run_says_which_counter_its_device_has(powercap, monkeypatch):
    monkeypatch.setattr(energy, "rapl_counters", lambda: rapl_counters(powercap))
    monkeypatch.setattr(energy, "nvml_counters", list)
    assert facts.environment(HardwareConfig(threads=1))["energy_counter"] == "RAPL"
    monkeypatch.setattr(energy, "rapl_counters", list)
    assert facts.environment(HardwareConfig(threads=1))["energy_counter"] is None
    on_gpu = HardwareConfig(threads=1, device=Device.cuda)
    assert facts.environment(on_gpu)["energy_counter"] is None
    monkeypatch.setattr(energy, "nvml_counters", lambda: [Counter(lambda: 0, 1e-3)])
    assert facts.environment(on_gpu)["energy_counter"] == "NVML"
