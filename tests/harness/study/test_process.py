"""The watchdog of a worker, and the load of other processes, which decides how the threads of a worker wait."""

import shutil
import threading
from pathlib import Path

import pytest

from harness.config.schema import SweepConfig
from harness.hardware import load
from harness.study import runner as process
from harness.study.runner import BUSY_CPUS, LoadCheck, Watchdog


@pytest.fixture
def wait(monkeypatch):
    """Passes time, by looks that are `step` seconds apart; the last complaint."""
    now = [100.0]
    monkeypatch.setattr(process.time, "monotonic", lambda: now[0])

    def pass_time(watched: Watchdog, seconds: float, step: float = 1.0) -> str | None:
        found = None
        for _ in range(int(seconds / step)):
            now[0] += step
            found = watched.complaint()
        return found

    return pass_time


def test_a_silent_worker_is_complained_of_after_that_time(wait, tmp_path):
    watched = Watchdog(SweepConfig(silent_minutes=1), tmp_path)
    assert wait(watched, 60) is None
    assert wait(watched, 2) == "no progress for 1 min (sweep.silent_minutes)"


@pytest.mark.parametrize("name", ["metrics.jsonl", "log.txt", "checkpoints/step-1/weights.safetensors"])
def test_progress_of_any_kind_counts(wait, tmp_path, name):
    watched = Watchdog(SweepConfig(silent_minutes=1), tmp_path)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(5):
        assert wait(watched, 50) is None
        path.write_text("line\n" * (number + 1))
    assert wait(watched, 62) is not None


def test_a_run_that_takes_too_long_is_complained_of_whatever_it_says(wait, tmp_path):
    watched = Watchdog(SweepConfig(timeout_minutes=2), tmp_path)
    for number in range(2):
        assert wait(watched, 60) is None
        (tmp_path / "log.txt").write_text("line\n" * (number + 1))
    assert wait(watched, 1) == "it ran for more than 2 min (sweep.timeout_minutes)"


def test_hours_in_which_the_machine_slept_do_not_count(wait, tmp_path):
    watched = Watchdog(SweepConfig(timeout_minutes=5, silent_minutes=5), tmp_path)
    assert wait(watched, 8 * 3600, step=4 * 3600) is None


def test_without_limits_nothing_is_complained_of(wait, tmp_path):
    watched = Watchdog(SweepConfig(timeout_minutes=None, silent_minutes=None), tmp_path)
    assert wait(watched, 100_000, step=20) is None


def replace_checkpoints(folder: Path) -> None:
    """As a pretraining does, again and again: each is built under another name, renamed, and removed later."""
    for _ in range(200):
        building = folder / ".step-1.7"
        (building / "parts").mkdir(parents=True)
        (building / "weights.safetensors").touch()
        building.rename(folder / "step-1")
        shutil.rmtree(folder / "step-1")


@pytest.mark.long
def test_checkpoints_that_go_while_it_looks_do_not_end_the_run(tmp_path):
    watched = Watchdog(SweepConfig(), tmp_path)
    worker = threading.Thread(target=replace_checkpoints, args=(tmp_path / "checkpoints",))
    worker.start()
    complaints = []
    try:
        while worker.is_alive():
            complaints.append(watched.complaint())
    finally:
        worker.join()
    assert set(complaints) == {None}


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> LoadCheck:
    """Their load, one look after the other."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr(process.processes, "server", lambda module, passive: None)
    loads = iter([None, BUSY_CPUS, BUSY_CPUS + 0.1, 1.7, 0.0, 0.9])
    monkeypatch.setattr(load.ForeignLoad, "foreign_cpus", lambda self: next(loads))
    return LoadCheck()


def test_they_are_busy_above_a_limit_and_that_is_said_when_it_begins(check, capsys):
    assert [check.check() for _ in range(6)] == [False, False, True, True, False, True]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"Machine busy (other processes use {cpus} CPUs)" for cpus in (0.6, 0.9)]


def test_what_the_environment_says_of_waiting_threads_stays(check, monkeypatch, capsys):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert [check.check() for _ in range(6)] == [False] * 6
    assert capsys.readouterr().out == ""
