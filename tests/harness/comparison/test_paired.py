"""Differences of paired replicates: the numbers of Student's t, and the scatter of rounded values."""

import numpy as np
import pytest

from harness.comparison.paired import Difference, half_of, item_error, of_differences, scattered, score_interval, t_quantile


def test_an_interval_has_95_percent():
    assert t_quantile(10) == pytest.approx(2.228, abs=1e-3)
    low, high = of_differences([1.0, 2.0, 3.0]).interval
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)


@pytest.mark.parametrize("independent", [1, 4])
def test_the_scatter_of_rounded_values_is_that_of_two_uniform_ones(independent):
    """By drawing: both values of a pair are rounded to whole numbers."""
    values = np.random.default_rng(0).uniform(0, 100, size=(2, 40_000, independent))
    mean_errors = np.diff(values.round() - values, axis=0)[0].mean(axis=1)
    stated = scattered(Difference(independent, 0.0, 0.0, independent=independent), 1.0)
    assert stated.error == pytest.approx(mean_errors.std(), rel=0.02)


def test_the_error_of_a_correlation_over_items_is_the_textbook_s():
    """(1 - r^2) / sqrt(n - 1); of Matthews', which is one of two classes, sqrt((1 - r^2) / (n - 1))."""
    assert item_error(0.5, 101, "pearson") == pytest.approx(0.75 / 10)
    assert item_error(0.5, 26, "spearman") == pytest.approx(0.75 / 5)
    assert item_error(0.6, 17, "matthews") == pytest.approx(0.8 / 4)


@pytest.mark.parametrize(("headline", "score"), [("f1", 0.0), ("f1", 0.4), ("f1", 1.0), ("matthews", -0.2), ("matthews", 0.9)])
def test_a_recorded_interval_says_the_error_that_it_was_made_of(headline, score):
    for half in (0.01, 0.1, 0.4):
        low, high = score_interval(score, half, headline)
        assert half_of(score, low, high, headline) == pytest.approx(half, rel=1e-6)
