"""From the MLflow tracking store to plain data; the only file of reports that knows MLflow.

The store is only read: a database file that does not exist is an error and is not created.
"""

import contextlib
import functools
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from harness import arms, metrics, tags
from reports.errors import ReportError, unknown
from reports.statistics import Replicate

if TYPE_CHECKING:
    from mlflow import MlflowClient

IDENTITY_TAGS = (tags.ARM, tags.MODEL, tags.SCALE, tags.TASK, tags.SEED, tags.CONDITIONS, tags.LIFTED)
MISSING_TAGS = "unknown (tags missing)"
PAGE = 1000

History = dict[str, dict[int, list[float]]]
"""Run id -> {step: values at that step, oldest first}, of one metric."""


@dataclass(frozen=True)
class Run:
    """One run of a study as it was logged; `started` in ms since 1970, metrics at their highest step."""

    run_id: str
    name: str
    started: int
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    elsewhere: str | None = None  # study that it belongs to, where that is another than the one reported on
    launches: dict[str, dict[int, float]] = field(default_factory=dict)  # metric -> round in its session -> value

    @property
    def task(self) -> str:
        return self.tags[tags.TASK]

    @property
    def is_pretraining(self) -> bool:
        return self.tags.get(tags.TASK) == tags.PRETRAINING_TASK

    @property
    def session(self) -> str | None:
        """The series of launches in which it was timed."""
        return self.tags.get(tags.SESSION) or None

    @property
    def is_aa_replicate(self) -> bool:
        """Whether it is only a second timing of an arm in its session."""
        return self.tags.get(tags.REPLICATE) == "true"

    @property
    def origin(self) -> str | None:
        """Fingerprint of the pretraining that it starts from."""
        return self.tags.get(tags.PRETRAINING) or None

    @property
    def status(self) -> str:
        """running, finished, failed or diverged; `unknown (tags missing)` for a run without its identity."""
        missing = [tag for tag in IDENTITY_TAGS if tag not in self.tags and not (self.is_aa_replicate and tag == tags.SEED)]
        if missing or self.lifted is None:
            return MISSING_TAGS
        return self.tags.get(tags.STATUS, MISSING_TAGS)

    @property
    def replicate(self) -> Replicate:
        """Both of its seeds, which for a pretraining are the same."""
        seed = self.tags.get(tags.SEED, "")
        return Replicate(self.tags.get(tags.PRETRAIN_SEED, seed if self.is_pretraining else ""), seed)

    @property
    def lifted(self) -> list[str] | None:
        """Keys that vary between the arms of the command that ran it; None where the tag cannot be read."""
        try:
            keys = json.loads(self.tags.get(tags.LIFTED, ""))
        except json.JSONDecodeError:
            return None
        return keys if isinstance(keys, list) and all(isinstance(key, str) for key in keys) else None

    @functools.cached_property
    def facts(self) -> arms.Facts:
        """The settings that shape its results, seeds left out."""
        return arms.facts(self.params)


