"""The folder of a run is the truth: the store is made to agree with it, and no store stops a run."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import sqlite3
from pathlib import Path

import pytest
from child_processes import wait_for

from harness import tags
from harness.plugins.trackers.mlflow_store import MlflowClient
from harness.study.plan import plan
from harness.tracking import run_log

pytestmark = pytest.mark.long

SHORT = ["finetune.max_steps=2", "measure=none", "study=s"]
GONE = f"{os.uname().nodename}:{2**22 + 1}:1"


def states(runs: list) -> list[tuple[str, str]]:
    return [(run.info.status, run.data.tags["status"]) for run in runs]


def folder_of(output: Path) -> Path:
    (folder,) = (output / "s").glob("base-*")
    return folder


def agrees(output: Path, runs: list) -> None:
    """One run, with the end, the numbers and the curve of its folder."""
    (run,) = runs
    values = run_log.result(folder_of(output))["metrics"]
    assert states(runs) == [("FINISHED", "finished")]
    assert {**tags.unpacked(tags.METRICS, run.data.tags), **run.data.metrics}.items() >= values.items()
    points = [entry for entry in run_log.Reader(folder_of(output)).new_entries() if entry.get("key") == "finetune/loss"]
    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    assert len(client.get_metric_history(run.info.run_id, "finetune/loss")) == len(points) > 0


def test_killed_as_the_result_appears_and_run_again_is_one_finished_run(start_harness, run_harness, small, output, runs_of):
    """The command skips the run; before, the store kept it as running or killed, and the report lacked it."""
    process = start_harness(*small, *SHORT, f"output={output}")
    wait_for(lambda: list(output.glob("s/*/result.json")), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = run_harness(*small, *SHORT, f"output={output}")
    assert (done.returncode, "finished already, skipped" in done.stdout) == (0, True), done.stdout + done.stderr
    agrees(output, runs_of(output, "s"))


def test_whatever_the_store_says_of_a_finished_run_is_mended(run_harness, small, output, runs_of):
    same = [*small, *SHORT, f"output={output}"]
    assert run_harness(*same).returncode == 0
    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    for command, status in itertools.product((same, ["sync", f"output={output}"]), ("running", "killed", "absent")):
        (run,) = runs_of(output, "s")
        if status == "absent":
            client.delete_run(run.info.run_id)
        else:
            client.set_tag(run.info.run_id, "mlflow.harness_process", GONE)
            client.set_tag(run.info.run_id, "harness.status", status)
            client.update_run(run.info.run_id, status.upper())
        again = run_harness(*command)
        assert again.returncode == 0, again.stdout + again.stderr
        agrees(output, runs_of(output, "s"))


def test_another_command_of_the_study_ends_what_a_killed_one_had_finished(run_harness, small, output, runs_of):
    assert run_harness(*small, *SHORT, f"output={output}").returncode == 0
    (run,) = runs_of(output, "s")
    client = MlflowClient(f"sqlite:///{output / 'mlflow.db'}")
    client.set_tag(run.info.run_id, "mlflow.harness_process", GONE)
    client.update_run(run.info.run_id, "RUNNING")
    assert run_harness(*small, *SHORT, "seed=2", f"output={output}").returncode == 0
    assert states(runs_of(output, "s")) == [("FINISHED", "finished")] * 2


def test_timing_that_the_store_missed_is_sent_by_the_next_command(sweep, run_harness, tmp_path, runs_of, compose):
    output = tmp_path / "copy"
    shutil.copytree(sweep.output, output, ignore=shutil.ignore_patterns("cache", "*.lock"))
    shutil.copytree(sweep.output / "cache", output / "cache")
    with sqlite3.connect(output / "mlflow.db") as database:
        database.execute("delete from tags where key = 'mlflow.harness_session'")
        for table in ("metrics", "latest_metrics"):
            database.execute(f"delete from {table} where key like 'inference/latency%'")
    arguments = [*[one for one in sweep.arguments if not one.startswith("output=")], f"output={output}"]
    assert {item.folder.is_dir() for item in plan(compose(*arguments))} == {True}
    assert run_harness(*arguments).returncode == 0
    swept = [run for run in runs_of(output, "sweep") if "replicate" not in run.data.tags]
    assert len({run.data.tags["session"] for run in swept}) == 1
    assert all(run.data.metrics["inference/latency_ms_p50"] > 0 for run in swept)


def unreachable(done, said: str = "failed") -> str:
    """The only line about the store; there is no traceback."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = (line for line in done.stdout.splitlines() if f"MLflow {said}" in line)
    assert line.startswith(f"MLflow {said} (")
    assert line.endswith("Results are saved locally; `python -m harness sync` sends them.")
    return line


def test_torn_database_stops_no_run_and_sync_makes_it_anew(run_harness, run_module, small, output):
    assert run_harness(*small, *SHORT, f"output={output}").returncode == 0
    path = output / "mlflow.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(path.read_bytes()[:8192] + b"\0" * 4096)
    torn = path.read_bytes()
    done = run_harness("-m", *small, *SHORT, "seed=1,2", f"output={output}")
    assert f"{path} is corrupt" in unreachable(done)
    synced = run_module("harness", "sync", f"output={output}")
    assert (synced.returncode, synced.stderr) == (0, "")
    (kept,) = (one for one in output.glob("mlflow.db.broken-*") if not one.name.endswith(("-wal", "-shm")))
    assert synced.stdout.splitlines() == [
        f"the tracking store was corrupt: kept as {kept}, and rebuilt from the folders of the runs",
        "synced 3 runs",
    ]
    assert kept.read_bytes() == torn
    with contextlib.closing(sqlite3.connect(path)) as database:  # MLflow in this process still has the old file open
        query = (
            "select status from runs where run_uuid in (select run_uuid from tags where key = 'harness.role' and value = 'run')"
        )
        assert database.execute(query).fetchall() == [("FINISHED",)] * 3


def test_database_without_its_driver_stops_no_run(run_harness, small, output):
    done = run_harness(*small, *SHORT, "tracking.uri=nosuchdb://ada@host/db", f"output={output}")
    unreachable(done)


def test_server_that_never_answers_delays_nothing_but_the_end(run_harness, small, output, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_harness("-m", *small, *SHORT, "seed=1,2", f"tracking.uri={uri}", f"output={output}")
    unreachable(done)
    for folder in (path.parent for path in (output / "s").glob("*/run.json")):
        assert run_log.result(folder)["status"] == "finished"
