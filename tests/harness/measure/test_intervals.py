"""Intervals of percentiles: what they hold is counted on simulated launches whose percentile is known."""

import math

import numpy as np
import pytest

from harness.measure.intervals import _percentiles, percentile_interval
from harness.paired import t_quantile

STUDIES = {5: 600, 20: 250}
"""Launches -> studies."""


def simulated(studies: int, launches: int, calls: int = 50, seed: int = 0) -> np.ndarray:
    """(studies, launches, calls) in ms: launches differ by 1 %, calls by 2 %, every twentieth call has a heavy tail."""
    rng = np.random.default_rng(seed)
    speed = 10 * rng.lognormal(0, 0.01, (studies, launches, 1))
    tail = np.where(rng.random((studies, launches, calls)) < 0.05, 0.1 * rng.pareto(2, (studies, launches, calls)), 0)
    return speed * rng.lognormal(0, 0.02, (studies, launches, calls)) * (1 + tail)


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    return simulated(1, 40_000, seed=1).ravel()


@pytest.mark.long
@pytest.mark.parametrize("launches", [5, 20])
@pytest.mark.parametrize(
    ("rank", "least", "most"), [(50, 0.93, 0.975), (90, 0.89, 0.975), (99, 0.85, 0.97)], ids=["p50", "p90", "p99"]
)
def test_interval_holds_the_percentile_of_all_possible_calls(population, launches, rank, least, most):
    truth = np.percentile(population, rank)
    intervals = [percentile_interval(study, rank) for study in simulated(STUDIES[launches], launches, seed=2)]
    share = np.mean([low <= truth <= high for low, high in intervals])
    print(f"coverage of p{rank} with {launches} launches {share:.3f}")
    assert least <= share <= most


def test_percentiles_of_resampled_launches_would_be_too_narrow(population):
    """Why Student's t: the plain ranks of the resampled percentiles hold the truth far too seldom with five launches."""
    rng, truth, held = np.random.default_rng(3), np.percentile(population, 50), []
    for study in simulated(STUDIES[5], 5, seed=2):
        low, high = np.percentile(_percentiles(study, 50, rng.multinomial(5, np.full(5, 0.2), 400)), [2.5, 97.5])
        held.append(low <= truth <= high)
    assert np.mean(held) < 0.9


def test_launches_that_differ_widen_the_interval_and_calls_alone_do_not():
    calls = simulated(1, 1, 200)[0, 0]
    alike = percentile_interval([calls, calls[::-1], calls], 50)
    apart = percentile_interval([calls, 1.1 * calls, 1.2 * calls], 50)
    assert alike[0] == pytest.approx(alike[1])
    assert apart[1] / apart[0] > 1.2


def test_error_of_two_constant_launches_is_that_of_their_mean():
    """Launches d apart on the logarithm: the standard error of the mean of two is d / 2, by the sample variance (n - 1)."""
    low, high = percentile_interval([[1.0] * 9, [math.exp(0.01)] * 9], 50)
    assert math.log(high / low) / 2 == pytest.approx(t_quantile(1) * 0.005, rel=0.1)


@pytest.mark.parametrize("rank", [0, 37, 50, 99, 100])
def test_resampled_percentile_is_that_of_the_repeated_calls(rank: int):
    launches = [[3.0, 1.0, 9.0], [2.0], [5.0, 5.0, 4.0, 8.0]]
    times = np.array([[1, 1, 1], [0, 2, 1], [3, 0, 0]])
    expected = [np.percentile(np.concatenate([launches[at] * n for at, n in enumerate(row)]), rank) for row in times]
    assert _percentiles(launches, rank, times) == pytest.approx(expected)


def test_interval_is_around_the_percentile_and_the_same_again():
    launches = simulated(1, 4)[0].tolist()
    low, high = percentile_interval(launches, 90)
    assert low < np.percentile(launches, 90) < high
    assert percentile_interval(launches, 90) == (low, high)
    assert percentile_interval(launches, 90, seed=1) != (low, high)
    wider = percentile_interval(launches, 90, level=0.99)
    assert wider[0] < low < high < wider[1]


@pytest.mark.parametrize(
    ("launches", "message"),
    [([[1.0, 2.0]], "at least 2 launches, not 1"), ([[1.0], []], "at least one call"), ([[1.0], [0.0]], "above 0")],
    ids=["one_launch", "no_call", "no_time"],
)
def test_what_has_no_interval_is_refused(launches, message):
    with pytest.raises(ValueError, match=message):
        percentile_interval(launches, 50)
