"""Stands in for the processes of a timing session: who is launched, and what a launch would measure."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness import records
from harness.measure.launch import Outcome
from harness.measure.records import Measured, Request
from harness.study import timing_session as timing
from harness.study.plan import PlannedRun

ARGUMENTS = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40"]


class Launches:
    """Stands in for the processes: records what was launched, and returns the load that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launch_of: Callable) -> None:
        self._launch_of = launch_of
        self.order: list[tuple[int, str]] = []
        self.requests: list[Request] = []
        self.foreign = lambda title, number, attempt: 0.0
        self.milliseconds = lambda title, number: 1.0
        self.compile_s: float | None = None  # of a first try
        self.failing: set[str] = set()
        monkeypatch.setattr(timing, "launch", self._one)

    def _one(self, config, request, folder):
        number, again = request.round, " (A/A replicate)" if folder.parent.name.endswith("-again") else ""
        title = f"{config.label} {config.task.name}{again}"
        self.requests.append(request)
        attempt = self.order.count((number, title))
        self.order.append((number, title))
        folder.mkdir(parents=True, exist_ok=True)
        if title in self.failing:
            (folder / "log.txt").write_text("RuntimeError: no such device")
            return Outcome(Measured(), 1, folder / "log.txt")
        raw_ms = [self.milliseconds(title, number)]
        timing = self._launch_of(0, raw_ms, foreign_cpus=self.foreign(title, number, attempt))
        timing = replace(timing, compile_s=None if attempt else self.compile_s)
        of_tasks = [
            replace(timing, throughput=replace(timing.throughput, tokens=100 + at)) for at, _ in enumerate(request.data)
        ]
        return Outcome(Measured(timing=of_tasks), 0, folder / "log.txt")

    def of_round(self, number: int) -> list[str]:
        return [title for at, title in self.order if at == number]


def finish(item: PlannedRun, status: str = "finished", **tags: str) -> None:
    item.folder.mkdir(parents=True, exist_ok=True)
    records.write(item.folder / "result.json", {"status": status, "metrics": {}})
    records.write(item.folder / "run.json", {"tags": tags})
