"""How far each item moves a score of all of them, from which its standard error over other items follows (the delta method)."""

import importlib
from typing import Any

import numpy as np

from harness.comparison.paired import CORRELATIONS
from harness.metrics import golds_of, overlap

SCORES = {
    "classification": ("f1", "f1_macro", "matthews"),
    "multilabel": ("f1_macro", "f1_micro"),
    "tokens": ("entity_precision", "entity_recall", "entity_f1"),
    "minimal_pairs": ("accuracy", "accuracy_by_piece"),
    "spans": ("f1",),
    "numbers": ("pearson", "spearman"),
}
"""What is predicted -> scores that are no share of right items: kinds of tasks, and numbers."""


def of_score(kind: str, name: str, labels: Any, predicted: Any) -> tuple[np.ndarray, float] | None:
    """(N,) how far each item moves a score, times N, and how far one item more can; None for a share of right items.

    The delta method, of F1, precision and recall over true positives, false positives and misses, of Matthews'
    and other correlations over covariances, of a mean over paradigms over the pairs of each. Spearman's is Pearson's of ranks.
    """
    if kind == "minimal_pairs":
        pairs = np.asarray(labels)[:, None] == np.unique(labels)  # (N, C)
        return _of_ratios(pairs * predicted[:, [int(name == "accuracy_by_piece")]], pairs.astype(float))
    if name not in SCORES.get(kind, ()):
        return None
    if kind == "spans":
        values = np.array([overlap(said, golds_of(golds)) for golds, said in zip(labels, predicted, strict=True)])
        return values - values.mean(), 1.0
    if name in CORRELATIONS:
        if name == "matthews":
            names = np.union1d(labels, predicted)
            sides = [one[:, None] == names for one in (labels, predicted)]
        else:
            if name == "spearman":
                labels, predicted = map(importlib.import_module("scipy.stats").rankdata, (labels, predicted))
            sides = [one[:, None] / (one.std() or 1) for one in (labels, predicted)]
        ours, theirs = (one - one.mean(axis=0) for one in sides)
        both, *own = (np.sum(one * other, axis=1) for one, other in ((ours, theirs), (ours, ours), (theirs, theirs)))
        sizes = [max(float(one.mean()), 1 / len(labels)) for one in own]
        scale = float(np.prod(sizes)) ** 0.5
        score = float(both.mean()) / scale
        return both / scale - score / 2 * sum(one / size for one, size in zip(own, sizes, strict=True)), 1 / scale
    measure = name.rpartition("_")[2] if kind == "tokens" else "f1"
    of_labels, of_predicted, hits = _counts(kind, name, labels, predicted)  # (N, C)
    counts = {"f1": of_labels + of_predicted, "precision": of_predicted, "recall": of_labels}[measure]
    hits = 2 * hits if measure == "f1" else hits
    occur = (of_labels.sum(axis=0) + of_predicted.sum(axis=0)) > 0
    return _of_ratios(hits[:, occur], counts[:, occur])


def _of_ratios(hits: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Influences on the mean over C of sum(hits) / sum(counts), (N, C) each."""
    totals = np.maximum(counts.sum(axis=0), 1)
    scaled = len(counts) / max(1, len(totals)) / totals
    return (scaled * (hits - hits.sum(axis=0) / totals * counts)).sum(axis=1), float(np.linalg.norm(scaled))


def _counts(kind: str, name: str, labels: Any, predicted: Any) -> list[np.ndarray]:
    """(N, C) how often each item has a class, is said to have it, and both."""
    if kind == "tokens":
        entities = importlib.import_module("seqeval.metrics.sequence_labeling").get_entities
        sets = [[{*entities(tags)} for tags in side] for side in (labels, predicted)]
        sets.append([ours & theirs for ours, theirs in zip(*sets, strict=True)])
        return [np.array([[len(one)] for one in side], dtype=float) for side in sets]
    if kind == "classification":
        names = np.array([1]) if name == "f1" else np.union1d(labels, predicted)
        labels, predicted = (one[:, None] == names for one in (labels, predicted))
    counts = [np.asarray(one, dtype=float) for one in (labels, predicted)]
    counts.append(counts[0] * counts[1])
    return [one.sum(axis=1, keepdims=True) for one in counts] if name == "f1_micro" else counts
