"""Optimism of selection on the reported rows against a known truth; `python FILE` prints the table of docs/method.md."""

import sys

import numpy as np
import pytest
from scipy.special import ndtri

from harness.config.choices import TaskKind
from harness.plugins.protocols.optimism import optimism, scores
from harness.tasks.scores import compute

CASES = {  # rows, candidates, standard deviation of their true accuracies
    "equal, 277 rows": (277, 60, 0.0),
    "6 equal, 277 rows": (277, 6, 0.0),
    "1 point apart, 277 rows": (277, 60, 0.01),
    "3 points apart, 277 rows": (277, 60, 0.03),
    "2 points apart, 872 rows": (872, 60, 0.02),
}
ACCURACY, ALIKE = 0.75, 0.8
"""Of all candidates on average; correlation of two candidates over the items."""


def drawn(rng: np.random.Generator, accuracies: np.ndarray, rows: int) -> np.ndarray:
    """(K, N) whether candidates of these true accuracies are right: items have a difficulty that all share."""
    shared, own = rng.normal(size=rows), rng.normal(size=(len(accuracies), rows))
    right: np.ndarray = ndtri(accuracies)[:, None] + ALIKE**0.5 * shared + (1 - ALIKE) ** 0.5 * own > 0
    return right.astype(float)


def simulated(case: str, studies: int, truths: int) -> tuple[float, float, float]:
    """True optimism on all rows, mean estimate, and share of intervals that hold the truth."""
    rows, candidates, apart = CASES[case]
    rng = np.random.default_rng(1)
    accuracies = ACCURACY + apart * rng.normal(size=candidates)
    means = [drawn(rng, accuracies, rows).mean(axis=1) for _ in range(truths)]
    truth = float(np.mean([each.max() - accuracies[each.argmax()] for each in means]))
    estimates = []
    for _ in range(studies):
        accuracy = scores("accuracy", np.ones(rows), drawn(rng, accuracies, rows))
        estimates.append(optimism(accuracy, [accuracy], rows))
    held = np.mean([abs(value - truth) <= half for value, half in estimates])
    return truth, float(np.mean([value for value, _ in estimates])), float(held)


@pytest.mark.long
@pytest.mark.parametrize(("case", "most"), [("6 equal, 277 rows", 0.002), ("3 points apart, 277 rows", 0.009)])
def test_estimate_is_unbiased_for_equal_candidates_and_else_at_most_too_high(case, most):
    truth, estimate, held = simulated(case, studies=60, truths=1000)
    assert truth > 0.01
    assert -0.002 < estimate - truth < most
    assert held > 0.8


def test_two_candidates_that_are_right_on_other_halves_gain_what_counting_the_splits_gives():
    """Of the three splits of four rows one separates them by 1, the others not at all: a third, over √2."""
    accuracy = scores("accuracy", np.ones(4), np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    assert optimism(accuracy, [accuracy], 4)[0] == pytest.approx(1 / 3 / 2**0.5, abs=0.05)


@pytest.mark.parametrize(
    "predicted", [[[1, 1, 0, 0] * 10] * 2, [[1] * 40, [0] * 40]], ids=["equal predictions", "one always best"]
)
def test_no_optimism_where_every_half_selects_the_same(predicted):
    accuracy = scores("accuracy", np.ones(40), np.array(predicted))
    assert optimism(accuracy, [accuracy, accuracy], 40) == (pytest.approx(0), pytest.approx(0))


@pytest.mark.parametrize("name", ["accuracy", "f1", "matthews", "pearson", "spearman"])
def test_scores_are_those_of_the_harness(name):
    rng = np.random.default_rng(0)
    kind = TaskKind.regression if name in ("pearson", "spearman") else TaskKind.classification
    labels = rng.normal(size=60) if kind is TaskKind.regression else rng.integers(0, 2, 60)
    predicted = np.stack([np.where(rng.random(60) < share, labels, rng.permutation(labels)) for share in (0.3, 0.8)])
    half = rng.random(60) < 0.5
    weights = np.stack([np.ones(60), np.ones(60) if name == "spearman" else half])  # whose ranks are among all rows
    kept = [slice(None), slice(None) if name == "spearman" else half]
    expected = [[compute(kind, name, labels[rows], one[rows]) for rows in kept] for one in predicted]
    assert scores(name, labels, predicted)(weights) == pytest.approx(np.array(expected))


def test_another_score_is_refused():
    with pytest.raises(ValueError, match="expected accuracy"):
        scores("f1_macro", np.ones(2), np.ones((1, 2)))


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_a_correlation_is_that_of_any_unit(name: str):
    rng = np.random.default_rng(0)
    labels = rng.random(60)
    predicted = np.stack([labels + rng.normal(0, 0.3, 60), np.full(60, 0.5)])
    values = scores(name, 1e-6 * labels, 1e-6 * predicted)(np.ones((1, 60)))[:, 0]
    assert values == pytest.approx([compute(TaskKind.regression, name, labels, one) for one in predicted])


if __name__ == "__main__":
    print("| candidates | true | estimated | intervals that hold the truth |\n| :-- | --: | --: | --: |")
    for case in CASES:
        truth, estimate, held = simulated(case, *map(int, sys.argv[1:] or (500, 4000)))
        print(f"| {case} | {100 * truth:.2f} | {100 * estimate:.2f} | {100 * held:.0f} % |", flush=True)
