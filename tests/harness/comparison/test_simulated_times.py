"""Simulated sessions of equal arms and of slower ones: false verdicts near 5 %, and how many rounds a difference takes.

A session times every arm once a round, and the baseline twice. Rounds share the state of the machine, which wanders; arms
scatter unequally, and with heavy tails. Verdicts are those of the report: all arms are one family.
"""

import math
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.comparison.runs import Run
from harness.comparison.verdicts import Verdict

LATENCY = "inference/latency_ms_p50"
STUDIES = 500
NUMBERS = count(1)


def a_run(arm: str, logs: np.ndarray, is_again: bool = False) -> Run:
    times = {step: 10 * math.exp(value) for step, value in enumerate(logs)}
    known = {tags.ARM: arm, tags.MODEL: arm, tags.SCALE: "tiny", tags.TASK: "sst2", tags.SEED: "0", tags.STATUS: "finished"}
    known |= {tags.LIFTED: "[]", tags.CONDITIONS: "c1", tags.SESSION: "s1"} | ({tags.REPLICATE: "true"} if is_again else {})
    number = next(NUMBERS)
    run = Run(f"run{number}", arm, number, known, {"seed": "0", "model_name": arm}, {LATENCY: times[0]})
    return replace(run, launches={"timing/latency_ms": times})


def noise(rng: np.random.Generator, kind: str, rounds: int, arms: int, sd: float) -> np.ndarray:
    """Logs of the times of the baseline, its A/A replicate, and `arms` others: (arms + 2, rounds)."""
    own = rng.normal(0, sd, (arms + 2, rounds))
    if kind == "drift":
        return own + np.cumsum(rng.normal(0, sd, rounds))
    if kind == "unequal":
        own[2:] *= 3
    if kind == "tails":
        own = sd * rng.standard_t(3, own.shape) / math.sqrt(3)
    return own


def verdicts(rng: np.random.Generator, kind: str, rounds: int, arms: int, sd: float, slower: float = 0.0) -> list[Verdict]:
    base, again, *others = noise(rng, kind, rounds, arms, sd)
    runs = [a_run("base", base), a_run("base", again, is_again=True)]
    runs += [a_run(f"arm{number}", logs + math.log1p(slower)) for number, logs in enumerate(others)]
    section = compare("s", runs).sections[0]
    return [section.change(row, LATENCY).verdict for row in section.rows[1:]]


def alarms(found: list[list[Verdict]]) -> float:
    """Share of studies with any verdict of a difference."""
    return float(np.mean([any(one in (Verdict.BETTER, Verdict.WORSE) for one in study) for study in found]))


@pytest.mark.parametrize("kind", ["plain", "drift", "unequal", "tails"])
@pytest.mark.parametrize(("rounds", "arms"), [(5, 1), (20, 1), (10, 4)])
@pytest.mark.long
def test_equal_arms_get_a_false_verdict_in_about_one_study_of_twenty(kind: str, rounds: int, arms: int):
    rng = np.random.default_rng([rounds, arms, len(kind)])
    share = alarms([verdicts(rng, kind, rounds, arms, 0.02) for _ in range(STUDIES)])
    print(f"{kind}, {rounds} rounds, {arms} arms: {share:.3f}")
    assert 0.02 <= share <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.mark.parametrize(("rounds", "power"), [(10, 0.42), (20, 0.80), (40, 0.97)])
@pytest.mark.long
def test_ten_percent_are_found_beside_a_scatter_of_fifteen(rounds: int, power: float):
    """The scatter of the ratio of two series; measured 0.50, 0.87 and 0.99."""
    rng = np.random.default_rng(rounds)
    share = alarms([verdicts(rng, "plain", rounds, 1, 0.15 / math.sqrt(2), 0.1) for _ in range(500)])
    print(f"{rounds} rounds: {share:.3f}")
    assert share >= power


def test_the_mean_of_both_series_of_the_baseline_is_what_is_shown_and_compared():
    rng = np.random.default_rng(0)
    base, again, other = noise(rng, "plain", 6, 1, 0.05)
    section = compare("s", [a_run("base", base), a_run("base", again, is_again=True), a_run("new", other)]).sections[0]
    change, (before, after) = section.change(section.rows[1], LATENCY), (row.mean(LATENCY) for row in section.rows)
    assert before == pytest.approx(10 * math.exp((base.mean() + again.mean()) / 2))
    assert change.percent == pytest.approx(100 * (after / before - 1))
    assert change.baseline_mean == pytest.approx(before)
