"""Why a process ended: real ones that exit, are killed, crash and are refused memory, and the counts of the kernel."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes import ending
from harness.processes.ending import Ending, Watch

PROGRESS = "print('step 10, loss 0.7', flush=True); import os, signal; "


def ended(code: str, log: Path) -> Ending:
    """The end of a real process that runs this code, its output in the log."""
    watch = Watch()
    with log.open("w") as file:
        done = subprocess.run([sys.executable, "-c", code], stdout=file, stderr=subprocess.STDOUT, check=False)
    return watch.ending(done.returncode, log)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (PROGRESS + "os.kill(os.getpid(), 9)", "ended by SIGKILL (exit code -9); its log ends with: step 10, loss 0.7"),
        (PROGRESS + "os.kill(os.getpid(), 15)", "ended by SIGTERM (exit code -15); its log ends with: step 10, loss 0.7"),
        (PROGRESS + "os.kill(os.getpid(), 11)", "crashed with SIGSEGV (exit code -11); its log ends with: step 10, loss 0.7"),
        ("import os; os.kill(os.getpid(), 9)", "ended by SIGKILL (exit code -9); its log ends with: it printed nothing"),
        ("raise ValueError('not that')", "ValueError: not that"),
        (PROGRESS, "exit code 0 without a result; step 10, loss 0.7"),
        ("raise SystemExit(3)", "exit code 3 without a result; it printed nothing"),
        ("[0] * 10**15", "out of memory: MemoryError"),
    ],
    ids=["killed", "terminated", "crashed", "killed_at_once", "exception", "no_result", "silent", "refused"],
)
def test_the_reason_names_what_ended_the_process(code, reason, tmp_path):
    found = ended(code, tmp_path / "log.txt")
    assert found.reason == reason
    assert found.out_of_memory == reason.startswith("out of memory")


@pytest.mark.long
def test_memory_that_torch_is_refused_is_the_reason(tmp_path):
    found = ended("import torch; torch.empty(10**15)", tmp_path / "log.txt")
    assert found.out_of_memory
    assert found.reason.startswith("out of memory: RuntimeError: ")
    assert "memory" in found.reason.removeprefix("out of memory")


def test_the_last_line_alone_is_that_of_other_failures(tmp_path):
    """A run that spoke of memory and failed later did not run out of it."""
    found = ended(
        "print('MemoryError was caught'); print('\\n'.join('12345678901')); raise KeyError('x')", tmp_path / "log.txt"
    )
    assert (found.reason, found.out_of_memory) == ("KeyError: 'x'", False)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Counts of a kernel that a test sets: of the machine, and of the group of processes."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (groups / "memory" / "jobs").mkdir(parents=True)
    (groups / "jobs").mkdir()
    monkeypatch.setattr(ending, "PROC", proc)
    monkeypatch.setattr(ending, "CGROUPS", groups)
    (proc / "self" / "cgroup").write_text("4:memory:/jobs\n0::/jobs\n")
    places = {
        "machine": proc / "vmstat",
        "group": groups / "jobs" / "memory.events",
        "older group": groups / "memory" / "jobs" / "memory.oom_control",
    }

    def count(**kills: int) -> None:
        for name, path in places.items():
            path.write_text(f"low 0\noom 5\noom_kill {kills.get(name, 0)}\noom_group_kill 9\n")

    count()
    return count


@pytest.mark.parametrize("place", ["machine", "group", "older group"])
def test_a_kill_that_the_kernel_counted_was_for_want_of_memory(place, kernel, tmp_path):
    kernel(**{place: 3})
    watch = Watch()
    kernel(**{place: 4})
    found = watch.ending(-signal.SIGKILL, tmp_path / "log.txt")
    assert found.out_of_memory
    assert found.reason == "out of memory: the kernel ended it with SIGKILL (exit code -9, oom_kill rose by 1)"


@pytest.mark.parametrize(("code", "rises"), [(-signal.SIGKILL, False), (-signal.SIGTERM, True), (1, True)])
def test_other_ends_are_not(code, rises, kernel, tmp_path):
    watch = Watch()
    kernel(machine=int(rises))
    assert not watch.ending(code, tmp_path / "log.txt").out_of_memory


def test_a_system_without_counts_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(ending, "PROC", tmp_path)
    monkeypatch.setattr(ending, "CGROUPS", tmp_path)
    assert Watch().ending(-9, tmp_path / "log.txt") == Ending(-9, (), 0)
