"""MLflow's SQLite file, read without MLflow: the same runs and histories, 50 times as fast, and nothing heavy to import.

The file is only read. A file whose tables lack one of the columns that are read here is left to MLflow.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import tags
from harness.comparison.runs import Run
from harness.errors import InputError
from harness.reports.reading.store import Reader, logged

Values = dict[str, Any]

COLUMNS = {
    "experiments": {"experiment_id", "name", "lifecycle_stage"},
    "runs": {"run_uuid", "name", "start_time", "lifecycle_stage", "experiment_id"},
    "tags": {"key", "value", "run_uuid"},
    "params": {"key", "value", "run_uuid"},
    "metrics": {"key", "value", "timestamp", "run_uuid", "step", "is_nan"},
    "latest_metrics": {"key", "value", "run_uuid", "is_nan"},
}
"""Table of MLflow -> its columns that are read here."""

ACTIVE = "lifecycle_stage = 'active'"
IN_STUDY = f"experiment_id = ? and {ACTIVE}"
VALUE = "case when is_nan then null else value end"
NEWEST = "order by start_time is null, start_time desc, run_uuid limit 1"  # as MLflow orders runs
RUN_NAME = "mlflow.runName"
"""Tag with the name of a run that was given none."""


class SqliteReader(Reader):
    """Reads the file at this path; InputError where it is missing or no tracking store."""

    forkable = True

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(
                f"no tracking store at {str(path)!r}; expected the SQLite file that `python -m harness` writes, or tracking.uri"
            )
        self._path = path
        self.output = path.parent
        self._connections: dict[int, sqlite3.Connection] = {}
        with self._one_line_errors():
            columns = {
                table: {name for (name,) in self._database.execute("select name from pragma_table_info(?)", (table,))}
                for table in COLUMNS
            }
        self.is_known = all(names <= columns[table] for table, names in COLUMNS.items())
        """Whether the tables have all columns that are read here."""
        if not (columns["experiments"] and columns["runs"]):
            raise InputError(f"{str(path)!r} is not a tracking store; expected an MLflow SQLite file")

    @property
    def _database(self) -> sqlite3.Connection:
        """The connection of this process: SQLite allows none to be carried over a fork."""
        if os.getpid() not in self._connections:
            may_lock = os.access(self._path.parent, os.W_OK) or Path(f"{self._path}-wal").exists()  # in a file beside it
            how = "mode=ro" if may_lock else "immutable=1"
            self._connections[os.getpid()] = sqlite3.connect(f"file:{quote(str(self._path))}?{how}", uri=True)
        return self._connections[os.getpid()]

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"tracking store {str(self._path)!r} cannot be read ({error}); expected an MLflow SQLite file"
            ) from error

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._one_line_errors():
            return self._database.execute(query, values).fetchall()

    def studies(self) -> dict[str, str]:
        return {name: str(number) for name, number in self._rows(f"select name, experiment_id from experiments where {ACTIVE}")}

    def runs(self, study: str) -> list[Run]:
        return [logged(*run) for run in self.stored(IN_STUDY, study)]

    def stored(self, which: str, *values: object) -> list[tuple[str, str | None, int | None, tuple[Values, Values, Values]]]:
        """Id, name and start of runs, with tags, parameters and latest metrics as MLflow has them, None for NaN.

        `which` is a condition on the table `runs`.
        """
        found = self._rows(f"select run_uuid, name, start_time from runs where {which}", *values)
        of_runs: dict[str, tuple[Values, Values, Values]] = {run_id: ({}, {}, {}) for run_id, _, _ in found}
        same: Values = {}  # runs repeat their keys and most of their values: each is kept once
        for place, (table, value) in enumerate({"tags": "value", "params": "value", "latest_metrics": VALUE}.items()):
            query = f"select run_uuid, key, {value} from {table} where run_uuid in (select run_uuid from runs where {which})"
            with self._one_line_errors():
                for run_id, key, content in self._database.execute(query, values):  # row by row: there may be millions
                    if run_id in of_runs:  # a run may have begun since the first query
                        of_runs[run_id][place][same.setdefault(key, key)] = same.setdefault(content, content)
        return [(run_id, name or of_runs[run_id][0].get(RUN_NAME), at, of_runs[run_id]) for run_id, name, at in found]

    def newest(self, studies: list[str], identity: Mapping[str, str]) -> tuple[str, Run] | None:
        marks = ", ".join("?" * len(studies))
        tagged = " and run_uuid in (select run_uuid from tags where key in (?, ?) and value = ?)" * len(identity)
        values = [*studies, *(text for key, value in identity.items() for text in (key, tags.PREFIX + key, value))]
        query = f"select experiment_id, run_uuid from runs where experiment_id in ({marks}) and {ACTIVE}{tagged} {NEWEST}"
        for study, run_id in self._rows(query, *values):
            return str(study), logged(*self.stored("run_uuid = ?", run_id)[0])
        return None

    def history(self, run_id: str, key: str) -> list[tuple[int, float]]:
        query = f"select step, {VALUE} from metrics where run_uuid = ? and key = ? order by step, timestamp, value"
        return [(step, float("nan") if value is None else value) for step, value in self._rows(query, run_id, key)]
