"""Intervals of percentiles: what they hold is counted on simulated launches whose percentile is known."""

import math

import numpy as np
import pytest

from harness.measure.intervals import median_interval, resampled_medians
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
def test_interval_holds_the_median_of_all_possible_calls(population, launches):
    truth = np.median(population)
    intervals = [median_interval(study) for study in simulated(STUDIES[launches], launches, seed=2)]
    share = np.mean([low <= truth <= high for low, high in intervals])
    print(f"coverage of the median with {launches} launches {share:.3f}")
    assert 0.93 <= share <= 0.975


@pytest.mark.long
def test_medians_of_resampled_launches_would_be_too_narrow(population):
    """Why Student's t: the plain ranks of the resampled medians hold the truth far too seldom with five launches."""
    truth, held = np.median(population), []
    for study in simulated(STUDIES[5], 5, seed=2):
        low, high = np.percentile(resampled_medians(study, 3), [2.5, 97.5])
        held.append(low <= truth <= high)
    assert np.mean(held) < 0.9


def test_launches_that_differ_widen_the_interval_and_calls_alone_do_not():
    calls = simulated(1, 1, 200)[0, 0]
    alike = median_interval([calls, calls[::-1], calls])
    apart = median_interval([calls, 1.1 * calls, 1.2 * calls])
    assert alike[0] == pytest.approx(alike[1])
    assert apart[1] / apart[0] > 1.2


def test_error_of_two_constant_launches_is_that_of_their_mean():
    """Launches d apart on the logarithm: the standard error of the mean of two is d / 2, by the sample variance (n - 1)."""
    low, high = median_interval([[1.0] * 9, [math.exp(0.01)] * 9])
    assert math.log(high / low) / 2 == pytest.approx(t_quantile(1) * 0.005, rel=0.1)


def test_interval_is_around_the_median_and_the_same_again():
    launches = simulated(1, 4)[0].tolist()
    low, high = median_interval(launches)
    assert low < np.median(launches) < high
    assert median_interval(launches) == (low, high)
    assert median_interval(launches, seed=1) != (low, high)
    wider = median_interval(launches, level=0.99)
    assert wider[0] < low < high < wider[1]


@pytest.mark.parametrize(
    ("launches", "message"),
    [([[1.0, 2.0]], "at least 2 launches, not 1"), ([[1.0], []], "at least one call"), ([[1.0], [0.0]], "above 0")],
    ids=["one_launch", "no_call", "no_time"],
)
def test_what_has_no_interval_is_refused(launches, message):
    with pytest.raises(ValueError, match=message):
        median_interval(launches)
