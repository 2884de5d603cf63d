"""Scores against values worked out by hand."""

import numpy as np
import pytest

from harness import scores
from harness.errors import InputError

TRUTH = np.array([1, 1, 1, 0, 0, 0, 0, 1])
PREDICTED = np.array([1, 1, 0, 0, 0, 1, 0, 1])  # 3 true positives, 1 false positive, 1 false negative, 3 true negatives
NUMBERS = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("accuracy", 6 / 8), ("f1", 2 * 3 / (2 * 3 + 1 + 1)), ("matthews", (3 * 3 - 1 * 1) / (4 * 4))],
)
def test_class_scores_equal_the_hand_worked_ones(name, expected):
    assert scores.compute(name, TRUTH, PREDICTED) == pytest.approx(expected, abs=1e-12)


def test_correlations_equal_the_hand_worked_ones():
    # deviations -1.5 -0.5 0.5 1.5 and -1.75 -0.75 -0.75 3.25 of [0, 1, 1, 5]; ranks 1, 2.5, 2.5, 4
    other = np.array([0.0, 1.0, 1.0, 5.0])
    assert scores.compute("pearson", NUMBERS, other) == pytest.approx(7.5 / np.sqrt(5 * 14.75), abs=1e-12)
    assert scores.compute("spearman", NUMBERS, other) == pytest.approx(4.5 / np.sqrt(5 * 4.5), abs=1e-12)


def test_spearman_sees_order_alone():
    assert scores.compute("spearman", NUMBERS, np.exp(NUMBERS)) == pytest.approx(1.0)
    assert scores.compute("pearson", NUMBERS, np.exp(NUMBERS)) < 0.95


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize(("truth", "predicted"), [(NUMBERS, np.ones(4)), (np.ones(4), NUMBERS), (NUMBERS[:1], NUMBERS[:1])])
def test_correlation_with_a_constant_is_undefined(name, truth, predicted):
    assert scores.compute(name, truth, predicted) is None


def test_constant_class_predictions_score_as_glue_counts_them():
    never = np.zeros(8, dtype=int)
    assert scores.compute("f1", TRUTH, never) == 0.0
    assert scores.compute("matthews", TRUTH, never) == 0.0
    assert scores.compute("accuracy", TRUTH, never) == 0.5


def test_f1_is_of_class_one():
    assert scores.compute("f1", TRUTH, np.ones(8, dtype=int)) == pytest.approx(2 / 3)


def test_unknown_score_names_the_choices_and_the_nearest():
    with pytest.raises(InputError, match=r"did you mean 'accuracy'\?.*`task.scores`.*matthews"):
        scores.compute("acuracy", TRUTH, PREDICTED)
