"""The trackers of a command: MLflow, TensorBoard, Weights & Biases, several of them, or none.

Each is fed from a thread of its own: whatever a library does there, no run waits for it and none ends by it. Once a tracker has
failed it stays away for the rest of the command, which is said once. The runs' folders keep everything.
"""

import abc
import contextlib
import math
import queue
import re
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import extensions, paths
from harness.errors import InputError
from harness.redact import redacted
from harness.terminal import console, counted, duration
from harness.tracking import database, run_log
from harness.tracking.run_log import Entry, Record

if TYPE_CHECKING:
    from harness.config.schema import RunConfig, TrackingConfig


class Backend(abc.ABC):
    """A study in one tracker. A record is `run.json`, entries are lines of `metrics.jsonl`. Raises what its library raises."""

    table: str | None = None
    """Address of the study's table of runs, where the tracker has one."""

    @abc.abstractmethod
    def __init__(self, uri: str | None, output: str, study: str) -> None:
        """Opens the study; `uri` is that of MLflow."""

    @abc.abstractmethod
    def begin(self, record: Record, folder: Path) -> object:
        """Begins the run of the folder, or resumes it."""

    @abc.abstractmethod
    def curves(self, record: Record, entries: list[Entry]) -> None:
        """Adds points to the curves of a run that has begun."""

    @abc.abstractmethod
    def end(self, record: Record, folder: Path, status: str) -> None:
        """Adds the results of the folder and ends the run."""

    def add(self, record: Record, folder: Path, entries: list[Entry]) -> None:
        """Adds what a finished run got later: points, results and files."""
        self.curves(record, entries)
        self.end(record, folder, "finished")

    def send(self, record: Record, folder: Path) -> None:
        """Sends a run that has ended from its folder, from its first point to its end."""
        result = run_log.result(folder)
        self.begin(record, folder)
        self.curves(record, run_log.Reader(folder).new_entries())
        self.end(record, folder, result["status"] if result else "failed")

    @abc.abstractmethod
    def sync_if_stale(self, record: Record, folder: Path) -> object:
        """Sends a finished run again if the tracker has another state of it."""

    @classmethod
    def attempt_of(cls, run: str, uri: str | None, output: str) -> str | None:
        """The attempt that the run of this id is of, as its record names it; InputError where that cannot be looked up."""
        raise InputError(f"{cls.__name__} has no ids of runs")

    def reap(self) -> object:  # noqa: B027 - a default
        """Ends the runs of processes that no longer exist; nothing where the tracker notices that itself."""

    def open_study(self, plan: Sequence[dict[str, str]], source: dict[str, str]) -> None:  # noqa: B027
        """Begins the study where the tracker has studies.

        `plan`: tags of each planned run; `source`: tags that say what was called, and by whom.
        """

    def close_study(  # noqa: B027
        self, plan: Sequence[dict[str, str]], source: dict[str, str], status: str, report: Path | None
    ) -> None:
        """Ends the study where the tracker has studies, with the folder of its report."""


PATIENCE_S = 60.0
"""Longest wait, at the end, for one call: a database on a busy machine takes most of that to be created."""

MOST_S = 180.0
"""Longest wait at the end for all that is left."""

ENDED_S = 2.0
"""Longest wait after Ctrl-C."""


MLFLOW = "MLflow"


class Background:
    """Calls in order, in a thread that ends with this process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: str | None = None  # of the first call that has failed
        self._said = False
        self._calls: queue.Queue[Callable[[], object]] = queue.Queue()
        threading.Thread(target=self._serve, name=f"tracking {name}", daemon=True).start()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Queues the call; drops it if an earlier one failed."""
        self.report_failure()
        self._calls.put(lambda: function(*arguments))

    def report_failure(self) -> None:
        """Prints once that the tracker has failed, if it has."""
        if self.error is not None and not self._said:
            self._said = True
            later = "; `python -m harness sync` sends them" if self.name == MLFLOW else ""
            console.problem(f"{self.name} {self.error}. Results are saved locally{later}.")

    def wait(self, most_s: float = MOST_S, patience_s: float = PATIENCE_S) -> None:
        """Waits until all calls are done, or none of them is for a while; then the tracker counts as unreachable."""
        began = time.monotonic()
        left, before = self._left(), None
        while left and left != before and self.error is None:
            left, before = self._left(fewer_than=left, most_s=min(patience_s, began + most_s - time.monotonic())), left
        if left and self.error is None:
            self.error = f"still has {counted(left, 'update')} queued after {duration(time.monotonic() - began)}"
        self.report_failure()

    def _left(self, fewer_than: float = math.inf, most_s: float = 0.0) -> int:
        """Calls that are not done, as soon as there are fewer of them, or after this time."""
        with self._calls.all_tasks_done:
            self._calls.all_tasks_done.wait_for(lambda: self._calls.unfinished_tasks < fewer_than, max(0.0, most_s))
            return self._calls.unfinished_tasks

    def _serve(self) -> None:
        while True:
            function = self._calls.get()
            try:
                if self.error is None:
                    function()
            except Exception as error:  # noqa: BLE001 - libraries and drivers throw what they like
                self.error = complaint(error)
            finally:
                self._calls.task_done()


