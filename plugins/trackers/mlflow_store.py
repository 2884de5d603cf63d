"""Runs in MLflow: each is one flat run, with the numbers of its log. The only module here that tracks with mlflow.

Everything goes through an explicit client with explicit run ids and end states. Sending a run twice changes nothing, so it can
be sent again from its folder at any time. A second timing of the baseline is a child of the study's run: out of the way of
charts, which show what is not folded.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import document, paths, records, tags
from harness.errors import InputError, present

os.environ.update(tags.CLIENT | os.environ)  # before MLflow is imported

import msgspec
import psutil
from filelock import FileLock
from mlflow import MlflowClient as MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException as MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from harness.plugins.trackers import pages, sqlite_store
from harness.tracking import run_log
from harness.tracking.run_log import Entry, Record, Result, State
from harness.tracking.trackers import Backend

END_STATES = dict.fromkeys(State, "FAILED") | {State.finished: "FINISHED", State.killed: "KILLED"}
"""Status of a run -> its state in MLflow."""

NOTE, PARENT = "mlflow.note.content", "mlflow.parentRunId"
"""Tags of MLflow: the description of a run or study, and the run that a run belongs to."""

logging.getLogger("mlflow.store.db").setLevel(logging.CRITICAL)  # tables, migrations, tracebacks of what it raises as well
logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)  # it says that it validates the example
logging.getLogger("mlflow.system_metrics").setLevel(logging.WARNING)  # four lines a run
logging.getLogger("alembic").setLevel(logging.WARNING)
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # its warnings name addresses with their queries

SAME = (tags.STATUS, tags.SESSION, tags.SEED_LOOKS)
"""Tags, set last, by which a run here agrees with its folder."""

VIEWED = 500
"""Runs by which the columns of the study's table are chosen."""

DUPLICATE_KEY_ERRORS = ("IntegrityError", "UniqueViolation")
"""What databases say of a row that is there already, as MLflow passes it on."""

MONITOR: Any = SystemMetricsMonitor
"""Without types."""

BATCH, MOST_PARAMS = 1000, 100
"""Metrics, and parameters, of one call at most."""


