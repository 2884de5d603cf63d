"""How wrong runs are on each item of a task that is no classification, from the predictions in their folders.

Regression: the distance of prediction and label. Tags: the share of an item's words with a wrong tag. Spans: 1 where the
prediction is none of the answers, compared as SQuAD does (arXiv:1606.05250, section 6.1), else 0.
"""

import re
import string
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from harness.paired import pair
from reports.comparison.compare import Row
from reports.comparison.predictions import FILE, MOST_PAIRS
from reports.reading import folders
from reports.reading.store import Run

REGRESSION, TAGS, SPANS = "distance from the label", "share of words with a wrong tag", "no answer matched"
"""What the error of an item is."""
NO_ERROR = 1e-9
"""Differences up to this are those of rounding."""


@dataclass(frozen=True)
class Errors:
    """Of one run; `what` is one of the constants above."""

    what: str
    items: tuple[object, ...]
    values: np.ndarray  # (N,)


@dataclass(frozen=True)
class BothErrors:
    """Of the baseline and an arm on the same items, means over paired replicates."""

    what: str
    items: tuple[object, ...]
    replicates: int
    before: np.ndarray  # (N,)
    after: np.ndarray  # (N,)

    @property
    def change(self) -> np.ndarray:
        """(N,) after minus before: above 0 the arm errs more."""
        return self.after - self.before

    def counts(self) -> tuple[int, int, int]:
        """Items on which the arm errs less, as much, and more."""
        less, more = int((self.change < -NO_ERROR).sum()), int((self.change > NO_ERROR).sum())
        return less, len(self.items) - less - more, more


def errors(run: Run, output: Path | None) -> Errors | None:
    """None where the folder or its predictions are gone or cannot be read, or the task is a classification."""
    folder = folders.folder_of(run, output)
    if folder is None or not (folder / FILE).is_file():
        return None
    try:
        table = parquet.read_table(folder / FILE)
    except (OSError, pyarrow.ArrowException):
        return None
    names = set(table.column_names)
    if {"item", "answers", "prediction"} <= names:
        return _of_spans(table)
    if {"item", "position", "label", "prediction"} <= names:
        return _of_tags(table)
    if {"item", "label", "prediction", "logit_0"} <= names and "logit_1" not in names:
        label, predicted = (np.asarray(table.column(name).to_pylist(), dtype=float) for name in ("label", "prediction"))
        return Errors(REGRESSION, tuple(table.column("item").to_pylist()), np.abs(label - predicted))
    return None


def _of_tags(table: pyarrow.Table) -> Errors:
    """Words of an item stand together and count their positions from 0."""
    first = np.flatnonzero(np.asarray(table.column("position").to_pylist()) == 0)
    label, predicted = (np.asarray(table.column(name).to_pylist()) for name in ("label", "prediction"))
    items = table.column("item").to_pylist()
    if not len(first):
        return Errors(TAGS, (), np.zeros(0))
    lengths = np.diff([*first, len(items)])
    return Errors(TAGS, tuple(items[index] for index in first), np.add.reduceat(label != predicted, first) / lengths)


def _of_spans(table: pyarrow.Table) -> Errors:
    items, predicted, golds = (table.column(name).to_pylist() for name in ("item", "prediction", "answers"))
    wrong = [
        normalised(said) not in {normalised(one) for one in right or [""]} for said, right in zip(predicted, golds, strict=True)
    ]
    return Errors(SPANS, tuple(items), np.array(wrong, dtype=float))


def normalised(answer: str | None) -> str:
    """Without case, punctuation, articles and further spaces; empty for no answer."""
    text = "".join(letter for letter in (answer or "").lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def both(before: Row, after: Row, output: Path | None) -> BothErrors | None:
    """Of the first MOST_PAIRS paired replicates whose predictions are there, on the same items; None without any."""
    pairs: list[tuple[Errors, Errors]] = []
    for one, other in pair(before.runs, after.runs):
        mine, theirs = errors(before.runs[one], output), errors(after.runs[other], output)
        known = pairs[0][0].items if pairs else mine.items if mine else None
        if mine and theirs and mine.items == theirs.items == known and len(pairs) < MOST_PAIRS:
            pairs.append((mine, theirs))
    if not pairs or not pairs[0][0].items:
        return None
    first, second = (np.mean([pair[side].values for pair in pairs], axis=0) for side in (0, 1))
    return BothErrors(pairs[0][0].what, pairs[0][0].items, len(pairs), first, second)
