"""Workers: forked from a process that has imported their module, or started as new processes; both behave alike."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from child_processes import PATIENCE_S, wait_for

from harness import processes
from harness.processes.ending import last_lines

pytestmark = pytest.mark.long

WORKER = """
import json, os, sys, time
from pathlib import Path

import numpy
import torch

IMPORTED_BY = os.getpid()

def main(folder):
    facts = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "imported_by": IMPORTED_BY,
        "folder": os.getcwd(),
        "variable": os.environ.get("A_VARIABLE"),
        "code": __import__("harness").__file__,
        "waiting": os.environ.get("OMP_WAIT_POLICY"),
        "tasks": len(os.listdir("/proc/self/task")),
        "cuda": torch.cuda.is_initialized(),
        "random": torch.get_rng_state().sum().item(),
        "threads": [],
    }
    for number in (2, 1):
        torch.set_num_threads(number)
        torch.randn(300, 300) @ torch.randn(300, 300)
        facts["threads"].append(torch.get_num_threads())
    facts["tasks_of_two_threads"] = len(os.listdir("/proc/self/task"))
    (folder / "facts.json").write_text(json.dumps(facts))
    if (folder / "wait").exists():
        time.sleep(600)
    print("printed")
    if (folder / "fail").exists():
        raise RuntimeError("no room")

if __name__ == "__main__":
    from harness import processes
    processes.end_with_parent()
    main(Path(sys.argv[1]))
"""

SLEEP = "time.sleep(60)\n"
"""Before the imports of a worker."""

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that workers can import, and this process cannot."""
    (tmp_path / "a_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "a_worker"


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[str, bool], processes.Server]]:
    """Servers of this test alone."""
    own: dict[tuple[str, bool], processes.Server] = {}
    monkeypatch.setattr(processes, "_servers", own)
    monkeypatch.setattr(processes, "_imports", {})
    yield own
    for server in own.values():
        server.close()


