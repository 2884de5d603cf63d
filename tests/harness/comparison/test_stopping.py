"""Simulated sessions that end once every comparison is decided, judged by the report: false verdicts, power, rounds.

The rule is the harness's own, on histories of launches; interval, floor and verdict are the report's. Four machines: normal
noise; heavy tails; one that drifts and wanders; one that has two speeds and changes between them.
"""

from functools import cache

import numpy as np
import pytest

from harness import metrics
from harness.comparison import by_launch, launches
from harness.comparison.by_launch import History
from harness.comparison.launches import Table
from harness.comparison.paired import holm
from harness.comparison.verdicts import Verdict
from harness.metrics import DEVICE_LATENCY

SESSIONS = 500
LATENCY = metrics.get("inference/latency_device_ms")
LOOKS = by_launch.looks(4, 20)
DIFFERENT = (Verdict.BETTER, Verdict.WORSE)


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


def history(logs: np.ndarray) -> History:
    """The launches of one arm with these log times, beside a reference workload that always takes as long."""
    return by_launch.history_of(
        (number, {DEVICE_LATENCY: float(10 * np.exp(log)), "timing/reference_device_ms": 1.0})
        for number, log in enumerate(logs)
    )


def ended(logs: np.ndarray, looks: tuple[int, ...]) -> tuple[int, list[Verdict]]:
    """Rounds of a session with these log times (rounds, two of the baseline and arms), and the report's verdict on each arm."""
    for rounds in looks:
        first, again, *arms = (history(column) for column in logs[:rounds].T)
        table = Table(DEVICE_LATENCY, first, again, tuple(arms))
        if not table.undecided(len(looks)):
            break
    both = by_launch.merged([first, again])
    found = [by_launch.compared(DEVICE_LATENCY, both, arm) for arm in arms]
    judged = [launches.evidence(LATENCY, one, table.floor, looks=len(looks)) for one in found]
    factors = holm([one.t_test_p() for one in found])
    return rounds, [one.verdict(factor) for one, factor in zip(judged, factors, strict=True)]


@cache
def studies(machine: str, arms: int, shift: float = 0.0, scale: float = 1.0) -> list[tuple[int, list[Verdict]]]:
    """`shift`: log ratio of the first arm to the baseline; `scale` multiplies the noise."""
    logs = scale * MACHINES[machine](np.random.default_rng(7), (SESSIONS, LOOKS[-1], 2 + arms))
    logs[:, :, 2] += shift
    return [ended(one, LOOKS) for one in logs]


def share(found: list[tuple[int, list[Verdict]]], verdicts: tuple[Verdict, ...]) -> float:
    return float(np.mean([any(one in verdicts for one in each) for _, each in found]))


def test_looks_are_few_and_the_last_one_is_the_last_round():
    assert [by_launch.looks(*settings) for settings in ((4, 12), (6, 30), (4, 4), (9, 5), (1, 1))] == [
        (4, 6, 9, 12),
        (6, 9, 14, 21, 30),
        (4,),
        (5,),
        (1,),
    ]


@pytest.mark.long
@pytest.mark.parametrize("arms", [1, 4])
@pytest.mark.parametrize("machine", MACHINES)
def test_equal_arms_are_seldom_told_apart_whenever_a_session_ends(machine: str, arms: int):
    alarms = share(studies(machine, arms), DIFFERENT)
    rounds = np.mean([number for number, _ in studies(machine, arms)])
    print(f"{machine}, {arms} arms: false differences {alarms:.3f}, {rounds:.1f} rounds")
    assert alarms <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / SESSIONS)


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_an_arm_that_is_slower_by_the_margin_is_seldom_called_the_same(machine: str):
    """Just at the margin, which is the worst place."""
    same = share(studies(machine, 1, np.log1p(metrics.RELATIVE_MARGIN.size)), (Verdict.SAME,))
    print(f"{machine}: called the same at the margin {same:.3f}")
    assert same <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / SESSIONS)


@pytest.mark.long
@pytest.mark.parametrize(("slower", "power", "rounds"), [(0.10, 0.99, 6), (-0.20, 0.99, 5)])
def test_a_tenth_is_found_in_few_rounds_beside_a_scatter_of_two_and_a_half_percent(slower: float, power: float, rounds: int):
    found = studies("normal", 1, float(np.log1p(slower)), 0.025 / 0.04 / np.sqrt(2))
    taken = np.mean([number for number, _ in found])
    print(f"{slower:+.0%}: power {share(found, DIFFERENT):.3f} in {taken:.1f} rounds")
    assert share(found, DIFFERENT) >= power
    assert taken <= rounds


@pytest.mark.long
def test_looks_that_do_not_share_the_level_would_not_be_honest():
    """What the shared level is for: to stop as soon as one interval leaves 0 out names a difference far too often."""
    logs = normal(np.random.default_rng(7), (SESSIONS, LOOKS[-1], 3))
    found = 0
    for one in logs:
        differences = one[:, 2] - one[:, :2].mean(axis=1)
        found += any(_leaves_zero_out(differences[:number]) for number in range(4, LOOKS[-1] + 1))
    print(f"false differences of a rule that looks at every round {found / SESSIONS:.4f}")
    assert found / SESSIONS > 0.1


def _leaves_zero_out(differences: np.ndarray) -> bool:
    low, high = by_launch.of_rounds(list(differences)).interval
    return low > 0 or high < 0
