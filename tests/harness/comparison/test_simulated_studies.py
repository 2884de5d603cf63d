"""Simulated studies whose truth is known: false alarms, power, and how often an interval contains the truth.

A simulated session launches every arm once a round in a shuffled order. Each launch has a speed of its own (log-normal,
1 %, its reference 0.5 %); its calls scatter by 2 %, one in twenty with a heavy right tail; the machine wanders all the time (a
random walk of 0.3 % a call) and in every twentieth launch a burst of other work slows part of the calls down by up to a half.
"""

import math
from functools import cache

import numpy as np
import pytest

from harness import metrics
from harness.comparison import by_launch, launches
from harness.comparison.paired import Difference, Replicate, compare_paired
from harness.comparison.verdicts import Verdict

pytestmark = pytest.mark.long

ROUNDS, CALLS = 5, 25
FACTORS = {"base": 1.0, "again": 1.0, "same": 1.0, "slower": 1.05}
STUDIES = 4000
ALARM = (Verdict.BETTER, Verdict.WORSE)


def allowance(studies: int, share: float = 0.05) -> float:
    """Two standard errors of a share."""
    return 2 * math.sqrt(share * (1 - share) / studies)


def machine(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """How slow the machine is at every call: (studies, launches in order of time, calls)."""
    walk = np.cumsum(rng.normal(0, 0.003, (shape[0], shape[1] * shape[2])), axis=1).reshape(shape)
    began, length = rng.random((*shape[:2], 1)), rng.uniform(0.3, 1, (*shape[:2], 1))
    at = np.arange(shape[2]) / shape[2]
    within = (at >= began * (1 - length)) & (at < began * (1 - length) + length)
    struck = rng.random((*shape[:2], 1)) < 0.05
    return np.exp(walk + np.log1p(rng.uniform(0.1, 0.5, (*shape[:2], 1))) * (within & struck))


def medians(rng: np.random.Generator, slowness: np.ndarray, own: float) -> np.ndarray:
    """Of the calls of every launch, which has a speed of its own."""
    tail = np.where(rng.random(slowness.shape) < 0.05, 0.1 * rng.pareto(2, slowness.shape), 0)
    calls = slowness * rng.lognormal(0, own, (*slowness.shape[:2], 1)) * rng.lognormal(0, 0.02, slowness.shape) * (1 + tail)
    return np.median(calls, axis=2)


@cache
def sessions(studies: int = STUDIES, seed: int = 1, shuffled: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Latency and reference time of every launch: (studies, rounds, arms); not shuffled: a arm's launches in a row."""
    rng = np.random.default_rng(seed)
    count = len(FACTORS)
    slowness = machine(rng, (studies, ROUNDS * count, CALLS))
    both = np.stack([medians(rng, slowness, 0.01), medians(rng, slowness, 0.005)])
    if shuffled:
        order = rng.permuted(np.broadcast_to(np.arange(count), (studies, ROUNDS, count)), axis=2)
        latency, reference = np.take_along_axis(both.reshape(2, studies, ROUNDS, count), order[None], axis=3)
    else:
        latency, reference = both.reshape(2, studies, count, ROUNDS).swapaxes(2, 3)
    return 10 * latency * np.array(list(FACTORS.values())), 3 * reference


def histories(studies: int = STUDIES, shuffled: bool = True, with_reference: bool = True) -> list[dict[str, launches.History]]:
    """Arm -> launches, for each study, as the report reads them."""
    latency, reference = sessions(studies, shuffled=shuffled)
    if not with_reference:
        reference = np.ones_like(reference)
    return [
        {
            name: {launches.LATENCY: dict(enumerate(times[:, at])), launches.REFERENCE: dict(enumerate(beside[:, at]))}
            for at, name in enumerate(FACTORS)
        }
        for times, beside in zip(latency, reference, strict=True)
    ]


def ratios(after: str, **how: bool) -> list[Difference]:
    return [launches.compared(launches.LATENCY, study["base"], study[after]) for study in histories(**how)]


def verdicts(after: str) -> list[Verdict]:
    """Of every study, judged with its own noise floor, and divided by the reference where its own A/A replicate says so."""
    metric, found = metrics.get(launches.LATENCY), []
    for study in histories():
        helps = by_launch.corrects(launches.LATENCY, [(study["base"], study["again"])])
        pair = launches.compared(launches.LATENCY, study["base"], study["again"], helps)
        both = launches.merged([study["base"], study["again"]])
        ratio = launches.compared(launches.LATENCY, both, study[after], helps)
        found.append(launches.evidence(metric, ratio, launches.noise_floor(pair)).verdict())
    return found


def by_seed(scores: np.ndarray) -> dict[Replicate, float]:
    return {Replicate("", str(seed)): float(score) for seed, score in enumerate(scores)}


def covered(result: list[Difference], truth: float) -> float:
    return float(np.mean([ratio.interval[0] <= truth <= ratio.interval[1] for ratio in result]))


def error(result: list[Difference], truth: float) -> float:
    """Root mean square, of log ratios."""
    return float(np.sqrt(np.mean([(ratio.mean - truth) ** 2 for ratio in result])))


def width(result: list[Difference]) -> float:
    return float(np.mean([ratio.interval[1] - ratio.interval[0] for ratio in result]))


def test_equal_variants_are_seldom_told_apart():
    """500 studies and more of two equal arms: at most one in twenty may name a difference."""
    result = verdicts("same")
    alarms = np.mean([verdict in ALARM for verdict in result])
    print(f"false alarms {alarms:.4f} of {len(result)} studies")
    assert alarms <= 0.05 + allowance(len(result))
    assert {*result} <= {*ALARM, Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.OPEN}


def test_the_mean_of_both_series_of_the_baseline_errs_less_than_one():
    both = [
        launches.compared(launches.LATENCY, launches.merged([study["base"], study["again"]]), study["same"])
        for study in histories()
    ]
    print(f"error against one series {error(ratios('same'), 0):.4f}, against both {error(both, 0):.4f}")
    assert error(both, 0) < 0.93 * error(ratios("same"), 0)


def test_slow_down_of_five_percent_is_mostly_seen():
    result = verdicts("slower")
    power = np.mean([verdict is Verdict.WORSE for verdict in result])
    print(f"power {power:.4f} of {len(result)} studies")
    assert power >= 0.8
    assert Verdict.BETTER not in result


@pytest.mark.parametrize(("arm", "truth"), [("same", 0.0), ("slower", math.log(1.05))])
def test_interval_of_launches_holds_the_truth(arm: str, truth: float):
    share = covered(ratios(arm), truth)
    print(f"coverage of launches {share:.4f}")
    assert 0.93 <= share <= 0.97


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("kind", ["normal", "accuracy"])
def test_interval_of_seeds_holds_the_truth(kind: str, seeds: int):
    """Scores of normal noise, and shares of 872 validation rows whose quality varies by seed; a point is gained."""
    rng = np.random.default_rng(seeds)
    shared = rng.normal(0, 0.03, (STUDIES, seeds))  # what seeds have in common: the order of the data
    if kind == "normal":
        scores = [level + shared + rng.normal(0, 0.01, shared.shape) for level in (0.8, 0.81)]
    else:
        quality = [level + 0.3 * shared + rng.normal(0, 0.005, shared.shape) for level in (0.8, 0.81)]
        scores = [rng.binomial(872, level) / 872 for level in quality]
    intervals = [compare_paired(*map(by_seed, study)).interval for study in zip(*scores, strict=True)]
    share = np.mean([low <= 0.01 <= high for low, high in intervals])
    print(f"coverage of {seeds} seeds, {kind} {share:.4f}")
    assert 0.93 <= share <= 0.97


def test_reference_takes_the_wandering_machine_out():
    with_it, without = ratios("same"), ratios("same", with_reference=False)
    print(f"error {error(with_it, 0):.4f} with the reference, {error(without, 0):.4f} without")
    assert error(with_it, 0) < 0.5 * error(without, 0)
    assert width(with_it) < 0.5 * width(without)


def test_variants_measured_one_after_the_other_are_told_apart_for_nothing():
    """What interleaving is for: in blocks and without a reference, a wandering machine looks like a difference."""
    blocks = covered(ratios("same", shuffled=False, with_reference=False), 0)
    print(f"coverage in blocks without a reference {blocks:.4f}")
    assert blocks < 0.75
    assert covered(ratios("same", shuffled=False), 0) > 0.93


def test_pairing_by_round_narrows_the_interval_where_the_machine_wanders():
    """The same launches, each paired with another round of the baseline."""
    studies = histories(with_reference=False)
    together = [launches.compared(launches.LATENCY, study["base"], study["same"]) for study in studies]
    mixed = [launches.compared(launches.LATENCY, another_round(study["base"]), study["same"]) for study in studies]
    print(f"width {width(together):.4f} by round, {width(mixed):.4f} with another round")
    assert width(together) < 0.75 * width(mixed)


def another_round(history: launches.History) -> launches.History:
    return {name: {step: values[(step + 2) % ROUNDS] for step in values} for name, values in history.items()}
