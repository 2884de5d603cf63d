"""How wrong a run is on each item of its validation data, from the predictions in its folder.

Classification: 1 where the class is wrong, else 0. Regression: the distance of prediction and label. Tags: the share of an
item's words with a wrong tag. Spans: 1 where the prediction is none of the answers, compared as SQuAD does (arXiv:1606.05250,
section 6.1), else 0.
"""

import re
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

FILE = "predictions.parquet"
CLASSES, REGRESSION = "wrong class", "distance from the label"
TAGS, SPANS = "share of words with a wrong tag", "no answer matched"
"""What the error of an item is."""


@dataclass(frozen=True)
class Errors:
    """Errors of one run; `what` is one of the constants above."""

    what: str
    items: tuple[object, ...]
    values: np.ndarray  # (N,)


def read(path: Path) -> Errors | None:
    """From a file of predictions; None where it is gone, cannot be read, or is of no known kind."""
    if not path.is_file():
        return None
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException):
        return None
    names = set(table.column_names)
    columns = {name: table.column(name).to_pylist() for name in names & {"item", "position", "label", "prediction", "answers"}}
    if {"item", "answers", "prediction"} <= names:
        return _of_spans(columns)
    if {"item", "position", "label", "prediction"} <= names:
        return _of_tags(columns)
    if {"item", "label", "prediction", "logit_0", "logit_1"} <= names:
        wrong = np.asarray(columns["label"]) != np.asarray(columns["prediction"])
        return Errors(CLASSES, tuple(columns["item"]), wrong.astype(float))
    if {"item", "label", "prediction", "logit_0"} <= names:
        label, predicted = (np.asarray(columns[name], dtype=float) for name in ("label", "prediction"))
        return Errors(REGRESSION, tuple(columns["item"]), np.abs(label - predicted))
    return None


def _of_tags(columns: dict[str, list[Any]]) -> Errors:
    """Words of an item stand together and count their positions from 0."""
    first = np.flatnonzero(np.asarray(columns["position"]) == 0)
    label, predicted, items = np.asarray(columns["label"]), np.asarray(columns["prediction"]), columns["item"]
    if not len(first):
        return Errors(TAGS, (), np.zeros(0))
    lengths = np.diff([*first, len(items)])
    return Errors(TAGS, tuple(items[index] for index in first), np.add.reduceat(label != predicted, first) / lengths)


def _of_spans(columns: dict[str, list[Any]]) -> Errors:
    both = zip(columns["prediction"], columns["answers"], strict=True)
    wrong = [normalised(said) not in {normalised(one) for one in right or [""]} for said, right in both]
    return Errors(SPANS, tuple(columns["item"]), np.array(wrong, dtype=float))


def normalised(answer: str | None) -> str:
    """Without case, punctuation, articles and further spaces; empty for no answer."""
    text = "".join(letter for letter in (answer or "").lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
