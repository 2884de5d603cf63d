"""The expected best of n trials, against all draws and against known values."""

import itertools
import math

import pytest

from harness.plugins.chapters.tuning import expected_best

SCORES = [0.5, 0.9, 0.7, 0.7]


@pytest.mark.parametrize("trials", [1, 2, 3, 4])
def test_it_is_the_mean_over_all_draws(trials):
    draws = list(itertools.product(SCORES, repeat=trials))
    assert math.isclose(expected_best(SCORES, trials), sum(map(max, draws)) / len(draws))


def test_one_trial_gives_the_mean_and_more_never_less():
    values = [expected_best(SCORES, trials) for trials in (1, 2, 3, 4)]
    assert math.isclose(values[0], 0.7)
    assert values == sorted(values)
    assert values[-1] < max(SCORES)


@pytest.mark.parametrize("trials", [0, 5])
def test_more_trials_than_there_were_are_refused(trials):
    with pytest.raises(ValueError, match="must be between 1 and the 4 scores"):
        expected_best(SCORES, trials)
