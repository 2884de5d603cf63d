"""When pictures are drawn by a second process; the tests that fork run in a process of one thread."""

import os
import sys
import threading
from pathlib import Path

import pytest

from harness.reports import render

ROOT = Path(__file__).resolve().parents[2]


def test_a_process_with_other_threads_draws_itself(monkeypatch):
    """Whatever lock they hold at a fork is held for ever there."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert render.can_fork() == (sys.platform == "linux")
    monkeypatch.undo()
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        assert not render.can_fork()
    finally:
        ended.set()
        thread.join()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reports fork on Linux alone")
def test_what_forks_does_so_from_a_process_of_one_thread(run_python, tmp_path):
    """This one has threads of xdist, and of what other tests have left."""
    file = Path(__file__).with_name("forking.py")
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'forks'}", str(file), cwd=ROOT)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "7 passed" in done.stdout
