"""Two sessions that disagree: which one is believed, and which noise floor counts. Worked by hand."""

import math
from collections.abc import Callable

import pytest

from harness.comparison.compare import compare
from harness.comparison.runs import Run
from harness.comparison.section import Section
from harness.comparison.verdicts import Change, Verdict

LATENCY, SPEED, TRAINING = "inference/latency_ms_p50", "inference/tokens_per_s", "finetune/duration_s"
LAUNCH = "timing/latency_ms"
BASE = [10.0, 10.0, 10.0, 10.0, 10.0]
QUIET = [10.0, 10.1, 9.9, 10.0, 10.0]  # the baseline again, within 1 % or so
NOISY = [9.0, 11.0, 10.0, 9.5, 10.5]  # the same within 10 %
TASKS = {"cola": QUIET, "rte": NOISY}
"""Task -> the second measurement of its baseline."""


def session(timed: Callable[..., Run], name: str, seed: int, again: list[float], factor: float) -> list[Run]:
    """Baseline, its A/A replicate and an arm whose latency is `factor` times the baseline's."""
    tags = {"session": name}
    return [
        timed("base", BASE, seed, **tags),
        timed("base", again, seed, replicate="true", **tags),
        timed("new", [time * factor for time in BASE], seed, **tags),
    ]


def section_of(runs: list[Run]) -> Section:
    (section,) = compare("s", runs).sections
    return section


def changed(section: Section, metric: str) -> Change:
    return section.change(next(row for row in section.rows if row.label == "new"), metric)


@pytest.mark.parametrize(("first", "last", "verdict"), [(1.3, 0.7, Verdict.BETTER), (0.7, 1.3, Verdict.WORSE)])
def test_the_latest_of_two_sessions_decides_on_latency(timed, first: float, last: float, verdict: Verdict):
    runs = [*session(timed, "s1", 0, QUIET, first), *session(timed, "s2", 1, QUIET, last)]
    section = section_of(runs)
    assert changed(section, LATENCY).verdict is verdict
    assert changed(section, LATENCY).percent == pytest.approx(100 * (last - 1), abs=0.01)
    assert changed(section, SPEED).verdict is verdict


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["quiet first", "noisy first"])
def test_the_floor_of_a_session_is_that_of_its_noisiest_replicate(timed, order: slice):
    """Neither replicate is of the section that is judged, so that the session's noisiest one counts."""
    pairs = [
        [timed("base", BASE, task=task), timed("base", again, task=task, replicate="true")] for task, again in TASKS.items()
    ]
    judged = [timed("base", BASE), timed("new", [time * 1.05 for time in BASE])]
    runs = [run for pair in pairs[order] for run in pair]
    section = next(part for part in compare("s", [*runs, *judged]).sections if part.task == "sst2")
    floors = [pair.floor(LAUNCH) for pair in section.sessions.pairs("s1")]
    assert changed(section, LATENCY).floor == pytest.approx(100 * math.expm1(max(floors)))
    assert max(floors) > 2 * min(floors)
