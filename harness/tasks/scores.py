"""Scores of predictions, by scikit-learn, scipy, seqeval and torchmetrics. An undefined score is None, never a number."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.config.choices import TaskKind
from harness.errors import unknown

Compute = Callable[[Any, Any], float | None]
"""`compute(truth, predicted)`: two arrays of class numbers or of numbers; for tokens the names of the tags of each item's
words; for spans the texts of each item's gold answers, none where there is no answer, and its predicted text, empty for
no answer.
"""


def _accuracy(truth: np.ndarray, predicted: np.ndarray) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, predicted))


def _f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of class 1; 0 when it is never predicted, as GLUE counts it."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, predicted, zero_division=0.0))


def _f1_macro(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Mean over the classes that occur, as SuperGLUE counts it; 0 for one that is never predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, predicted, average="macro", zero_division=0.0))


def _matthews(truth: np.ndarray, predicted: np.ndarray) -> float:
    """0 when only one class is predicted or present, as GLUE counts it."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(truth, predicted))


def _correlation(name: str) -> Compute:
    def compute(truth: np.ndarray, predicted: np.ndarray) -> float | None:
        from scipy import stats

        if len(truth) < 2 or np.ptp(truth) == 0 or np.ptp(predicted) == 0:
            return None  # undefined where one side is constant
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.NearConstantInputWarning)
            value = float(getattr(stats, name)(truth, predicted).statistic)
        return value if np.isfinite(value) else None

    return compute


def _entities(name: str) -> Compute:
    def compute(truth: list[list[str]], predicted: list[list[str]]) -> float | None:
        """Over the entities of all items together, right where type and both ends are; 0 where none is predicted."""
        from seqeval import metrics

        if all(tag == "O" for tags in truth for tag in tags):
            return None  # there is nothing to find
        return float(getattr(metrics, name)(truth, predicted, zero_division=0))

    return compute


def _token_accuracy(truth: list[list[str]], predicted: list[list[str]]) -> float:
    from seqeval.metrics import accuracy_score

    return float(accuracy_score(truth, predicted))


def _squad(name: str) -> Compute:
    def compute(truth: list[list[str]], predicted: list[str]) -> float:
        """Of the nearest gold answer, after SQuAD's normalisation; where there is none, "no answer" alone is right."""
        from torchmetrics.functional.text import squad

        given = [{"id": str(item), "prediction_text": text} for item, text in enumerate(predicted)]
        golds = [{"id": str(item), "answers": {"text": texts or [""], "answer_start": []}} for item, texts in enumerate(truth)]
        return squad(given, golds)[name].item() / 100

    return compute


SCORES: dict[str, dict[TaskKind, Compute]] = {
    "accuracy": {TaskKind.classification: _accuracy, TaskKind.tokens: _token_accuracy},
    "f1": {TaskKind.classification: _f1, TaskKind.spans: _squad("f1")},
    "f1_macro": {TaskKind.classification: _f1_macro},
    "matthews": {TaskKind.classification: _matthews},
    "pearson": {TaskKind.regression: _correlation("pearsonr")},
    "spearman": {TaskKind.regression: _correlation("spearmanr")},
    "entity_precision": {TaskKind.tokens: _entities("precision_score")},
    "entity_recall": {TaskKind.tokens: _entities("recall_score")},
    "entity_f1": {TaskKind.tokens: _entities("f1_score")},
    "exact_match": {TaskKind.spans: _squad("exact_match")},
}
"""Score -> how it is computed for the kinds of tasks that have it."""


def of_kind(kind: TaskKind) -> list[str]:
    """Names of the scores that fit a kind."""
    return [name for name, kinds in SCORES.items() if kind in kinds]


def compute(kind: TaskKind, name: str, truth: Any, predicted: Any) -> float | None:
    """The score of this name, or None where it is undefined; InputError for a name that the kind has not."""
    if name not in of_kind(kind):
        raise unknown(f"score of a task of kind {kind.value}", name, of_kind(kind), "task.scores")
    return SCORES[name][kind](truth, predicted)
