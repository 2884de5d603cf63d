"""Workers of a study that Python starts: forked from a process of their own, never from the caller's."""

import os
import sys

import psutil
import pytest

from harness import processes
from harness.config import compose
from harness.study import WORKER
from harness.study.supervisor import run_study

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")


@pytest.fixture
def started(monkeypatch):
    """Workers of this test, as a process that has run no command starts them, each with the id of its parent."""
    servers, found = {}, []
    monkeypatch.setattr(processes, "_servers", servers)
    monkeypatch.setattr(processes, "_imports", {})
    start = processes.start

    def noted(module, *arguments, **options):
        worker = start(module, *arguments, **options)
        found.append((module, worker, psutil.Process(worker.pid).ppid()))
        return worker

    monkeypatch.setattr(processes, "start", noted)
    yield found
    for server in servers.values():
        server.close()


@pytest.mark.long
@pytest.mark.parametrize("way", ["1", "0"])
def test_a_study_from_python_forks_its_workers_and_not_its_caller(way, small, output, started, monkeypatch):
    monkeypatch.setenv(processes.FORK, way)
    monkeypatch.setattr(sys, "argv", ["notebook"])
    forks = []
    os.register_at_fork(before=lambda: forks.append(os.getpid()))
    arguments = [*small, "measure=none", "finetune.max_steps=1", f"output={output}"]
    assert compose.main(arguments, run_study) == 0
    ((module, worker, parent),) = started
    assert module == WORKER
    assert isinstance(worker, processes.Forked) == (way == "1")
    assert (parent != os.getpid()) == (way == "1")
    assert forks == []
