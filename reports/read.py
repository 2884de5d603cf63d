"""What a report, a command or a notebook reads: the runs of one or several studies, with what their comparison needs."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from harness import extensions
from harness.comparison.compare import Comparison, compare
from harness.comparison.runs import Run, oldest_first
from harness.errors import InputError
from harness.redact import refuse_credentials
from harness.reports.reading import default_uri, store, where
from harness.reports.reading.folders import planned_pretrainings
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.sqlite_reader import SqliteReader
from harness.reports.reading.store import Folders, Output, Reader

GROUP, SERVERS = "harness.stores", "harness.readers"


def connect(uri: str | None) -> Reader:
    """A reader of the store, by default of that of `multirun`; InputError where there is none. No file is created."""
    uri = uri or default_uri()
    refuse_credentials(uri)
    if "://" not in uri:
        for point in extensions.declared(GROUP).values():
            if folder := extensions.load(point, Folders).read(Path(uri)):
                return folder
        raise InputError(
            f"tracking.uri={uri!r}: expected an address such as sqlite:///multirun/mlflow.db or http://host:5000, or a folder "
            "with an archive or with results of another tool"
        )
    try:
        _ = urlsplit(uri).port
    except ValueError as error:
        raise InputError(f"tracking.uri={uri!r} is not an address ({error}): expected one such as http://host:5000") from error
    if uri.startswith("sqlite:"):
        reader = SqliteReader(Path(uri.removeprefix("sqlite:///").partition("?")[0]))
        if reader.is_known:
            return reader
    reader_of: Callable[[str], Reader] = extensions.find(SERVERS, "mlflow", type, "tracking.uri")
    return reader_of(uri)


@dataclass(frozen=True)
class StudyRuns:
    """The runs, oldest first; among them A/A replicates, and pretrainings of other studies that they start from."""

    reader: Reader
    study: str
    runs: list[Run]
    trials: Sequence[Run] = ()  # that selected their settings on the rows that they report

    def compared(self, baselines: Sequence[str | None], along: Iterable[str] = ()) -> Comparison:
        """As `compare_with_first`."""
        return compare_with_first(self.study, self.runs, self.reader.output, baselines, along)


def read(store_or_uri: Reader | str | None, studies: Sequence[str] = (), condition: str | None = None) -> StudyRuns:
    """Runs of these studies that fit the condition (`reading.where`), by default of the newest that has finished ones.

    InputError for an unknown study, one without runs, a wrong condition, or one that no run fits.
    """
    if condition is not None:
        where.parse(condition)  # a wrong one is refused before the store is read
    reader = store_or_uri if isinstance(store_or_uri, Reader) else connect(store_or_uri)
    with reader.guarded():
        names = list(dict.fromkeys(studies))
        if not names:
            name, passed_over = store.newest_study(reader)
            names = [name]
            if newer := ", ".join(f"{other!r} ({states})" for other, states in passed_over.items()):
                print(f"study {name!r}; newer ones without a finished run: {newer}", file=sys.stderr)
        planned = {name: planned_pretrainings(name, reader.output) for name in names}
        runs = [run for name in names for run in store.read_study(reader, name, planned[name])]
        if condition is not None:
            runs = where.keep(runs, condition)
        runs = store.with_launches(reader, runs)
        every = oldest_first([*runs, *store.follow(reader, runs)])
        return StudyRuns(reader, " + ".join(names), every, store.trials(reader, runs))


def compare_with_first(
    study: str, runs: list[Run], output: Output, baselines: Sequence[str | None], along: Iterable[str] = ()
) -> Comparison:
    """Compares with the first of these baselines that the study has, by default `base`; InputError if it has none."""
    keys = list(along)
    for name in baselines[:-1]:
        with contextlib.suppress(InputError):
            return compare(study, runs, name, keys, errors_in(output))
    return compare(study, runs, baselines[-1] if baselines else None, keys, errors_in(output))
