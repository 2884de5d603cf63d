"""How much a score gains because its candidate was selected on the rows that it reports, from predictions of all candidates.

Selecting on a random half of the rows and scoring the selected candidate on both halves estimates the optimism of half as many
rows without bias: the other half took no part. The optimism of equal candidates falls with the square root of the rows, so that
of all rows is 1/√2 of it, and less where candidates differ.

Related: arXiv:1708.07180; Cawley and Talbot, 2010 (JMLR 11, section 5).
"""

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from harness.comparison.paired import Numbers, t_quantile

SPLITS = 100
GROUPS = 20
"""Parts of the rows that the jackknife leaves out in turn."""

Scores = Callable[[Numbers], Numbers]
"""(S, N) weights of the rows -> (K, S) scores of the candidates."""


def scores(name: str, labels: Numbers, predicted: Numbers) -> Scores:
    """Scores of (K, N) predictions for (N,) labels: accuracy, F1 of class 1, Pearson, Spearman, or Matthews of two classes.

    Spearman takes the ranks among all rows. An undefined F1 or correlation is 0. ValueError for another score.
    """
    if name == "accuracy":
        right = (predicted == labels).astype(float)
        return lambda weights: right @ weights.T / weights.sum(axis=1)
    if name == "f1":
        both, either = predicted * labels, predicted + labels
        return lambda weights: 2 * both @ weights.T / np.maximum(either @ weights.T, 1)
    if name not in ("pearson", "spearman", "matthews"):
        raise ValueError(f"{name=}: expected accuracy, f1, pearson, spearman or matthews")
    ranked = [labels, predicted]
    if name == "spearman":
        ranked = [importlib.import_module("scipy.stats").rankdata(one, axis=-1) for one in ranked]
    lows, highs = ([end(one, axis=-1, keepdims=True) for one in ranked] for end in (np.min, np.max))
    scaled = [(one - low) / np.where(high > low, high - low, 1) for one, low, high in zip(ranked, lows, highs, strict=True)]
    ours, theirs = (one - one.mean(axis=-1, keepdims=True) for one in scaled)

    def correlation(weights: Numbers) -> Numbers:
        of_ours, of_theirs, *products = (
            one @ weights.T / weights.sum(axis=1) for one in (ours, theirs, ours * theirs, ours**2, theirs**2)
        )
        variances = (products[1] - of_ours**2) * (products[2] - of_theirs**2)
        return np.asarray((products[0] - of_ours * of_theirs) / np.sqrt(np.maximum(variances, 1e-12)))

    return correlation


def optimism(selected_by: Scores, reported: Sequence[Scores], rows: int) -> tuple[float, float]:
    """Optimism of the mean of the reported scores, of the candidate with the best `selected_by`, on N rows.

    Second: half of its 95 % interval over rows, by a jackknife: other rows like these, the same trained candidates.
    """
    rng = np.random.default_rng(0)
    first = rng.permuted(np.tile(np.arange(rows) % 2, (SPLITS, 1)), axis=1)
    halves = np.concatenate([first, 1 - first]).astype(float)
    group = rng.permutation(rows) % GROUPS
    values = []
    for left_out in range(-1, GROUPS):  # first none
        here, there = (half * (group != left_out) for half in (halves, 1 - halves))
        best = np.argmax(selected_by(here), axis=0)[None]
        gains = np.mean([score(here) - score(there) for score in reported], axis=0)
        values.append(float(np.mean(np.take_along_axis(gains, best, axis=0)) / np.sqrt(2)))
    return values[0], float(t_quantile(GROUPS - 1) * np.sqrt((GROUPS - 1) * np.var(values[1:])))
