"""Scores of predictions, by scikit-learn, scipy, seqeval and torchmetrics. An undefined score is None."""

import importlib
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from harness.config.choices import TaskKind
from harness.errors import unknown
from harness.metrics import golds_of

Compute = Callable[[Any, Any], float | None]
"""`compute(labels, predicted)`: two arrays of class numbers or of numbers. For kind tokens the names of the tags of each item's
words. For kind spans the texts of each item's gold answers, an empty list for no answer, and its predicted text, empty for
no answer. For kind multilabel (S, C) of 0 and 1. For kind retrieval numbers of the relevant paragraphs, which may have grades,
and of the most similar ones. For kind minimal_pairs the paradigm of each pair, and (S, 2) whether each way of scoring is right.
"""


LIBRARIES = {
    TaskKind.classification: "sklearn.metrics",
    TaskKind.multiple_choice: "sklearn.metrics",
    TaskKind.multilabel: "sklearn.metrics",
    TaskKind.regression: "scipy.stats",
    TaskKind.tokens: "seqeval.metrics",
    TaskKind.spans: "torchmetrics.functional.text",
    TaskKind.similarity: "scipy.stats",
}
"""Kind of task -> the library module that computes its scores."""


def load_library(kind: TaskKind) -> ModuleType:
    """That module, which takes up to 1 s; imported before memory is measured, its up to 80 MB do not count as training's."""
    return importlib.import_module(LIBRARIES[kind])


def _by_library(kind: TaskKind, name: str, labels: Any, predicted: Any, **options: object) -> float:
    """The function of this name in the library of the kind."""
    return float(getattr(load_library(kind), name)(labels, predicted, **options))


def _correlation(name: str, labels: np.ndarray, predicted: np.ndarray) -> float | None:
    """None if the labels are constant; 0 if the predictions are, as for Matthews correlation and F1."""
    labels, predicted = np.asarray(labels, dtype=float), np.asarray(predicted, dtype=float)
    if len(labels) < 2 or np.ptp(labels) == 0:
        return None
    if np.ptp(predicted) == 0:
        return 0.0
    stats = load_library(TaskKind.regression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        value = float(getattr(stats, name)(labels, predicted).statistic)
    return value if np.isfinite(value) else None


BIOES = {"L-": "E-", "U-": "S-"}
"""What BILOU calls otherwise: the library reads IOB1, IOB2 and BIOES."""


def _entities(name: str, labels: list[list[str]], predicted: list[list[str]]) -> float | None:
    """Over the entities of all items; a correct entity has the right type and both ends. 0 where none is predicted."""
    labels, predicted = (
        [[BIOES.get(tag[:2], tag[:2]) + tag[2:] for tag in tags] for tags in both] for both in (labels, predicted)
    )
    if all(tag == "O" for tags in labels for tag in tags):
        return None  # there are no entities
    return _by_library(TaskKind.tokens, name, labels, predicted, zero_division=0)


def _squad(name: str, labels: list[list[str]], predicted: list[str]) -> float:
    """Score against the best matching gold answer, after SQuAD's normalisation; without one only "no answer" is correct."""
    texts = [{"id": str(item), "prediction_text": text} for item, text in enumerate(predicted)]
    golds = [{"id": str(item), "answers": {"text": golds_of(gold), "answer_start": []}} for item, gold in enumerate(labels)]
    return load_library(TaskKind.spans).squad(texts, golds)[name].item() / 100


def _of_paradigms(way: int, labels: list[str], right: np.ndarray) -> float:
    """Mean over the paradigms of the share of right pairs."""
    paradigms = np.unique(labels, return_inverse=True)[1]
    return float(np.mean(np.bincount(paradigms, weights=right[:, way]) / np.bincount(paradigms)))


RANKS = 10
"""Paragraphs that are scored of a ranking."""


def _ndcg(labels: list[Any], ranked: list[list[int]]) -> float:
    """Mean of the discounted gain of the relevant paragraphs over that of the best ranking: of their grades, else 1 each.

    As trec_eval's, whose gain is the grade itself; 0 for a query without a relevant paragraph.
    """
    discounts = (1 / np.log2(np.arange(RANKS) + 2)).tolist()

    def gain(grades: Iterable[int]) -> float:
        return sum(discount * grade for discount, grade in zip(discounts, grades, strict=False))

    gains = []
    for relevant, best in zip(labels, ranked, strict=True):
        grades = relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1)
        ideal = gain(sorted(grades.values(), reverse=True))
        gains.append(gain(grades.get(one, 0) for one in best) / ideal if ideal else 0.0)
    return float(np.mean(gains))


def _recall(labels: list[Any], ranked: list[list[int]]) -> float:
    """Mean share of the relevant paragraphs among the first ones."""
    return float(np.mean([len({*one} & {*best}) / max(1, len(one)) for one, best in zip(labels, ranked, strict=True)]))


def _library(name: str, *kinds: TaskKind, **options: object) -> dict[TaskKind, Compute]:
    return {kind: partial(_by_library, kind, name, **options) for kind in kinds}


SCORES: dict[str, dict[TaskKind, Compute]] = {
    "accuracy": {
        **_library("accuracy_score", TaskKind.classification, TaskKind.multiple_choice, TaskKind.tokens),
        **_library("accuracy_score", TaskKind.multilabel),  # of whole sets of labels
        TaskKind.minimal_pairs: partial(_of_paradigms, 0),
    },
    "accuracy_by_piece": {TaskKind.minimal_pairs: partial(_of_paradigms, 1)},
    "f1": {  # of class 1; 0 when it is never predicted, as in GLUE
        **_library("f1_score", TaskKind.classification, zero_division=0.0),
        TaskKind.spans: partial(_squad, "f1"),
    },
    # Mean over the classes that occur, as in SuperGLUE; 0 for a class that is never predicted.
    "f1_macro": _library("f1_score", TaskKind.classification, TaskKind.multilabel, average="macro", zero_division=0.0),
    # Over all labels together; 0 where nothing is predicted.
    "f1_micro": _library("f1_score", TaskKind.multilabel, average="micro", zero_division=0.0),
    # 0 when only one class is predicted or present, as in GLUE.
    "matthews": _library("matthews_corrcoef", TaskKind.classification),
    "pearson": dict.fromkeys((TaskKind.regression, TaskKind.similarity), partial(_correlation, "pearsonr")),
    "spearman": dict.fromkeys((TaskKind.regression, TaskKind.similarity), partial(_correlation, "spearmanr")),
    "ndcg_at_10": {TaskKind.retrieval: _ndcg},
    "recall_at_10": {TaskKind.retrieval: _recall},
    "entity_precision": {TaskKind.tokens: partial(_entities, "precision_score")},
    "entity_recall": {TaskKind.tokens: partial(_entities, "recall_score")},
    "entity_f1": {TaskKind.tokens: partial(_entities, "f1_score")},
    "exact_match": {TaskKind.spans: partial(_squad, "exact_match")},
}
"""Score -> kind of task -> its function."""


def of_kind(kind: TaskKind) -> list[str]:
    """Names of the scores that fit a kind."""
    return [name for name, kinds in SCORES.items() if kind in kinds]


def compute(kind: TaskKind, name: str, labels: Any, predicted: Any) -> float | None:
    """The score of this name, None where it is undefined; InputError for a name that the kind does not have."""
    if name not in of_kind(kind):
        raise unknown(f"score of a task of kind {kind.value}", name, of_kind(kind), "task.scores")
    return SCORES[name][kind](labels, predicted)
