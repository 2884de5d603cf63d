"""What a tracker does with the runs of a study."""

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.tracking import run_log


class Backend(abc.ABC):
    """A study in one tracker. A record is `run.json`, entries are lines of `metrics.jsonl`. Raises what its library raises."""

    table: str | None = None
    """Address of the study's table of runs, where the tracker has one."""

    @abc.abstractmethod
    def __init__(self, uri: str | None, output: str, study: str) -> None:
        """Opens the study; `uri` is that of MLflow."""

    @abc.abstractmethod
    def begin(self, record: dict[str, Any], folder: Path) -> None:
        """Begins the run of the folder, or resumes it."""

    @abc.abstractmethod
    def curves(self, record: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        """Adds points to the curves of a run that has begun."""

    @abc.abstractmethod
    def end(self, record: dict[str, Any], folder: Path, status: str) -> None:
        """Adds the results of the folder and ends the run."""

    @abc.abstractmethod
    def add(self, record: dict[str, Any], folder: Path, entries: list[dict[str, Any]]) -> None:
        """Adds what a finished run got later: points, results and files."""

    def send(self, record: dict[str, Any], folder: Path) -> None:
        """Sends a run that has ended from its folder, from its first point to its end."""
        result = run_log.result(folder)
        self.begin(record, folder)
        self.curves(record, run_log.Reader(folder).new_entries())
        self.end(record, folder, result["status"] if result else "failed")

    @abc.abstractmethod
    def agree(self, record: dict[str, Any], folder: Path) -> None:
        """Sends a finished run again if the tracker has another state of it."""

    @abc.abstractmethod
    def reap(self) -> None:
        """Ends the runs of processes that no longer exist."""

    @abc.abstractmethod
    def open_study(self, plan: Sequence[dict[str, str]], source: dict[str, str]) -> None:
        """Begins the study. `plan`: tags of each planned run; `source`: tags that say what was called, and by whom."""

    @abc.abstractmethod
    def close_study(self, plan: Sequence[dict[str, str]], source: dict[str, str], status: str, report: Path | None) -> None:
        """Ends the study, with the folder of its report."""
