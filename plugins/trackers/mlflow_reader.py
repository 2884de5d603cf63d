"""Any tracking store, read by MLflow's own client. Importing it takes a second, and opening a database another one."""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping

from harness import tags

os.environ.update(tags.CLIENT | os.environ)  # before MLflow is imported

from mlflow import MlflowClient
from mlflow.entities import Run as Tracked
from mlflow.exceptions import MlflowException

from harness.comparison.runs import Run
from harness.errors import InputError
from harness.redact import redacted
from harness.reports.reading.store import Reader, logged

logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # its warnings name addresses with their queries

PAGE = 250
"""Runs of one answer: a busy server takes seconds for more, and has ten."""


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """MLflow's own errors and a missing database driver, as one line."""
    try:
        yield
    except (MlflowException, ImportError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"the tracking store cannot be read: {redacted(first_line)}") from error


class MlflowReader(Reader):
    """Reads by MLflow; InputError where the store does not answer."""

    def __init__(self, uri: str) -> None:
        with _one_line_errors():
            self._client = MlflowClient(uri)

    @_one_line_errors()
    def studies(self) -> dict[str, str]:
        return {experiment.name: experiment.experiment_id for experiment in self._client.search_experiments()}

    @_one_line_errors()
    def runs(self, study: str) -> list[Run]:
        page = self._client.search_runs([study], max_results=PAGE)
        runs = [_plain(run) for run in page]
        while page.token:
            page = self._client.search_runs([study], max_results=PAGE, page_token=page.token)
            runs += [_plain(run) for run in page]
        return runs

    @_one_line_errors()
    def newest(self, studies: list[str], identity: Mapping[str, str]) -> tuple[str, Run] | None:
        for where in tags.filters(identity):
            for run in self._client.search_runs(studies, where, max_results=1, order_by=["attributes.start_time DESC"]):
                return run.info.experiment_id, _plain(run)
        return None

    @_one_line_errors()
    def history(self, run_id: str, key: str) -> list[tuple[int, float]]:
        points = self._client.get_metric_history(run_id, key)
        return [(point.step, point.value) for point in sorted(points, key=lambda point: (point.step, point.timestamp))]


def _plain(run: Tracked) -> Run:
    info, data = run.info, run.data
    return logged(info.run_id, info.run_name, info.start_time, (dict(data.tags), dict(data.params), data.metrics))