def _require_database(uri: str) -> None:
    path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    if not path.is_file():
        raise ReportError(
            f"no tracking store at {str(path)!r}; expected the SQLite file that `python -m harness` writes, or --uri"
        )
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    except sqlite3.DatabaseError as error:
        raise ReportError(f"tracking store {str(path)!r} cannot be read ({error}); expected an MLflow SQLite file") from error
    if not {"experiments", "runs"} <= tables:
        raise ReportError(f"{str(path)!r} is not a tracking store; expected an MLflow SQLite file")


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """MLflow's own errors and a missing database driver, as one line."""
    from mlflow.exceptions import MlflowException  # a second of start-up, which comparing runs in memory does not need

    try:
        yield
    except (MlflowException, ImportError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ReportError(f"the tracking store does not answer: {first_line}") from error


def connect(uri: str) -> "MlflowClient":
    """A client of the store at `uri`; ReportError where there is none."""
    if "://" not in uri:
        raise ReportError(
            f"--uri {uri!r} has no scheme; expected an address such as sqlite:///multirun/mlflow.db or http://host:5000"
        )
    if uri.startswith("sqlite:"):
        _require_database(uri)
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from mlflow import MlflowClient  # after the environment, which it reads at import

    with _one_line_errors():
        return MlflowClient(uri)


def read_study(client: "MlflowClient", name: str | None) -> tuple[str, list[Run]]:
    """The study's name and its runs, oldest first; without a name, the study with the newest run."""
    with _one_line_errors():
        experiments = {experiment.name: experiment.experiment_id for experiment in client.search_experiments()}
        name = _newest_study(client, experiments) if name is None else name
        if name not in experiments:
            raise unknown("study", name, sorted(experiments))
        runs = [_plain(run) for run in _pages(client, experiments[name])]
    if not runs:
        raise ReportError(f"study {name!r} has no runs; choices: {', '.join(sorted(experiments))}")
    return name, sorted(runs, key=lambda run: (run.started, run.run_id))


def follow(client: "MlflowClient", runs: list[Run]) -> list[Run]:
    """Pretrainings that the finished runs start from and that ran in other studies: the newest of each fingerprint, once."""
    finished = [run for run in runs if run.status == "finished"]
    here = {run.tags.get(tags.FINGERPRINT) for run in finished if run.is_pretraining}
    origins = dict.fromkeys(run.origin for run in finished if run.origin and run.origin not in here)
    with _one_line_errors():
        studies = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()} if origins else {}
        found = [run for fingerprint in origins for run in _newest_pretraining(client, list(studies), fingerprint)]
    return [replace(_plain(run), elsewhere=studies[run.info.experiment_id]) for run in found]


def _newest_pretraining(client: "MlflowClient", experiments: list[str], fingerprint: str) -> list[object]:
    identity = {tags.FINGERPRINT: fingerprint, tags.TASK: tags.PRETRAINING_TASK, tags.STATUS: "finished"}
    where = " and ".join(f"tags.{tag} = '{value}'" for tag, value in identity.items())
    return list(client.search_runs(experiments, where, max_results=1, order_by=["attributes.start_time DESC"]))


def _newest_study(client: "MlflowClient", experiments: dict[str, str]) -> str:
    newest = client.search_runs(list(experiments.values()), max_results=1, order_by=["attributes.start_time DESC"])
    if not newest:
        raise ReportError(f"the tracking store has no runs in any study ({', '.join(sorted(experiments)) or 'none'})")
    return {number: name for name, number in experiments.items()}[newest[0].info.experiment_id]


def _pages(client: "MlflowClient", experiment_id: str) -> Iterator[object]:
    token = None
    while True:
        page = client.search_runs([experiment_id], max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _plain(run: object) -> Run:
    values = {key: value for key, value in run.data.metrics.items() if key in metrics.METRICS and math.isfinite(value)}
    info = run.info
    return Run(
        info.run_id, info.run_name or info.run_id, info.start_time or 0, dict(run.data.tags), dict(run.data.params), values
    )


def read_history(client: "MlflowClient", runs: Iterable[Run], key: str) -> History:
    """All values of the metric `key`, of the runs that logged it."""
    with _one_line_errors():
        histories = {run.run_id: client.get_metric_history(run.run_id, key) for run in runs if key in run.metrics}
    found: History = {run_id: {} for run_id in histories}
    for run_id, history in histories.items():
        for point in sorted(history, key=lambda point: (point.step, point.timestamp)):
            found[run_id].setdefault(point.step, []).append(point.value)
    return found


def latest(history: History) -> dict[str, dict[int, float]]:
    """Run id -> {step: its last value}."""
    return {run_id: {step: values[-1] for step, values in steps.items()} for run_id, steps in history.items()}


def with_launches(client: "MlflowClient", runs: list[Run]) -> list[Run]:
    """The same runs, the finished ones of a session with what each of its launches measured."""
    timed = [run for run in runs if run.session is not None and run.status == "finished"]
    keys = [key for key in metrics.METRICS if key.startswith(metrics.LAUNCHES)]
    curves = {key: latest(read_history(client, timed, key)) for key in keys}
    launches = {
        run.run_id: {key: of_runs[run.run_id] for key, of_runs in curves.items() if run.run_id in of_runs} for run in timed
    }
    return [replace(run, launches=launches.get(run.run_id, {})) for run in runs]
