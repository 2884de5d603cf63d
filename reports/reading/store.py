"""From the tracking store to plain data. The store is only read."""

import abc
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow

from harness import metrics, paths, tags
from harness.comparison.items import Errors
from harness.comparison.runs import History, Run, by_step, oldest_first, states_text
from harness.errors import InputError, on_one_line, unknown


@dataclass(frozen=True)
class Packed:
    """What an archive, or results of other tools, have in place of the folders of runs; it is in memory alone."""

    predictions: Mapping[str, pyarrow.Table] = field(default_factory=dict)  # by the id of the run
    texts: Mapping[str, pyarrow.Table] = field(default_factory=dict)  # tokens and texts of the items, by the id of the run
    not_run: list[str] = field(default_factory=list)
    audit: bytes | None = None
    errors: Mapping[str, Errors] = field(default_factory=dict)  # of single items, in place of predictions, by the id of the run
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # sentences that open the report, by study


Output = Path | Packed | None
"""Where the files of runs are: below a folder, in an archive, or not known."""


class Reader(abc.ABC):
    """Reads a tracking store; InputError from any call where the store does not answer. Deleted runs are left out."""

    output: Output = None
    forkable = False  # whether a forked process may go on reading with it

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """A block that reads the runs and computes with them; InputError where data of others lead to an error in it."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def studies(self) -> dict[str, str]:
        """Name -> number of every study."""

    @abc.abstractmethod
    def runs(self, study: str) -> list[Run]:
        """All runs of the study of this number, in any order."""

    @abc.abstractmethod
    def newest(self, studies: list[str], identity: Mapping[str, str]) -> tuple[str, Run] | None:
        """The newest run of these studies that has all of these tags, and its study's number; None without any."""

    @abc.abstractmethod
    def history(self, run_id: str, key: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, by step, and the oldest of a step first."""


@dataclass(frozen=True)
class Folders:
    """Folders of a kind that can be read in place of a tracking store."""

    read: Callable[[Path], Reader | None]  # None for a folder of another kind; InputError for what cannot be read of this one


def logged(
    run_id: str, name: str | None, started: int | None, known: tuple[dict[str, str], dict[str, str], Mapping[str, float | None]]
) -> Run:
    """A run as the store has it; `known` are its tags, parameters and latest metrics. Packed ones are unpacked."""
    stored, few, main = known
    packed = tags.plain(stored)
    params, values = {**tags.unpacked(tags.PARAMETERS, packed), **few}, {**tags.unpacked(tags.METRICS, packed), **main}
    of_run = tags.without_packed(packed)
    environment = {key: value for key, value in of_run.items() if key.startswith("environment.")}
    of_run = {key: value if key.startswith("mlflow.") else on_one_line(value) for key, value in of_run.items()}
    params = {key: on_one_line(str(value)) for key, value in (params | environment).items()}
    return Run(run_id, on_one_line(name or run_id), started or 0, of_run, params, declared(values))


def declared(values: Mapping[str, float | None]) -> dict[str, float]:
    """The finite values of metrics that this version declares."""
    return {
        key: value for key, value in values.items() if value is not None and key in metrics.METRICS and math.isfinite(value)
    }


def read_study(reader: Reader, name: str, planned: Iterable[str] = ()) -> list[Run]:
    """The study's runs, oldest first, with pretrainings of these fingerprints that another study ran."""
    studies = reader.studies()
    runs = runs_of(reader, number_of(studies, name))
    runs = [*runs, *of_others(reader, runs, planned)]
    if not runs:
        raise InputError(f"study {name!r} has no runs; choices: {', '.join(sorted(studies))}")
    return oldest_first(runs)


def newest_study(reader: Reader) -> tuple[str, dict[str, str]]:
    """The study with the newest run of those that have a finished one, else of all; and newer ones, with their states."""
    studies = {number: name for name, number in reader.studies().items()}
    passed_over: dict[str, str] = {}
    while newest := reader.newest([number for number, name in studies.items() if name not in passed_over], {}):
        runs, name = runs_of(reader, newest[0]), studies[newest[0]]
        if any(run.status == "finished" and not run.is_aa_replicate for run in runs):
            return name, passed_over
        passed_over[name] = states_text(run.status for run in runs)
    if not passed_over:
        raise InputError(f"the tracking store has no runs in any study ({', '.join(sorted(studies.values())) or 'none'})")
    return next(iter(passed_over)), {}


def runs_of(reader: Reader, number: str) -> list[Run]:
    """Runs of the study of this number, in any order, without the one that describes the study itself."""
    return [run for run in reader.runs(number) if run.tags.get(tags.ROLE) != tags.ROLE_STUDY]


def number_of(studies: Mapping[str, str], name: str) -> str:
    """The study's number; InputError with the choices for an unknown name."""
    if name not in studies:
        raise unknown("study", name, studies, "study")
    return studies[name]


def follow(reader: Reader, runs: list[Run]) -> list[Run]:
    """Pretrainings that the finished runs start from and that ran in other studies: the newest of each fingerprint, once."""
    return of_others(reader, runs, [run.origin for run in runs if run.status == "finished" and run.origin])


def of_others(reader: Reader, runs: list[Run], fingerprints: Iterable[str]) -> list[Run]:
    """The newest finished pretraining of each of these fingerprints that none of the runs has."""
    here = {run.tags.get(tags.FINGERPRINT) for run in runs if run.is_pretraining and run.status == "finished"}
    missing = dict.fromkeys(fingerprint for fingerprint in fingerprints if fingerprint not in here)
    names = {number: name for name, number in reader.studies().items()} if missing else {}
    kind = {tags.TASK: tags.PRETRAINING_TASK, tags.STATUS: "finished"}
    newest = [reader.newest(list(names), {tags.FINGERPRINT: fingerprint} | kind) for fingerprint in missing]
    return [replace(one[1], elsewhere=names[one[0]]) for one in newest if one]


def trials(reader: Reader, runs: list[Run]) -> list[Run]:
    """The finished trials of searches that selected settings of these runs on the rows that the runs report."""
    selected = [run for run in runs if run.params.get("tuned.selected_on") == "validation"]
    names = {f"{run.tags.get(tags.STUDY)}{paths.OF_TRIALS}" for run in selected}
    numbers = {name: number for name, number in reader.studies().items() if name in names} if names else {}
    every = [replace(run, elsewhere=name) for name, number in numbers.items() for run in runs_of(reader, number)]
    return oldest_first(run for run in every if run.status == "finished")


def read_history(reader: Reader, runs: Iterable[Run], key: str) -> History:
    """All values of the metric `key`, of the runs that logged it."""
    history: History = {}
    for run in runs:
        if key in run.metrics:
            steps = history.setdefault(run.run_id, {})
            for step, value in reader.history(run.run_id, key):
                steps.setdefault(step, []).append(value)
    return history


def with_launches(reader: Reader, runs: list[Run]) -> list[Run]:
    """The runs, each finished one of a session with what its launches measured."""
    timed = [run for run in runs if run.session and run.status == "finished"]
    keys = [key for key in metrics.METRICS if key.startswith(metrics.LAUNCHES)]
    curves = {key: by_step(read_history(reader, timed, key)) for key in keys}
    launches = {
        run.run_id: {key: of_runs[run.run_id] for key, of_runs in curves.items() if run.run_id in of_runs} for run in timed
    }
    return [replace(run, launches=launches.get(run.run_id, {})) for run in runs]