class Tracker(Backend):
    """A study in the tracking store; MlflowException from any call when MLflow is unreachable."""

    def __init__(self, uri: str | None, output: str, study: str) -> None:
        self.uri = uri or paths.database_uri(output)
        self._ids: dict[str, str] = {}  # attempt -> run id
        self._monitors: dict[str, Any] = {}  # run id -> what samples the machine while it runs
        self._stored: dict[str, dict[str, int]] = {}  # id of a run that was there before -> last step of its curves, read once
        self.study, self._output = study, output
        _create_database(self.uri)
        if not uri:
            sqlite_store.follow_the_folder(self.uri, paths.artifact_folder(output))
        self._client = MlflowClient(tracking_uri=self.uri)
        is_server = self.uri.startswith("http")  # which keeps files itself; for a database MLflow would take ./mlruns
        self.experiment = self._find_or_create(study, None if is_server else paths.artifact_folder(output))
        # on the tracking server, or on a UI that is started for the file
        self.table = pages.table_address(self.experiment, self.uri.rstrip("/") if is_server else pages.ADDRESS)
        self._study_run: str | None = None
        self._states: dict[str, tuple[str | None, ...]] | None = None  # attempt -> state and tags SAME, read once

    def _find_or_create(self, study: str, artifacts: Path | None) -> str:
        experiment = self._client.get_experiment_by_name(study)
        if experiment is None:
            try:
                place = paths.named(artifacts, study).as_uri() if artifacts else None
                return self._client.create_experiment(study, artifact_location=place)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process has created it
                    raise
            experiment = present(self._client.get_experiment_by_name(study))
        if experiment.lifecycle_stage != "active":
            self._client.restore_experiment(experiment.experiment_id)
        return experiment.experiment_id

    def begin(self, record: Record, folder: Path | None = None) -> str:
        """Run id of this attempt, created with its tags and parameters unless it exists; sets its state to RUNNING.

        Another process that adds the run of the folder, too, is waited for.
        """
        role = tags.ROLE_REPLICATE if record["tags"].get(tags.REPLICATE) == "true" else tags.ROLE_RUN
        run_tags = {tags.ROLE: role, **record["tags"], "process": this_process(), "status": "running"}
        run_tags |= tags.packed(tags.PARAMETERS, record["parameters"])
        with adding(folder):  # commands that share a sweep all send what a killed one has left
            run_id = self.find(record["attempt"])
            if run_id is None:
                run_tags |= {"attempt": record["attempt"]}
                run_tags |= {PARENT: self.study_run()} if role == tags.ROLE_REPLICATE else {}
                run = self._client.create_run(self.experiment, record["started"], tags.in_store(run_tags), record["name"])
        if run_id is not None:
            self._stored[run_id] = {}
            self._set_tags(run_id, run_tags | {tags.REASON: ""})
            self._client.update_run(run_id, "RUNNING")
        else:
            run_id = run.info.run_id
            params = [Param(key, value) for key, value in pages.parameters(record).items()]
            for start in range(0, len(params), MOST_PARAMS):
                self._client.log_batch(run_id, params=params[start : start + MOST_PARAMS])
        self._ids[record["attempt"]] = run_id
        is_asked = record["parameters"].get("tracking.system_metrics") == "True"
        if is_asked and folder and run_log.result(folder) is None and run_id not in self._monitors:
            self._monitors[run_id] = MONITOR(run_id, resume_logging=True, tracking_uri=self.uri)
            self._monitors[run_id].start()
        return run_id

    def add(self, record: Record, folder: Path, entries: list[Entry]) -> None:
        """Adds what a finished run got later: points of curves, results, files, then tags. A run that MLflow lacks stays so."""
        run_id = self.find(record["attempt"])
        if run_id is not None:
            self._ids[record["attempt"]] = run_id
            self.curves(record, entries)
            self._add_result(run_id, folder, "finished")
            self._set_tags(run_id, record["tags"])

    def curves(self, record: Record, entries: list[Entry]) -> None:
        run_id = self._ids[record["attempt"]]
        points = [Metric(e["key"], e["value"], e["time"], e["step"]) for e in entries if "key" in e and self._lacks(run_id, e)]
        for start in range(0, len(points), BATCH):
            self._client.log_batch(run_id, metrics=points[start : start + BATCH])

    def _lacks(self, run_id: str, entry: Entry) -> bool:
        """Whether the store lacks this point: a worker that was killed may have sent it, at another time than the next one."""
        if run_id not in self._stored or "tokens" not in entry:  # a sample, of which one step has several
            return True
        stored, key = self._stored[run_id], entry["key"]
        if key not in stored:
            stored[key] = max((point.step for point in self._client.get_metric_history(run_id, key)), default=-1)
        return entry["step"] > stored[key]

    def end(self, record: Record, folder: Path, status: str) -> None:
        run_id = self._ids[record["attempt"]]
        if run_id in self._monitors:
            self._monitors.pop(run_id).finish()
        result = self._add_result(run_id, folder, status)
        self._set_tags(run_id, {"status": status})
        self._client.set_terminated(run_id, END_STATES[State(status)], result["time"])

    def sync_if_stale(self, record: Record, folder: Path) -> bool:
        """Sends a run again whose result in its folder is another than its state here; whether it was."""
        if self._states is None:
            runs = every_run(self._client, [self.experiment])
            known = [(run.info.status, tags.plain(run.data.tags)) for run in runs]
            self._states = {of_run.get(tags.ATTEMPT, ""): (state, *map(of_run.get, SAME)) for state, of_run in known}
        result = run_log.result(folder)
        if result is None:
            return False
        expected = record["tags"] | {tags.STATUS: result["status"]}
        if self._states.get(record["attempt"]) == (END_STATES[result["status"]], *map(expected.get, SAME)):
            return False
        self.send(record, folder)
        return True

    def _add_result(self, run_id: str, folder: Path, status: str) -> Result:
        result = run_log.result(folder) or {
            "status": State(status),
            "metrics": {},
            "time": run_log.now_ms(),
        }
        last = result.get("steps", {})  # steps of values that end a curve
        record = run_log.record(folder)
        main, details = pages.main_and_details(result["metrics"], last, record["tags"].get(tags.TASK, "") if record else "")
        stored = self._client.get_run(run_id).data.metrics  # the result that ends a curve is its last point
        points = [
            Metric(key, value, result["time"], last.get(key, 0)) for key, value in main.items() if stored.get(key) != value
        ]
        self._client.log_batch(run_id, metrics=points)
        environment = {
            f"environment.{key}": str(value)
            for key, value in records.read_or(folder / "environment.json", dict[str, Any], {}).items()
        }
        run_tags = tags.packed(tags.METRICS, details)  # a parameter could not change
        run_tags |= tags.packed(tags.ENVIRONMENT, environment) if environment else {}
        if record:
            end = record.get(tags.END, {})
            report = self._study_run and pages.files_page(self.experiment, self._study_run)
            stated = {
                tags.WARNING: run_log.said_of(result),
                tags.NOTES: ", ".join(note["kind"] for note in result.get("notes", [])),
                tags.RETRIES: len(record.get(tags.RETRIES, ())),
                tags.REASON: end.get("reason"),
                tags.PIECES: ", ".join(f"{phase} {count}" for phase, count in record.get(tags.PIECES, {}).items()),
            }
            run_tags |= {key: str(value) for key, value in stated.items() if value}
            run_tags[NOTE] = pages.of_folder(folder, record, status, report)
        self._set_tags(run_id, run_tags)
        for path in run_log.artifacts(folder):
            below = path.parent.relative_to(folder)
            self._client.log_artifact(run_id, str(path), None if below == Path() else str(below))
        return result

    def _set_tags(self, run_id: str, values: dict[str, Any]) -> None:
        stored = [RunTag(key, str(value)) for key, value in tags.in_store(values).items()]
        _again(lambda: self._client.log_batch(run_id, tags=stored))

    def _set_of_study(self, key: str, value: str) -> None:
        _again(lambda: self._client.set_experiment_tag(self.experiment, key, value))

    def study_run(self) -> str:
        """Id of the one run that holds the study's plan and report, created where there is none.

        If several commands begin at once, the first creates it and the others wait. Machines without a common folder may each
        create one: the oldest counts.
        """
        if self._study_run is None:
            with adding(Path(self._output)):
                begun = next(tagged(self._client, [self.experiment], {tags.ROLE: tags.ROLE_STUDY}, 1), None)
                run_tags = {tags.ROLE: tags.ROLE_STUDY, tags.STUDY: self.study, "process": this_process()}
                create = (self.experiment, run_log.now_ms(), tags.in_store(run_tags), f"study {self.study}")
                self._study_run = (begun or self._client.create_run(*create)).info.run_id
        return self._study_run

    def open_study(self, plan: Sequence[dict[str, str]], source: dict[str, str]) -> None:
        """Begins the study's run, with the plan as a file."""
        run_id = self.study_run()
        note = pages.of_study(self.study, plan, source.get(tags.COMMAND, ""))
        self._set_tags(run_id, {**source, "process": this_process(), "status": "running", NOTE: note})
        self._client.update_run(run_id, "RUNNING")
        self._client.log_text(run_id, pages.plan_table(plan), "plan.md")
        self._set_of_study(NOTE, note)
        self._save_view()  # without it the printed address opens the page for language-model apps

    def close_study(self, plan: Sequence[dict[str, str]], source: dict[str, str], status: str, report: Path | None) -> None:
        """Ends the study's run with the files of its report, and saves the view of the study's table."""
        run_id = self.study_run()
        files = _files(report) if report else {}
        for path in files.values():  # not the folder, where another command may be writing
            self._client.log_artifact(run_id, str(path), pages.REPORT_FOLDER)
        written = files.get(document.FILE)
        report_read = msgspec.json.decode(written.read_bytes(), type=document.Document) if written else None
        link = pages.files_page(self.experiment, run_id, f"/{pages.REPORT_FOLDER}/report.html")
        command = source.get(tags.COMMAND) or tags.plain(self._client.get_run(run_id).data.tags).get(tags.COMMAND, "")
        note = pages.of_study(self.study, plan, command, link, report_read)
        self._set_tags(run_id, {"status": status, NOTE: note})
        self._set_of_study(NOTE, note)
        self._save_view()
        self._client.set_terminated(run_id, END_STATES[State(status)])

    def _save_view(self) -> None:
        runs = [*tagged(self._client, [self.experiment], {tags.ROLE: tags.ROLE_RUN})]
        params = [run.data.params for run in runs]
        varied = [key for key in dict.fromkeys(key for of in params for key in of) if len({of.get(key) for of in params}) > 1]
        measured = {key for run in runs for key in run.data.metrics} or {*pages.MAIN}
        view = pages.view(measured, varied, run_log.now_ms())
        self._set_of_study(pages.VIEW_TAG, view)

    def reap(self) -> int:
        """Ends runs of this study whose process on this machine no longer exists; returns how many.

        One that has a result in its folder is sent from there.
        """
        running = every_run(self._client, [self.experiment], "attributes.status = 'RUNNING'")
        known = [(run.info.run_id, tags.plain(run.data.tags)) for run in running]
        gone = [(run_id, of_run) for run_id, of_run in known if is_gone(of_run.get("process"))]
        here = run_log.all_records(self._output) if gone else {}
        folders = {record.get("attempt", ""): folder for folder, record in here.items()}
        for run_id, of_run in gone:
            folder = folders.get(of_run.get(tags.ATTEMPT, ""))
            if folder is not None and run_log.result(folder) is not None:
                self.send(here[folder], folder)
                continue
            self._set_tags(run_id, {tags.STATUS: State.killed})
            self._client.set_terminated(run_id, "KILLED")
        return len(gone)

    @classmethod
    def attempt_of(cls, run: str, uri: str | None, output: str) -> str | None:
        """The run with this id."""
        try:
            client = client_of(uri, output)
            if client is None:
                raise InputError(f"there is no tracking store {uri or paths.database_uri(output)}")
            attempt = tags.plain(client.get_run(run).data.tags).get(tags.ATTEMPT)
        except (MlflowException, ImportError) as error:  # the latter for the driver of a database
            raise InputError(str(error).splitlines()[0]) from error
        return attempt

    def find(self, attempt: str) -> str | None:
        """Run id of an attempt, None where the study has none."""
        run = run_of(attempt, self._client, [self.experiment])
        return run.info.run_id if run else None


