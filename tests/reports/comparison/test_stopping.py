"""Simulated sessions that end early, judged by the report: false differences, and how often an interval holds the truth.

The rule is the harness's own, on records of launches; intervals, floor and verdict are the report's. Four machines: calls of
normal noise; heavy tails; one that drifts and wanders; one that has two speeds and changes between them.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from harness import metrics
from harness.config.schema import MeasureConfig
from harness.measure.records import Latency, Throughput, WarmUp
from harness.study.timing.session import Session, Timed
from reports.comparison import launches
from reports.comparison.statistics import Verdict

SESSIONS = 1000
LATENCY = metrics.get(launches.LATENCY)
SETTINGS = MeasureConfig(rounds=10, min_rounds=4, half_width=0.05)
ARMS = {"base": 0, "base-again": 1, "arm": 2}
WARM = WarmUp(0, True, [])


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(0, 0.04, shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Student's t with three degrees of freedom, and a burst of up to a half in every twentieth launch."""
    return 0.02 * rng.standard_t(3, shape) + (rng.random(shape) < 0.05) * rng.uniform(0.1, 0.5, shape)


def drifting(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A trend over the whole session and a random walk from launch to launch, in random order within a round."""
    count = shape[1] * shape[2]
    walk = np.cumsum(rng.normal(0, 0.02, (shape[0], count)), axis=1) + rng.normal(0, 0.2, (shape[0], 1)) * np.linspace(
        0, 1, count
    )
    return rng.permuted(walk.reshape(shape), axis=2) + rng.normal(0, 0.02, shape)


def two_speeds(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A fifth of the launches are slower by a tenth."""
    return 0.1 * (rng.random(shape) < 0.2) + rng.normal(0, 0.01, shape)


MACHINES = {kind.__name__: kind for kind in (normal, heavy, drifting, two_speeds)}


class Simulated(Session):
    """A session whose launches are given."""

    def __init__(self) -> None:
        self._timed = {name: Timed(SimpleNamespace(measure=SETTINGS), None, name.endswith("-again")) for name in ARMS}


def launch(number: int, log: float) -> SimpleNamespace:
    """A launch in which both quantities are slower by this."""
    latency, work = Latency([10 * np.exp(log)], [1.0], WARM), Throughput(np.exp(log), 1000, 1000, 10, None, [1.0])
    return SimpleNamespace(round=number, latency=latency, throughput=work)


def ended(logs: np.ndarray) -> tuple[int, dict[str, launches.History]]:
    """Rounds of a session with these log times (rounds, arms), and what its report reads."""
    session = Simulated()
    for number, times in enumerate(logs, 1):
        for name, log in zip(ARMS, times, strict=True):
            session._timed[name].launches.setdefault("data", []).append(launch(number, log))
        if session._is_done():
            break
    taken = range(1, number + 1)
    history = {launches.REFERENCE: dict.fromkeys(taken, 1.0)}
    return number, {
        name: history | {launches.LATENCY: {step: float(10 * np.exp(logs[step - 1, at])) for step in taken}}
        for name, at in ARMS.items()
    }


@cache
def studies(machine: str) -> list[tuple[int, dict[str, launches.History]]]:
    logs = MACHINES[machine](np.random.default_rng(7), (SESSIONS, SETTINGS.rounds, len(ARMS)))
    return [ended(one) for one in logs]


def ratio(histories: dict[str, launches.History], name: str) -> launches.Ratio:
    return launches.compared(launches.LATENCY, histories["base"], histories[name])


def judged(histories: dict[str, launches.History]) -> launches.Ratio:
    """The arm against the mean of both series of the baseline, as reports compare it."""
    both = launches.merged([histories["base"], histories["base-again"]])
    return launches.compared(launches.LATENCY, both, histories["arm"])


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_equal_arms_are_seldom_told_apart_whenever_a_session_ends(machine: str):
    alarms = 0
    for _, histories in studies(machine):
        floor = launches.noise_floor(ratio(histories, "base-again"))
        alarms += launches.evidence(LATENCY, judged(histories).difference, floor).verdict() in (Verdict.BETTER, Verdict.WORSE)
    print(f"{machine}: false differences {alarms / SESSIONS:.4f}")
    assert alarms / SESSIONS <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / SESSIONS)


@pytest.mark.parametrize("machine", MACHINES)
def test_interval_of_an_arm_holds_the_truth_whenever_a_session_ends(machine: str):
    intervals = [ratio(histories, "arm").interval for _, histories in studies(machine)]
    replicates = [ratio(histories, "base-again").interval for _, histories in studies(machine)]
    held, again = (np.mean([low <= 0 <= high for low, high in found]) for found in (intervals, replicates))
    rounds = [number for number, _ in studies(machine)]
    print(f"{machine}: coverage {held:.4f}, of the A/A replicate {again:.4f}, {np.mean(rounds):.1f} rounds")
    assert held >= 0.94 - 2 * np.sqrt(0.05 * 0.95 / SESSIONS)
    assert again >= 0.90
    assert SETTINGS.min_rounds <= min(rounds) < max(rounds) == SETTINGS.rounds


def test_a_rule_that_looks_at_the_arm_would_not_be_honest():
    """What the rule is for: to stop as soon as the arm's interval leaves 0 out names a difference far too often."""
    logs = normal(np.random.default_rng(7), (SESSIONS, SETTINGS.rounds, len(ARMS)))
    found = 0
    for one in logs:
        differences = one[:, ARMS["arm"]] - one[:, ARMS["base"]]
        looks = range(SETTINGS.min_rounds, SETTINGS.rounds + 1)
        found += any(_leaves_zero_out(differences[:number]) for number in looks)
    print(f"false differences of a rule that looks {found / SESSIONS:.4f}")
    assert found / SESSIONS > 0.1


def _leaves_zero_out(differences: np.ndarray) -> bool:
    low, high = launches.mean_interval(list(differences))[1]
    return low > 0 or high < 0