@pytest.fixture(params=["forked", "new"])
def way(request: pytest.FixtureRequest, module: str, servers: dict, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "new":
        monkeypatch.setenv(processes.FORK, "0")
    processes.serve(module)
    assert len(servers) == (request.param == "forked")
    return request.param


def facts(folder: Path) -> dict:
    return json.loads((folder / "facts.json").read_text())


def test_worker_has_its_own_environment_folder_threads_and_log(way, module, tmp_path, monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "set after the server has started")
    monkeypatch.chdir(tmp_path)
    assert processes.run(module, [str(tmp_path)], 2, tmp_path / "log.txt") == 0
    found = facts(tmp_path)
    assert (tmp_path / "log.txt").read_text() == "printed\n"
    assert (found["folder"], found["variable"]) == (str(tmp_path), "set after the server has started")
    assert (found["threads"], found["cuda"]) == ([2, 1], False)
    assert found["code"] == str(ROOT / "harness" / "__init__.py")
    assert found["tasks"] == 1
    assert found["tasks_of_two_threads"] > 1
    assert (found["imported_by"] != found["pid"]) == (way == "forked")
    assert (found["parent"] == os.getpid()) == (way == "new")


def test_threads_sleep_where_that_is_asked_for_and_nothing_else_is_set(way, module, servers, tmp_path, monkeypatch):
    """The library of threads reads it when it is loaded, so before a fork."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    log, found = tmp_path / "log.txt", []
    for passive in (False, True, False):
        with log.open("w") as file:
            assert processes.start(module, [str(tmp_path)], 2, file, passive).wait() == 0, log.read_text()
        found.append(facts(tmp_path)["waiting"])
    assert found == [None, "PASSIVE", None]
    assert set(servers) == ({(module, False), (module, True)} if way == "forked" else set())
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    with log.open("w") as file:
        assert processes.start(module, [str(tmp_path)], 2, file, passive=True).wait() == 0
    assert facts(tmp_path)["waiting"] == "ACTIVE"


def test_no_worker_continues_the_random_numbers_of_another(module, servers, tmp_path):
    processes.serve(module)
    found = []
    for _ in range(2):
        assert processes.run(module, [str(tmp_path)], 1, tmp_path / "log.txt") == 0
        found.append(facts(tmp_path))
    assert found[0]["pid"] != found[1]["pid"]
    assert found[0]["random"] == found[1]["random"]


def test_exception_of_a_worker_is_the_last_line_of_its_log(way, module, tmp_path):
    (tmp_path / "fail").touch()
    assert processes.run(module, [str(tmp_path)], 1, tmp_path / "log.txt") == 1
    assert (tmp_path / "log.txt").read_text().startswith("printed\nTraceback ")
    assert last_lines(tmp_path / "log.txt")[-1] == "RuntimeError: no room"


def test_workers_run_at_a_time_and_have_no_code_until_they_are_ended(way, module, tmp_path):
    running = {"terminate": -signal.SIGTERM, "kill": -signal.SIGKILL, "end": -signal.SIGTERM}
    workers = []
    for name in running:
        (tmp_path / name).mkdir()
        (tmp_path / name / "wait").touch()
        with (tmp_path / name / "log.txt").open("w") as log:
            workers.append(processes.start(module, [str(tmp_path / name)], 1, log))
    wait_for(lambda: all((tmp_path / name / "facts.json").exists() for name in running))
    for worker in workers:
        assert worker.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.01)
    for (name, code), worker in zip(running.items(), workers, strict=True):
        for _ in range(2):  # the second time of an ended worker: nothing
            processes.end(worker) if name == "end" else getattr(worker, name)()
            assert (worker.wait(), worker.poll(), worker.returncode) == (code, code, code)


@pytest.mark.parametrize("fork", ["1", "0"])
def test_killed_parent_takes_its_workers_with_it(module, tmp_path, fork):
    (tmp_path / "wait").touch()
    code = f"from harness import processes; processes.serve({module!r}); "
    code += f"print(processes.run({module!r}, [{str(tmp_path)!r}], 1, processes.Path({str(tmp_path / 'log.txt')!r})))"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", processes.FORK: fork}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for((tmp_path / "facts.json").exists)
    below = psutil.Process(parent.pid).children(recursive=True)
    assert len(below) == 1 + (fork == "1")
    parent.kill()
    parent.wait()
    assert psutil.wait_procs(below, timeout=PATIENCE_S)[1] == []


def test_module_that_starts_a_thread_is_not_forked(module, servers, tmp_path, capsys):
    source = (tmp_path / "a_worker.py").read_text()
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    (tmp_path / "a_worker.py").write_text(thread + source)
    processes.serve(module)  # its error goes through the stream of Python, by which a live screen stays whole
    assert processes.run(module, [str(tmp_path)], 1, tmp_path / "log.txt") == 0
    found = facts(tmp_path)
    assert (found["parent"], found["imported_by"]) == (os.getpid(), found["pid"])
    assert (
        capsys.readouterr().err
        == "importing a_worker started a thread: its workers start as new processes, which takes longer\n"
    )


def test_what_workers_import_starts_no_thread(servers, tmp_path, capfd):
    """Otherwise all of them would start as new processes."""
    from harness.measure import launch
    from harness.study import WORKER, prepare_workers

    prepare_workers()
    processes.serve(launch.WORKER)
    for module in (WORKER, launch.WORKER):
        with (tmp_path / "log.txt").open("w") as log:
            worker = processes.start(module, [str(tmp_path / "none")], 1, log)
        assert isinstance(worker, processes.Forked)
        assert worker.wait() == 1
        assert last_lines(tmp_path / "log.txt")[-1].startswith("FileNotFoundError: ")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("fork", ["1", "0"])
def test_parent_that_is_killed_while_its_worker_imports_leaves_none(module, tmp_path, fork):
    """The worker would outlive it, and write into a folder that another command may use by then."""
    source = (tmp_path / "a_worker.py").read_text()
    (tmp_path / "a_worker.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\n{SLEEP}" + source
    )
    code = f"from harness import processes; processes.serve({module!r}); "
    code += f"processes.run({module!r}, [{str(tmp_path)!r}], 1, processes.Path({str(tmp_path / 'log.txt')!r}))"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", processes.FORK: fork}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for((tmp_path / "begun").exists)
    (importing,) = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    try:
        assert psutil.wait_procs([importing], timeout=PATIENCE_S)[1] == []
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            importing.kill()


def test_process_whose_parent_has_ended_already_does_not_begin(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    command = [sys.executable, "-m", "harness.processes.new_worker", str(ended.pid), "this"]  # a module that prints a poem
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"process {ended.pid}, which started this one, has ended\n"


def test_a_server_whose_folder_goes_while_it_imports_forks_workers(module, servers, tmp_path, monkeypatch):
    """A command may end before what was imported for its next worker, and its folder with it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    processes.serve(module, "torch._inductor.config")
    monkeypatch.chdir(tmp_path)
    gone.rmdir()
    (tmp_path / "run").mkdir()
    with (tmp_path / "log").open("w") as log:
        worker = processes.start(module, [str(tmp_path / "run")], 1, log)
        assert isinstance(worker, processes.Forked)
        assert worker.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
    assert json.loads((tmp_path / "run" / "facts.json").read_text())["folder"] == str(tmp_path)


def test_ctrl_c_while_a_server_starts_leaves_it_to_its_parent(module, servers, tmp_path):
    """A terminal sends it to all processes of a command: the server printed a traceback and ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    processes.serve(module)
    servers[module, False]._process.send_signal(signal.SIGINT)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    with (tmp_path / "log").open("w") as log:
        worker = processes.start(module, [str(tmp_path)], 1, log)
        assert isinstance(worker, processes.Forked)
        assert worker.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