def studies(client: MlflowClient) -> list[str]:
    """Ids of all of them."""
    return [study.experiment_id for study in client.search_experiments()]


def run_of(attempt: str, client: MlflowClient, studies: list[str]) -> Run | None:
    """The tracked run of an attempt in these studies, if there is one."""
    return next(tagged(client, studies, {tags.ATTEMPT: attempt}, 1), None) if studies else None


def client_of(uri: str | None, output: str) -> MlflowClient | None:
    """The client of the store, where there is one."""
    uri = uri or paths.database_uri(output)
    return MlflowClient(tracking_uri=uri) if sqlite_store.exists(uri) else None


def tagged(client: MlflowClient, studies: list[str], wanted: Mapping[str, str], most: int = VIEWED) -> Iterator[Run]:
    """Runs with these values of tags, the oldest first: up to `most`, then up to `most` whose tags have bare names."""
    for where in tags.filters(wanted):
        yield from client.search_runs(studies, where, max_results=most, order_by=["attributes.start_time ASC"])


def every_run(client: MlflowClient, studies: list[str], condition: str = "") -> list[Run]:
    """The runs of all pages of a search, the oldest first."""
    runs: list[Run] = []
    token = None
    while True:
        page = client.search_runs(studies, condition, order_by=["attributes.start_time ASC"], page_token=token)
        runs, token = [*runs, *page], page.token
        if not token:
            return runs


