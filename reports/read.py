"""What a report, a command or a notebook reads: the runs of one or several studies, with what their comparison needs."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.comparison import labels
from reports.comparison.compare import Comparison, compare
from reports.errors import ReportError
from reports.reading import store, where
from reports.reading.address import default_uri
from reports.reading.connect import connect
from reports.reading.store import Reader, Run


@dataclass(frozen=True)
class Found:
    """The runs, oldest first; among them A/A replicates, and pretrainings of other studies that they start from."""

    reader: Reader
    study: str
    runs: list[Run]


def open_store(uri: str | None) -> Reader:
    """A reader of the store, by default of that of `multirun`; ReportError where there is none."""
    return connect(uri or default_uri())


def read(uri: str | None, studies: Sequence[str] = (), condition: str | None = None) -> Found:
    """Runs of these studies, by default of the one with the newest run, that fit the condition (`reports.reading.where`).

    ReportError for an unknown study, one without runs, a wrong condition, or one that no run fits.
    """
    if condition is not None:
        where.parse(condition)  # a wrong one is refused before the store is read
    reader = open_store(uri)
    read_studies = [store.read_study(reader, name) for name in dict.fromkeys(studies)] or [store.read_study(reader, None)]
    runs = [run for _, found in read_studies for run in found]
    if condition is not None:
        runs = where.keep(runs, condition)
    runs = store.with_launches(reader, runs)
    everything = sorted([*runs, *store.follow(reader, runs)], key=lambda run: (run.started, run.run_id))
    return Found(reader, " + ".join(name for name, _ in read_studies), everything)


def compare_with_first(found: Found, baselines: Sequence[str], along: Iterable[str] = ()) -> Comparison:
    """With the first of the baselines that the study has, `base` without any; ReportError as of the last one."""
    keys = list(along)
    for name in baselines[:-1]:
        with contextlib.suppress(ReportError):
            return compare(found.study, found.runs, name, keys)
    return compare(found.study, found.runs, baselines[-1] if baselines else None, keys)


def compare_with_any(study: str, runs: list[Run], along: Iterable[str] = ()) -> Comparison | None:
    """The arms and which of their runs count, where no arm is the baseline by choice; None without a finished run."""
    finished = labels.with_newest_recipes([run for run in runs if run.status == "finished"])
    arms = [run for run in finished if not run.is_aa_replicate]
    if not arms:
        return None
    keys = list(along)
    names = labels.label_runs(finished, labels.along_keys(arms, keys))
    return compare(study, runs, names[arms[0].run_id], keys)
