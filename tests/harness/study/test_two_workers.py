"""Never two workers in one folder: not after a command was killed, and not beside a worker that lives on."""

import contextlib
import signal
import time
from pathlib import Path

import psutil
import pytest
from child_processes import PATIENCE_S, wait_for, workers
from filelock import FileLock, Timeout

from harness import paths, processes
from harness.study import runner as process

pytestmark = pytest.mark.long

ENDLESS = ["finetune.epochs=1000000", "finetune.max_steps=1000000", "measure=none", "tracking=none"]


def is_writing(output: Path, since: float) -> bool:
    return any(path.stat().st_mtime > since and '"key"' in path.read_text() for path in output.glob("s/*/metrics.jsonl"))


def alive(found: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in found if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("fork", "seconds"),
    [
        pytest.param("0", 0.0, marks=pytest.mark.slow, id="new_process_at_once"),
        pytest.param("0", 1.0, marks=pytest.mark.slow, id="while_it_imports"),
        pytest.param("1", 0.0, id="forked_at_once"),
    ],
)
def test_killed_command_and_the_next_one_never_have_two_workers(fork, seconds, start_process, small, tmp_path, monkeypatch):
    """The first command is killed so many seconds after its worker has started."""
    monkeypatch.setenv(processes.FORK, fork)
    output = tmp_path / "out"
    command = ["-m", "harness", *small, *ENDLESS, "study=s", f"output={output}"]
    first = start_process(*command)
    left = wait_for(lambda: workers(first.pid), first)
    time.sleep(seconds)
    first.send_signal(signal.SIGKILL)
    first.wait()
    began = time.time()
    second = start_process(*command)
    try:
        most = 0
        while not is_writing(output, began):
            assert second.poll() is None, second.communicate()
            most = max(most, len(alive(left + workers(second.pid))))
            time.sleep(0.02)
        assert most == 1
    finally:
        for one in alive(left):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


def test_worker_holds_the_lock_of_its_folder_while_it_runs(start_process, small, tmp_path):
    output = tmp_path / "out"
    command = start_process("-m", "harness", *small, *ENDLESS, "study=s", f"output={output}")
    wait_for(lambda: is_writing(output, 0), command)
    (folder,) = (output / "s").glob("base-*")
    with pytest.raises(Timeout):
        FileLock(folder / paths.WORKER_LOCK, timeout=0).acquire()
    (worker,) = workers(command.pid)
    command.kill()
    psutil.wait_procs([worker], timeout=PATIENCE_S)
    with FileLock(folder / paths.WORKER_LOCK, timeout=0):
        pass


def test_a_worker_that_lives_on_is_waited_for(run_harness, small, output, monkeypatch):
    """Where the kernel ends no process with its parent, the lock alone keeps the next command away."""
    monkeypatch.setattr(process, "SOON_S", 0.05)
    command = [*small, "measure=none", "finetune.max_steps=1", "tracking=none", "study=s", f"output={output}"]
    assert run_harness(*command).returncode == 0
    (folder,) = (output / "s").glob("base-*")
    (folder / "result.json").unlink()
    lock, said = FileLock(folder / paths.WORKER_LOCK, thread_local=False), []
    lock.acquire()

    def say(*texts: str, **options: object) -> None:
        said.extend(texts)
        if "still writes to" in texts[0]:
            assert (folder / "metrics.jsonl").exists()  # nothing of the folder is touched before
            lock.release()

    monkeypatch.setattr("builtins.print", say)
    assert run_harness(*command).returncode == 0
    (waited,) = (line for line in said if "still writes to" in line)
    assert waited.endswith(f"a worker of an earlier command still writes to {folder}; waiting")
