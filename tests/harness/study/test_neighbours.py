"""Whether other processes keep the CPUs busy, which decides how the threads of a run wait."""

import pytest

from harness.hardware import load
from harness.study.supervisor import BUSY_CPUS, Neighbours


@pytest.fixture
def neighbours(monkeypatch: pytest.MonkeyPatch) -> Neighbours:
    """Their load, one look after the other."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    loads = iter([None, BUSY_CPUS, BUSY_CPUS + 0.1, 1.7, 0.0, 0.9])
    monkeypatch.setattr(load.ForeignLoad, "foreign_cpus", lambda self: next(loads))
    return Neighbours()


def test_they_are_busy_above_a_limit_and_that_is_said_when_it_begins(neighbours, capsys):
    assert [neighbours.are_busy() for _ in range(6)] == [False, False, True, True, False, True]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"other processes keep {cpus} CPUs busy" for cpus in (0.6, 0.9)]


def test_what_the_environment_says_of_waiting_threads_stays(neighbours, monkeypatch, capsys):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert [neighbours.are_busy() for _ in range(6)] == [False] * 6
    assert capsys.readouterr().out == ""
