"""The command that shows the store: what it prints, what it refuses, and that it serves on this machine alone."""

import os
import re
import signal
import socket
import sqlite3
import urllib.request

import pytest
from child_processes import wait_for

from harness.command import ENDING


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.long
def test_store_is_served_and_the_table_of_each_study_is_named(sweep, start_harness):
    port = free_port()
    process = start_harness("ui", f"output={sweep.output}", f"port={port}")
    line = process.stdout.readline()
    assert re.fullmatch(rf"sweep: http://127\.0\.0\.1:{port}/#/experiments/\d+/runs\?workflowType=machine_learning&.*\n", line)
    assert wait_for(lambda: answers(port), process)
    process.terminate()
    process.wait()
    assert wait_for(lambda: not answers(port))  # no server is left behind


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["output=nowhere"], "harness ui: output='nowhere' has no tracking store; expected "),
        (["port=0"], "harness ui: port='0' must be a whole number of at least 1 and at most 65535"),
        (["outptu=x"], "harness ui: unknown key 'outptu'; did you mean 'output'?"),
        (["--output", "x"], "harness ui: output='x' has no tracking store; expected "),
        (["tracking.uri=http://h:1"], "harness ui: tracking.uri=http://h:1 has its own pages: expected a SQLite file, sqlite:"),
        (["tracking.uri=sqlite:////no/m.db"], "harness ui: tracking.uri=sqlite:////no/m.db: there is no file /no/m.db"),
    ],
)
def test_wrong_inputs_are_one_line(arguments, expected, run_harness):
    done = run_harness("ui", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(expected)
    assert done.stderr.count("\n") == 1


def test_taken_port_is_one_line(run_harness, output):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_harness("ui", f"output={output}", f"port={port}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"harness ui: port={port} cannot be used (")
    (output / "mlflow.db").write_text("no database " * 1000)
    torn = run_harness("ui", f"output={output}")
    assert torn.returncode == 2
    assert "mlflow.db is corrupt: file is not a database; it was not made by the harness" in torn.stderr
    assert torn.stderr.count("\n") == 1


@pytest.mark.long
def test_signal_that_comes_before_the_server_starts_ends_it(sweep, run_harness, monkeypatch):
    handlers = []
    monkeypatch.setattr(os, "execve", lambda *server: handlers.extend(map(signal.getsignal, ENDING)))
    run_harness("ui", f"output={sweep.output}", f"port={free_port()}")
    assert handlers == [signal.SIG_DFL] * len(ENDING)


@pytest.mark.long
def test_store_elsewhere_is_served_but_not_one_of_another_version(sweep, start_harness, run_harness, tmp_path):
    store = tmp_path / "other.db"
    with sqlite3.connect(sweep.output / "mlflow.db") as whole, sqlite3.connect(store) as copy:
        whole.backup(copy)  # with what its file has not yet
    port = free_port()
    process = start_harness("ui", f"tracking.uri=sqlite:///{store}", f"port={port}")
    assert process.stdout.readline().startswith(f"sweep: http://127.0.0.1:{port}/#/experiments/")
    process.terminate()
    process.wait()
    with sqlite3.connect(store) as database:
        database.execute("update alembic_version set version_num = 'another'")
    done = run_harness("ui", f"tracking.uri=sqlite:///{store}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("harness ui: MLflow failed (Detected out-of-date database schema (found version another")
    assert done.stderr.count("\n") == 1
