"""What runs predicted for single items of the validation data: how wrong each is.

The error of an item is, in classification, 1 where the class is wrong, else 0; in regression the distance of prediction and
label; for tags, the share of the item's words with a wrong tag; for spans, 1 if the prediction is not an answer, compared
as SQuAD does (arXiv:1606.05250, section 6.1), else 0.
"""

import ast
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow
from scipy.special import ndtr, ndtri

from harness.comparison import influences, paired
from harness.comparison.paired import Numbers
from harness.comparison.runs import Run
from harness.metrics import golds_of, normalised

ErrorsOf = Callable[[Run], "Errors | None"]
"""Reads the errors of a run; None where its predictions are gone."""

CLASSES, REGRESSION = "wrong class", "distance from the label"
TAGS, SPANS = "share of words with a wrong tag", "no answer matched"
MEAN = "shortfall from 1"  # of a score that is the mean over the items
"""What the error of an item is."""


@dataclass(frozen=True)
class Errors:
    """Errors of one run; `what` is one of the constants above."""

    what: str
    items: tuple[object, ...]
    values: Numbers  # (N,)
    labels: list[int] = field(default_factory=list)  # of a classification: the right class of each item
    answers: tuple[str, Any, Any] | None = None  # kind of task, labels and predictions as scores take them


def no_errors(run: Run) -> None:
    """The source for runs without stored predictions."""


def errors(run: Run, table: pyarrow.Table | None) -> Errors | None:
    """Errors of a run's predictions; None without any, and for an unknown kind."""
    if table is None:
        return None
    names = set(table.column_names)
    columns = {name: table.column(name).to_pylist() for name in names & {"item", "position", "label", "prediction", "answers"}}
    if {"item", "answers", "prediction"} <= names:
        both = zip(columns["prediction"], columns["answers"], strict=True)
        wrong = [normalised(said) not in map(normalised, golds_of(right)) for said, right in both]
        answers = ("spans", columns["answers"], columns["prediction"])
        return Errors(SPANS, tuple(columns["item"]), np.array(wrong, dtype=float), answers=answers)
    if {"item", "position", "label", "prediction"} <= names:
        return _of_tags(columns, labels_of(run))
    if not {"item", "label", "prediction"} <= names:
        return None
    if pyarrow.types.is_integer(table.schema.field("label").type):
        label, predicted = np.asarray(columns["label"]), np.asarray(columns["prediction"])
        values = (label != predicted).astype(float)
        return Errors(CLASSES, tuple(columns["item"]), values, columns["label"], ("classification", label, predicted))
    label, predicted = (np.asarray(columns[name], dtype=float) for name in ("label", "prediction"))
    return Errors(REGRESSION, tuple(columns["item"]), np.abs(label - predicted), answers=("numbers", label, predicted))


def _of_tags(columns: dict[str, list[Any]], names: list[str]) -> Errors:
    """Words of an item stand together and count their positions from 0."""
    first = np.flatnonzero(np.asarray(columns["position"]) == 0)
    label, predicted, items = np.asarray(columns["label"]), np.asarray(columns["prediction"]), columns["item"]
    if not len(first):
        return Errors(TAGS, (), np.zeros(0))
    lengths = np.diff([*first, len(items)])
    values, answers = np.add.reduceat(label != predicted, first) / lengths, None
    if names and max(label.max(), predicted.max()) < len(names):
        tags = [[part.tolist() for part in np.split(np.array(names)[one], first[1:])] for one in (label, predicted)]
        answers = ("tokens", tags[0], tags[1])
    return Errors(TAGS, tuple(items[index] for index in first), values, answers=answers)


MOST_PAIRS = 5
"""Replicates of an arm whose predictions are read."""
NO_ERROR = 1e-9
"""Differences up to this are those of rounding."""


@dataclass(frozen=True)
class Paired:
    """Errors of a baseline and an arm on the same items, by paired replicate: (R, N) each."""

    what: str  # as `item_errors` names it
    items: tuple[object, ...]
    before: Numbers
    after: Numbers
    labels: list[int] = field(default_factory=list)  # of a classification: (N,) right classes
    answers: tuple[tuple[tuple[str, Any, Any] | None, ...], ...] = ()  # of each replicate, before and after

    def both(self, before_errs: bool, after_errs: bool) -> float:
        """Number of items on which baseline and arm err or not, as stated; mean over replicates."""
        return float(np.mean(np.sum(((self.before > 0) == before_errs) & ((self.after > 0) == after_errs), axis=1)))

    @property
    def change_of_items(self) -> Numbers:
        """(N,) after minus before, means over the replicates: above 0 the arm errs more."""
        return np.asarray(np.mean(self.after - self.before, axis=0))

    def counts(self) -> tuple[int, int, int]:
        """Items on which the arm errs less, as much, and more."""
        less, more = int((self.change_of_items < -NO_ERROR).sum()), int((self.change_of_items > NO_ERROR).sum())
        return less, self.count - less - more, more

    @property
    def count(self) -> int:
        """Number of items."""
        return int(self.before.shape[1])

    @property
    def share_apart(self) -> float:
        """Share of the scatter over items that the two do not have in common."""
        return paired.share_apart(self.before, self.after)

    def error_of(self, score: str | None) -> float | None:
        """Standard error of the change of a score over the items, of these replicates; None for a share of right items.

        By how far each item moves it (the delta method).
        """
        if self.what == MEAN:
            return self.error
        if score is None:
            return None
        moved = [[influences.of_score(one[0], score, one[1], one[2]) for one in side if one] for side in self.answers]
        known = [[one for one in side if one] for side in moved]
        if not known or list(map(len, known)) != [len(self.before)] * 2:
            return None
        before, after = (np.mean([each for each, _ in side], axis=0) for side in known)
        return paired.influence_error(after - before, max(float(np.mean([one for _, one in side])) for side in known))

    @property
    def change(self) -> float:
        """Mean error of the arm minus that of the baseline: above 0 it errs more."""
        return float(np.mean(self.after - self.before))

    @property
    def error(self) -> float:
        """Standard error of the change over the items, of these replicates; one item more or less counts."""
        return math.sqrt(self.count * float(np.var(self.change_of_items)) + 1) / self.count

    @property
    def p(self) -> float:
        """Two-sided, of a paired normal test over the items: whether other items could turn the change, not other seeds."""
        return float(2 * ndtr(-abs(self.change) / self.error))

    def interval_at(self, confidence: float) -> tuple[float, float]:
        """Interval of the change over the items at this confidence."""
        half = float(ndtri((1 + confidence) / 2)) * self.error
        return self.change - half, self.change + half


def labels_of(run: Run) -> list[str]:
    """Names of the classes or tags of its task; empty where they are unknown."""
    try:
        return [*map(str, ast.literal_eval(run.params["task.labels"]))]
    except (KeyError, SyntaxError, TypeError, ValueError):
        return []


def of_both(pairs: Iterable[tuple[Errors | None, Errors | None]]) -> Paired | None:
    """The first pairs with predictions on the same items; None without any."""
    known: list[tuple[Errors, Errors]] = []
    for before, after in pairs:
        first = known[0][0] if known else before
        if before and after and first and before.items == after.items == first.items and len(known) < MOST_PAIRS:
            known.append((before, after))
    if not known or not known[0][0].items:
        return None
    first, (befores, afters) = known[0][0], zip(*known, strict=True)
    values = [np.stack([one.values for one in side]) for side in (befores, afters)]
    answers = tuple(tuple(one.answers for one in side) for side in (befores, afters))
    return Paired(first.what, first.items, values[0], values[1], first.labels, answers)