def _files(report: Path) -> dict[str, Path]:
    """Name -> file of a report; links, and what is half-written, are left out."""
    if report.is_symlink() or report.parent.is_symlink():
        return {}
    files = (path for path in sorted(report.iterdir()) if path.is_file() and not path.is_symlink())
    return {path.name: path for path in files if not path.name.startswith(".")}


def _again(call: Callable[[], object]) -> None:
    """Calls it once more where another process has set the same new tag in the same moment, which MLflow refuses."""
    try:
        call()
    except MlflowException as error:
        if not any(name in str(error) for name in DUPLICATE_KEY_ERRORS):
            raise
        call()


def _create_database(uri: str) -> None:
    """Makes a SQLite store where there is none, without the study `Default` that MLflow adds to it."""

    def make(address: str) -> None:
        client = MlflowClient(tracking_uri=address)
        for experiment in client.search_experiments():
            client.delete_experiment(experiment.experiment_id)

    sqlite_store.ready(uri, make)


@contextlib.contextmanager
def adding(folder: Path | None) -> Iterator[None]:
    """No other process adds the run of this folder meanwhile. One that cannot be written to has none that do."""
    with contextlib.ExitStack() as stack:
        if folder is not None:
            with contextlib.suppress(OSError):
                stack.enter_context(FileLock(folder / paths.TRACKING_LOCK))
        yield


def this_process() -> str:
    """Host, process id and its start time: process ids are reused, start times are not."""
    process = psutil.Process()
    return f"{os.uname().nodename}:{process.pid}:{process.create_time():.0f}"


def is_gone(process: str | None) -> bool:
    """Whether a process of this machine, named like that, no longer exists; False where it is not known."""
    if process is None:
        return False
    host, pid, started = process.rsplit(":", 2)
    if host != os.uname().nodename:
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.0f}" != started
    except psutil.NoSuchProcess:
        return True
