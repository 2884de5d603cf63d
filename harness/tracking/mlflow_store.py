"""Runs in MLflow: each is one flat run, with the numbers of its log. The only module of the harness that imports mlflow.

Everything goes through an explicit client with explicit run ids and end states. Sending a run twice changes nothing, so it can
be sent again from its folder at any time.
"""

import json
import logging
import os
import sqlite3
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # a dead server would block for minutes
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

import psutil
from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from harness import paths, plateau, tags
from harness.tracking import run_log

END_STATES = {"finished": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "killed": "KILLED"}
"""Status of a run -> its state in MLflow."""

logging.getLogger("mlflow.store.db").setLevel(logging.WARNING)  # the first run would log tables and migrations
logging.getLogger("alembic").setLevel(logging.WARNING)

BATCH = 1000
"""Metrics of one call at most."""


class Tracker:
    """A study in the tracking store; MlflowException from any call when MLflow is unreachable."""

    def __init__(self, uri: str | None, output: str, study: str) -> None:
        self.uri = uri or paths.database_uri(output)
        if self.uri.startswith("sqlite:///"):
            _create_database(self.uri)
        self._client = MlflowClient(tracking_uri=self.uri)
        self._experiment = self._find_or_create(study, None if uri else paths.artifact_folder(output))

    def _find_or_create(self, study: str, artifacts: Path | None) -> str:
        found = self._client.get_experiment_by_name(study)
        if found is not None and found.lifecycle_stage != "active":
            self._client.restore_experiment(found.experiment_id)
        if found is not None:
            return found.experiment_id
        try:
            return self._client.create_experiment(study, artifact_location=artifacts and (artifacts / study).as_uri())
        except MlflowException:  # another process has created it
            found = self._client.get_experiment_by_name(study)
            if found is None:
                raise
            return found.experiment_id

    def open(self, record: dict[str, Any]) -> str:
        """Run id of this attempt, created with its tags and parameters unless it exists; sets its state to RUNNING."""
        run_id = self.find(record["attempt"])
        if run_id is not None:
            self._set_tags(run_id, record["tags"] | {"process": _this_process(), "status": "running"})
            self._client.update_run(run_id, "RUNNING")
        else:
            tags = {**record["tags"], "attempt": record["attempt"], "process": _this_process(), "status": "running"}
            tags |= self._pretraining_run(record)
            run = self._client.create_run(self._experiment, record["started"], tags, record["name"])
            run_id = run.info.run_id
            parameters = [Param(key, str(value)) for key, value in record["parameters"].items()]
            for start in range(0, len(parameters), 100):
                self._client.log_batch(run_id, params=parameters[start : start + 100])
        return run_id

    def log(self, run_id: str, entries: list[dict[str, Any]]) -> None:
        """Adds points of curves, as the run's log has them."""
        points = [Metric(e["key"], e["value"], e["time"], e["step"]) for e in entries if "key" in e]
        for start in range(0, len(points), BATCH):
            self._client.log_batch(run_id, metrics=points[start : start + BATCH])

    def close(self, run_id: str, folder: Path, status: str) -> None:
        """Adds results and files of the run's folder and ends it."""
        result = self._add_result(run_id, folder)
        record = folder / "run.json"
        parameters = json.loads(record.read_text())["parameters"] if record.exists() else {}
        warning = plateau.warning(result["metrics"], parameters)
        self._set_tags(run_id, {"status": status} | ({tags.WARNING: warning} if warning else {}))
        self._client.set_terminated(run_id, END_STATES[status], result["time"])

    def add(self, record: dict[str, Any], folder: Path, entries: list[dict[str, Any]]) -> None:
        """Adds what a finished run got later: points of curves, results, files, then tags. A run that MLflow lacks stays so."""
        run_id = self.find(record["attempt"])
        if run_id is not None:
            self.log(run_id, entries)
            self._add_result(run_id, folder)
            self._set_tags(run_id, record["tags"])

    def _add_result(self, run_id: str, folder: Path) -> dict[str, Any]:
        result = run_log.result(folder) or {"metrics": {}, "time": run_log.now_ms()}
        last = result.get("steps", {})  # steps of values that end a curve
        points = [Metric(key, value, result["time"], last.get(key, 0)) for key, value in result["metrics"].items()]
        environment = folder / "environment.json"
        facts = json.loads(environment.read_text()) if environment.exists() else {}
        self._client.log_batch(run_id, metrics=points)
        self._set_tags(run_id, {f"environment.{key}": value for key, value in facts.items()})  # a parameter could not change
        for path in run_log.artifacts(folder):
            below = path.parent.relative_to(folder)
            self._client.log_artifact(run_id, str(path), None if below == Path() else str(below))
        return result

    def _set_tags(self, run_id: str, tags: dict[str, str]) -> None:
        self._client.log_batch(run_id, tags=[RunTag(key, str(value)) for key, value in tags.items()])

    def reap(self) -> int:
        """Ends runs of this study whose process on this machine no longer exists; returns how many."""
        ended = 0
        running = self._client.search_runs([self._experiment], "attributes.status = 'RUNNING' and tags.process LIKE '%'")
        for run in running:
            if _is_gone(run.data.tags["process"]):
                self._client.set_tag(run.info.run_id, "status", "killed")
                self._client.set_terminated(run.info.run_id, "KILLED")
                ended += 1
        return ended

    def _pretraining_run(self, record: dict[str, Any]) -> dict[str, str]:
        """Tag with the id of the run that pretrained the weights, in any study."""
        folder = record.get("inputs", {}).get("pretrained")
        path = Path(folder) / "run.json" if folder else None
        if path is None or not path.exists():
            return {}
        attempt = json.loads(path.read_text())["attempt"]
        experiments = [experiment.experiment_id for experiment in self._client.search_experiments()]
        found = self._client.search_runs(experiments, f"tags.attempt = '{attempt}'", max_results=1)
        return {"pretraining_run": found[0].info.run_id} if found else {}

    def find(self, attempt: str) -> str | None:
        """Run id of an attempt, None where the study has none."""
        found = self._client.search_runs([self._experiment], f"tags.attempt = '{attempt}'", max_results=1)
        return found[0].info.run_id if found else None


