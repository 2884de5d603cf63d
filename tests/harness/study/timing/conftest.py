"""Runs that have finished and were not timed, and launches that only say what they would measure."""

import pytest
from launches import ARGUMENTS, Launches, finish

from harness.study.plan import PlannedRun, plan


@pytest.fixture
def planned(compose, output):
    """Runs of a command line that have finished and were not timed."""

    def finished(*arguments: str) -> list[PlannedRun]:
        found = plan(compose("-m", *ARGUMENTS, *arguments, f"output={output}"))
        for item in found:
            finish(item)
        return found

    return finished


@pytest.fixture
def launches(monkeypatch, launch_of) -> Launches:
    return Launches(monkeypatch, launch_of)
