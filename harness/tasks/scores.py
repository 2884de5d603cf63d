"""Scores of predictions, by scikit-learn, scipy, seqeval and torchmetrics. An undefined score is None."""

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from harness.config.choices import TaskKind
from harness.errors import unknown
from harness.metrics import golds_of

Compute = Callable[[Any, Any], float | None]
"""`compute(labels, predicted)`: two arrays of class numbers or of numbers. For kind tokens the names of the tags of each item's
words. For kind spans the texts of each item's gold answers, an empty list for no answer, and its predicted text, empty for
no answer. For kind multilabel (S, C) of 0 and 1. For kind retrieval numbers of the relevant paragraphs and of the most similar
ones. For kind minimal_pairs the paradigm of each pair, and (S, 2) whether each way of scoring is right.
"""


LIBRARIES = {
    TaskKind.classification: "sklearn.metrics",
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


def _library(kind: TaskKind, name: str, **options: object) -> Compute:
    """The function of this name in the library of the kind."""

    def compute(labels: Any, predicted: Any) -> float:
        return float(getattr(load_library(kind), name)(labels, predicted, **options))

    return compute


def _correlation(name: str) -> Compute:
    def compute(labels: np.ndarray, predicted: np.ndarray) -> float | None:
        """None where the labels are constant; 0 where the predictions are, which say nothing, as of Matthews and F1."""
        if len(labels) < 2 or np.ptp(labels) == 0:
            return None
        if np.ptp(predicted) == 0:
            return 0.0
        stats = load_library(TaskKind.regression)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.NearConstantInputWarning)
            value = float(getattr(stats, name)(labels, predicted).statistic)
        return value if np.isfinite(value) else None

    return compute


def _as_bioes(tag: str) -> str:
    """The library reads IOB1, IOB2 and BIOES, and not the last and single words of BILOU."""
    return {"L-": "E-", "U-": "S-"}.get(tag[:2], tag[:2]) + tag[2:]


def _entities(name: str) -> Compute:
    def compute(labels: list[list[str]], predicted: list[list[str]]) -> float | None:
        """Over the entities of all items; a correct entity has the right type and both ends. 0 where none is predicted."""
        labels, predicted = ([[*map(_as_bioes, tags)] for tags in both] for both in (labels, predicted))
        if all(tag == "O" for tags in labels for tag in tags):
            return None  # there are no entities
        return float(getattr(load_library(TaskKind.tokens), name)(labels, predicted, zero_division=0))

    return compute


def _squad(name: str) -> Compute:
    def compute(labels: list[list[str]], predicted: list[str]) -> float:
        """Score against the best matching gold answer, after SQuAD's normalisation; without one only "no answer" is correct."""
        texts = [{"id": str(item), "prediction_text": text} for item, text in enumerate(predicted)]
        answers = [{"text": golds_of(gold), "answer_start": []} for gold in labels]
        golds = [{"id": str(item), "answers": of_item} for item, of_item in enumerate(answers)]
        return load_library(TaskKind.spans).squad(texts, golds)[name].item() / 100

    return compute


def _of_paradigms(way: int) -> Compute:
    def compute(labels: list[str], right: np.ndarray) -> float:
        """Mean over the paradigms of the share of right pairs."""
        paradigms = np.unique(labels, return_inverse=True)[1]
        return float(np.mean(np.bincount(paradigms, weights=right[:, way]) / np.bincount(paradigms)))

    return compute


RANKS = 10
"""Paragraphs that are scored of a ranking."""


def _ndcg(labels: list[list[int]], ranked: list[list[int]]) -> float:
    """Mean of the discounted gain of the relevant paragraphs over that of the best ranking, each of them with a gain of 1."""
    discounts, gains = (1 / np.log2(np.arange(RANKS) + 2)).tolist(), []
    for relevant, best in zip(labels, ranked, strict=True):
        gain = sum(discount for discount, one in zip(discounts, best, strict=False) if one in relevant)
        gains.append(gain / sum(discounts[: len(relevant)]))
    return float(np.mean(gains))


def _recall(labels: list[list[int]], ranked: list[list[int]]) -> float:
    """Mean share of the relevant paragraphs among the first ones."""
    return float(np.mean([len({*one} & {*best}) / len(one) for one, best in zip(labels, ranked, strict=True)]))


ACCURACY = _library(TaskKind.classification, "accuracy_score")
F1_MACRO = _library(TaskKind.classification, "f1_score", average="macro", zero_division=0.0)

SCORES: dict[str, dict[TaskKind, Compute]] = {
    "accuracy": {
        TaskKind.classification: ACCURACY,
        TaskKind.multilabel: ACCURACY,  # of whole sets of labels
        TaskKind.tokens: _library(TaskKind.tokens, "accuracy_score"),
        TaskKind.minimal_pairs: _of_paradigms(0),
    },
    "accuracy_by_piece": {TaskKind.minimal_pairs: _of_paradigms(1)},
    "f1": {  # of class 1; 0 when it is never predicted, as in GLUE
        TaskKind.classification: _library(TaskKind.classification, "f1_score", zero_division=0.0),
        TaskKind.spans: _squad("f1"),
    },
    # Mean over the classes that occur, as in SuperGLUE; 0 for a class that is never predicted.
    "f1_macro": {TaskKind.classification: F1_MACRO, TaskKind.multilabel: F1_MACRO},
    # Over all labels together; 0 where nothing is predicted.
    "f1_micro": {TaskKind.multilabel: _library(TaskKind.multilabel, "f1_score", average="micro", zero_division=0.0)},
    # 0 when only one class is predicted or present, as in GLUE.
    "matthews": {TaskKind.classification: _library(TaskKind.classification, "matthews_corrcoef")},
    "pearson": {kind: _correlation("pearsonr") for kind in (TaskKind.regression, TaskKind.similarity)},
    "spearman": {kind: _correlation("spearmanr") for kind in (TaskKind.regression, TaskKind.similarity)},
    "ndcg_at_10": {TaskKind.retrieval: _ndcg},
    "recall_at_10": {TaskKind.retrieval: _recall},
    "entity_precision": {TaskKind.tokens: _entities("precision_score")},
    "entity_recall": {TaskKind.tokens: _entities("recall_score")},
    "entity_f1": {TaskKind.tokens: _entities("f1_score")},
    "exact_match": {TaskKind.spans: _squad("exact_match")},
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