def attempt_of(run_id: str, uri: str | None, output: str) -> str | None:
    """The attempt behind a tracked run; MlflowException when there is no such run or MLflow is unreachable."""
    uri = uri or paths.database_uri(output)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise MlflowException(f"there is no tracking store {uri}")
    return MlflowClient(tracking_uri=uri).get_run(run_id).data.tags.get("attempt")


def finished_runs(uri: str | None, output: str) -> list[run_log.FinishedRun]:
    """All finished runs of all studies, oldest first; none where there is no store. MlflowException when it is unreachable."""
    uri = uri or paths.database_uri(output)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        return []
    client, found, token = MlflowClient(tracking_uri=uri), [], None
    studies = [study.experiment_id for study in client.search_experiments()]
    while True:
        page = client.search_runs(studies, "tags.status = 'finished'", order_by=["attributes.start_time ASC"], page_token=token)
        found += [run_log.FinishedRun(dict(run.data.tags), dict(run.data.params), dict(run.data.metrics)) for run in page]
        token = page.token
        if not token:
            return found


def _create_database(uri: str) -> None:
    """Creates the schema once, under a lock: processes that open a new database at the same time would break it."""
    path = Path(uri.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
            with sqlite3.connect(path) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            connection.close()


def _this_process() -> str:
    """Host, process id and its start time: process ids are reused, start times are not."""
    process = psutil.Process()
    return f"{os.uname().nodename}:{process.pid}:{process.create_time():.0f}"


def _is_gone(process: str) -> bool:
    host, pid, started = process.rsplit(":", 2)
    if host != os.uname().nodename:
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.0f}" != started
    except psutil.NoSuchProcess:
        return True
