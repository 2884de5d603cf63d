"""The trackers of a command, each in a thread of its own: MLflow, TensorBoard, Weights & Biases, several of them, or none."""

import contextlib
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import paths
from harness.errors import InputError
from harness.redact import whole
from harness.tracking import database
from harness.tracking.background import ENDED_S, Background

if TYPE_CHECKING:
    from harness.config.schema import RunConfig
    from harness.tracking.backend import Backend

EVERY_S = 10.0
"""Seconds between two calls to a tracker while a worker measures or trains."""

SYNC = "Results are kept locally; run `python -m harness sync` later."

KEPT = "Results are kept in the folders of the runs."


@dataclass(frozen=True)
class Kind:
    """A tracker: its name, the module and class of its backend, what helps where it is unreachable."""

    name: str
    module: str
    backend: str
    advice: str

    def load(self, key: str) -> "type[Backend]":
        """The class; its library takes seconds to import. InputError where that is missing."""
        try:
            return getattr(importlib.import_module(f"harness.tracking.{self.module}"), self.backend)
        except ImportError as error:
            extra = f"'encoder-variant-harness[{key}]'"
            raise InputError(f"tracking={key} needs a package that is missing ({error}): pip install {extra}") from error


KINDS = {
    "mlflow": Kind("MLflow", "mlflow_store", "Tracker", SYNC),
    "tensorboard": Kind("TensorBoard", "tensorboard_log", "TensorBoard", KEPT),
    "wandb": Kind("Weights & Biases", "wandb_log", "WeightsAndBiases", KEPT),
}
"""By key below `tracking`, which is also the name of the extra."""


class _Sender:
    """One kind of tracker, with a backend for each study."""

    def __init__(self, key: str) -> None:
        kind = KINDS[key]
        self._backend, self._studies = kind.load(key), {}
        self.thread = Background(kind.name, kind.advice)

    def send(self, config: "RunConfig", call: "Callable[[Backend], object]") -> None:
        self.thread.call(lambda: call(self._of(config)))

    def _of(self, config: "RunConfig") -> "Backend":
        key = (config.tracking.uri, config.output, config.study)
        if key not in self._studies:
            self._studies[key] = self._backend(*key)
            self._studies[key].reap()
        return self._studies[key]


class Trackers:
    """Passes everything on to the trackers that the config chooses. InputError where the package of one is missing."""

    def __init__(self, config: "RunConfig") -> None:
        self._senders = {kind: _Sender(kind) for kind in KINDS if getattr(config.tracking, kind)}

    def send(self, config: "RunConfig", call: "Callable[[Backend], object]") -> None:
        """Calls it with every tracker's backend of the config's study, later and in order."""
        for sender in self._senders.values():
            sender.send(config, call)

    def wait(self, interrupted: bool = False) -> None:
        """Waits until everything has been sent; not for long where the command was interrupted."""
        for sender in self._senders.values():
            if interrupted:
                sender.thread.wait(ENDED_S, ENDED_S)
            else:
                sender.thread.wait()

    def say(self) -> None:
        """Prints once of each tracker that has failed that it has."""
        for sender in self._senders.values():
            sender.thread.say()

    @property
    def has_store(self) -> bool:
        """Whether there is an MLflow store to report on, and it has not failed."""
        return "mlflow" in self._senders and not self._senders["mlflow"].thread.is_away


class TrackedRun:
    """One run on its way to the trackers."""

    def __init__(self, trackers: Trackers, config: "RunConfig", record: dict[str, Any], folder: Path) -> None:
        self._trackers, self._config, self._record, self.folder = trackers, config, record, folder
        self._pending: list[dict[str, Any]] = []
        self._sent: dict[str, int] = {}  # last step of each curve
        self._known: dict[str, int] = {}  # those of an earlier worker, whose points come again
        self._last = time.monotonic()
        trackers.send(config, lambda backend: backend.begin(record, folder))

    def add(self, entries: list[dict[str, Any]]) -> None:
        """Buffers entries of the run's log and sends them every EVERY_S seconds."""
        self._pending += [entry for entry in entries if "key" not in entry or not self._is_known(entry)]
        self._trackers.say()
        if time.monotonic() - self._last > EVERY_S:
            self._send()

    def forget(self, repeated: bool) -> None:
        """Drops what has not been sent: the run begins anew, and all its points come again; if `repeated`, the same ones."""
        self._pending, self._known = [], dict(self._sent) if repeated else {}

    def _is_known(self, point: dict[str, Any]) -> bool:
        return point["step"] <= self._known.get(point["key"], -1)

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
    """InputError where the file of a SQLite store is something else, or an address lacks its secrets, before anything runs.

    A torn store stops no run.
    """
    for config in configs:
        whole(config.tracking.uri or "")
        path = database.path_of(config.tracking.uri or paths.database_uri(config.output)) if config.tracking.mlflow else None
        if path is not None:
            with contextlib.suppress(database.BrokenStoreError):
                database.refuse_foreign(path)