def complaint(error: Exception) -> str:
    """`failed (...)` with the first line of what it says, without passwords. A server that is away adds its last cause."""
    line, *_ = str(error).strip().splitlines() or [type(error).__name__]
    cause = re.search(r"\(Caused by \w+\([\"']?(.+?)[\"']?\)\)", line)
    return f"failed ({textwrap.shorten(redacted(cause[1] if cause else line), 250, placeholder=' ...')})"


EVERY_S = 10.0
"""Seconds between two calls to a tracker while a worker measures or trains."""

GROUP = "harness.trackers"
"""Entry points of backends: MLflow's, those of plug-ins and of other packages."""


def backend(name: str) -> type[Backend]:
    """The class; its library takes seconds to import. InputError for a name that nothing adds, or a library that it lacks."""
    kind = extensions.find(GROUP, name, type, "tracking.plugins")
    if not issubclass(kind, Backend):
        raise InputError(f"{GROUP}: {name} is {kind.__name__}: expected a class of harness.tracking.trackers.Backend")
    return kind


class Trackers:
    """Passes everything on to the trackers that the config chooses. InputError where the package of one is missing."""

    def __init__(self, tracking: "TrackingConfig") -> None:
        chosen = [key for key in ("mlflow", "tensorboard", "wandb") if getattr(tracking, key)] + list(tracking.plugins)
        for key in chosen:
            if key != "mlflow":  # which no extra brings: it is imported while the first runs start
                backend(key)
        self._threads = {key: Background(MLFLOW if key == "mlflow" else key) for key in chosen}
        self._backends: dict[tuple[str | None, ...], Backend] = {}  # of each tracker one for each study

    def send(self, config: "RunConfig", call: Callable[[Backend], object]) -> None:
        """Calls it with every tracker's backend of the config's study, later and in order."""
        for key, thread in self._threads.items():
            thread.call(self._call, key, config, call)

    def _call(self, key: str, config: "RunConfig", call: Callable[[Backend], object]) -> None:
        study = (config.tracking.uri, config.output, config.study)
        if (key, *study) not in self._backends:
            self._backends[key, *study] = backend(key)(*study)
            self._backends[key, *study].reap()
        call(self._backends[key, *study])

    def wait(self, interrupted: bool = False) -> None:
        """Waits until everything has been sent; not for long where the command was interrupted."""
        end = time.monotonic() + ENDED_S
        for thread in self._threads.values():
            thread.wait(*([max(0.0, end - time.monotonic())] if interrupted else ()))

    def report_failure(self) -> None:
        """Prints once of each tracker that has failed that it has."""
        for thread in self._threads.values():
            thread.report_failure()

    @property
    def has_store(self) -> bool:
        """Whether there is an MLflow store to report on, and it has not failed."""
        return "mlflow" in self._threads and self._threads["mlflow"].error is None


class TrackedRun:
    """One run on its way to the trackers."""

    def __init__(self, trackers: Trackers, config: "RunConfig", record: Record, folder: Path) -> None:
        self._trackers, self._config, self._record, self.folder = trackers, config, record, folder
        self._pending: list[Entry] = []
        self._sent: dict[str, int] = {}  # last step of each curve
        self._known: dict[str, int] = {}  # those of an earlier worker, whose points come again
        self._last = time.monotonic()
        trackers.send(config, lambda backend: backend.begin(record, folder))

    def add(self, entries: list[Entry]) -> None:
        """Buffers entries of the run's log and sends them every EVERY_S seconds."""
        self._pending += [entry for entry in entries if "key" not in entry or entry["step"] > self._known.get(entry["key"], -1)]
        self._trackers.report_failure()
        if time.monotonic() - self._last > EVERY_S:
            self._send()

    def forget(self) -> None:
        """Drops unsent entries: the run restarts and sends all its points again."""
        self._pending, self._known = [], dict(self._sent)

    def end(self, status: str) -> None:
        """Sends the rest and ends the run with this status."""
        self._send()
        self._trackers.send(self._config, lambda backend: backend.end(self._record, self.folder, status))

    def _send(self) -> None:
        self._last, entries, self._pending = time.monotonic(), self._pending, []
        self._sent |= {entry["key"]: entry["step"] for entry in entries if "key" in entry}
        if entries:
            self._trackers.send(self._config, lambda backend: backend.curves(self._record, entries))


def refuse_foreign_stores(configs: "Sequence[RunConfig]") -> None:
    """InputError where the file of a SQLite store is something else, before anything runs.

    A corrupt store stops no run.
    """
    for config in configs:
        path = database.path_of(config.tracking.uri or paths.database_uri(config.output)) if config.tracking.mlflow else None
        if path is not None:
            with contextlib.suppress(database.BrokenStoreError):
                database.refuse_foreign(path)
