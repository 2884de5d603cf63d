"""A sweep tracked by a server with PostgreSQL, an artifact proxy and passwords: complete, with the numbers of the folders."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from child_processes import started, wait_for

from harness import tags
from harness.tracking import run_log

SWEEP = ["-m", "model=base,albert", "seed=1,2", "study=served", "measure=none", "finetune.max_steps=4"]
USER, PASSWORD = "admin", "a long password 1"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def programs() -> Path:
    """The folder of the programs of PostgreSQL; skips where there is none."""
    found = [Path(name).parent for name in ("/usr/bin/initdb", shutil.which("initdb") or "") if Path(name).is_file()]
    found += [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found:
        pytest.skip("PostgreSQL is not installed: initdb is in no known folder")
    return found[-1]


@pytest.fixture
def database() -> Iterator[str]:
    """Address of an empty database of a server on loopback, which ends with the test."""
    pytest.importorskip("psycopg", reason="the extra [postgresql] is not installed")
    at = programs()
    with tempfile.TemporaryDirectory() as folder:  # short: the path of a socket has at most 107 bytes
        user = {"user": "postgres"} if os.getuid() == 0 else {}  # which refuses root
        if user:
            shutil.chown(folder, "postgres")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
        subprocess.run(
            [at / "initdb", "-D", f"{folder}/data", "-U", "mlflow", "--auth=trust", "--no-sync"], check=True, **quiet
        )
        port = free_port()
        place = ["-D", f"{folder}/data", "-p", str(port), "-h", "127.0.0.1", "-k", folder]
        with started([str(at / "postgres"), *place, "-c", "fsync=off"], **quiet):
            ready = [at / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow"]
            wait_for(lambda: subprocess.run(ready, check=False).returncode == 0)
            create = [at / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "runs"]
            subprocess.run(create, check=True)
            yield f"postgresql://mlflow@127.0.0.1:{port}/runs"


@dataclass
class Server:
    """A tracking server that asks for a password."""

    uri: str
    artifacts: Path
    database: str


@pytest.fixture
def server(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("flask_wtf", reason="mlflow[auth] is not installed")
    folder, port = tmp_path / "server", free_port()
    folder.mkdir()
    auth = folder / "auth.ini"
    auth.write_text(
        f"[mlflow]\ndefault_permission = NO_PERMISSIONS\ndatabase_uri = sqlite:///{folder}/users.db\n"
        f"admin_username = {USER}\nadmin_password = {PASSWORD}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--app-name", "basic-auth", "--backend-store-uri", database]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    environment = os.environ | {"MLFLOW_AUTH_CONFIG_PATH": str(auth), "MLFLOW_FLASK_SERVER_SECRET_KEY": "a key for a test"}
    with (folder / "log").open("w") as log:
        streams = {"stdout": log, "stderr": subprocess.STDOUT, "cwd": folder, "env": environment}
        with started(command, **streams) as process:
            uri = f"http://127.0.0.1:{port}"
            wait_for(lambda: answers(f"{uri}/health"), process)
            yield Server(uri, folder / "artifacts", database)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_a_sweep_on_a_server_with_postgresql_is_complete(server, run_harness, small, tmp_path, monkeypatch):
    from harness.plugins.trackers.mlflow_store import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    command = [*small, *SWEEP, "output=out", f"tracking.uri={server.uri}"]
    refused = run_harness(*command, "study=refused", "seed=1", "model=base")
    assert refused.returncode == 0, refused.stderr
    assert "MLflow failed (" in refused.stdout
    assert "401" in refused.stdout or "not authenticated" in refused.stdout.lower(), refused.stdout

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MLflow failed" not in done.stdout
    assert run_harness("sync", "output=out", f"tracking.uri={server.uri}").returncode == 0

    client = MlflowClient(server.uri)
    (study,) = client.search_experiments(filter_string="name = 'served'")
    runs = client.search_runs([study.experiment_id], f"tags.{tags.PREFIX}{tags.ROLE} = '{tags.ROLE_RUN}'")
    by_attempt = {run.data.tags["harness.attempt"]: run for run in runs}
    records = {folder: record for folder, record in run_log.all_records("out").items() if folder.parent.name == "served"}
    assert sorted(by_attempt) == sorted(record["attempt"] for record in records.values())
    assert len(runs) == 4
    for folder, record in records.items():
        run, results = by_attempt[record["attempt"]], run_log.result(folder)["metrics"]
        assert run.info.status == "FINISHED"
        assert all(results[key] == value for key, value in run.data.metrics.items() if key in results)
        assert run.data.metrics["eval/score"] == results["eval/score"]
        losses = [entry["value"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == "finetune/loss"]
        assert [point.value for point in client.get_metric_history(run.info.run_id, "finetune/loss")] == losses
        kept = {entry.path for entry in client.list_artifacts(run.info.run_id)}
        assert kept >= {"config.yaml", "result.json", "predictions.parquet"}
    assert list(server.artifacts.rglob("result.json"))
    assert PASSWORD not in "".join(path.read_text(errors="ignore") for path in tmp_path.rglob("out/**/*.json"))

    direct = run_harness(*command, "study=direct", "seed=1", "model=base", f"tracking.uri={server.database}")
    assert direct.returncode == 0, direct.stderr
    assert "MLflow failed" not in direct.stdout
    client = MlflowClient(server.database)
    (study,) = client.search_experiments(filter_string="name = 'direct'")
    runs = client.search_runs([study.experiment_id], f"tags.{tags.PREFIX}{tags.ROLE} = '{tags.ROLE_RUN}'")
    assert [run.info.status for run in runs] == ["FINISHED"]
    assert list(Path("out/artifacts/direct").rglob("result.json"))
    assert not Path("mlruns").exists()
