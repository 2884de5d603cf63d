"""Machine state: work of others is seen, own work is not taken for theirs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from child_processes import wait_for

from harness.hardware import load
from harness.hardware.load import ForeignLoad, busy_seconds, others, own_seconds

needs_stat = pytest.mark.skipif(not busy_seconds(), reason="this kernel does not count the CPU time of all processes")
BURN = "import time\nwhile time.process_time() < {seconds}: pass\nopen({done!r}, 'w').close()"
ORPHAN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
"""Starts a process and ends before it, so that it belongs to nobody here."""

TICKS = os.sysconf("SC_CLK_TCK")


def burn(seconds: float) -> None:
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


@pytest.mark.long
@needs_stat
def test_a_foreign_process_is_seen(tmp_path):
    done = tmp_path / "done"
    span = ForeignLoad()
    began, own = time.monotonic(), own_seconds()
    subprocess.run([sys.executable, "-c", ORPHAN, BURN.format(seconds=0.6, done=str(done))], check=True)
    wait_for(done.exists)
    cpus = span.foreign_cpus()
    assert own_seconds() - own < 0.5  # the planted work is not in what counts as own
    assert cpus * (time.monotonic() - began) > 0.4


def stat_of(path: Path, seconds: float) -> Path:
    """A first line in which all processes have had so many seconds of each kind, and waited for more."""
    columns = [0] * 10
    columns[0] = round(seconds * TICKS)
    columns[3] = columns[4] = 1_000_000 + round(seconds * TICKS)  # idle, and idle while a disk works
    columns[8] = round(seconds * TICKS)  # guests, which are in the first column
    path.write_text(f"cpu  {' '.join(map(str, columns))}\ncpu0 1 2 3\n")
    return path


@pytest.mark.long
def test_own_work_and_that_of_children_is_not_foreign(tmp_path):
    stat, child = stat_of(tmp_path / "stat", 100.0), tmp_path / "done"
    span, own = ForeignLoad(stat), own_seconds()
    burn(0.3)
    subprocess.run([sys.executable, "-c", BURN.format(seconds=0.3, done=str(child))], check=True)
    spent = own_seconds() - own
    assert spent >= 0.55
    stat_of(stat, 100.0 + spent)
    assert span.foreign_cpus() < 0.05


@pytest.mark.long
def test_what_others_had_is_told_in_cpus(tmp_path):
    stat = stat_of(tmp_path / "stat", 100.0)
    span, began = ForeignLoad(stat), time.monotonic()
    time.sleep(0.2)
    stat_of(stat, 101.0)
    assert span.foreign_cpus() * (time.monotonic() - began) == pytest.approx(1.0, rel=0.3)


@pytest.mark.long
def test_a_running_child_is_own_work(start_process, tmp_path):
    done, own = tmp_path / "done", own_seconds()
    code = BURN.format(seconds=0.3, done=str(done)) + "\nimport sys; sys.stdin.read()"
    child = start_process("-c", code, stdin=subprocess.PIPE)
    wait_for(done.exists, child)
    assert own_seconds() - own > 0.25


def test_a_kernel_that_does_not_count_gives_no_number(tmp_path):
    assert ForeignLoad(tmp_path / "missing").foreign_cpus() is None
    assert ForeignLoad(stat_of(tmp_path / "stat", 0.0)).foreign_cpus() is None


def test_clock_and_load_are_positive_where_they_are_told():
    assert load.load_average() >= 0
    assert load.cpu_mhz() is None or load.cpu_mhz() > 0


def test_a_clock_of_zero_is_no_clock(monkeypatch):
    monkeypatch.setattr(load.psutil, "cpu_freq", lambda: None)
    assert load.cpu_mhz() is None


@pytest.mark.parametrize(
    ("reported", "others_on_it"),
    [(["10", "11", "12"], 2), (["10"], 0), ([], None), (["11"], None), (["10", "[N/A]"], None)],
    ids=["two-others", "alone", "nobody", "foreign-numbers", "no-number"],
)
def test_others_on_the_gpu_are_counted_where_own_ones_are_told(reported, others_on_it):
    assert others(reported, {10, 20}) == others_on_it


def test_no_driver_has_no_processes(monkeypatch):
    monkeypatch.setattr(load, "nvidia_smi", lambda *query: None)
    assert load.other_gpu_processes() is None
