"""What runs predicted for single items of the validation data: how wrong each is, by the files in the folders of runs.

The error of an item is, in classification, 1 where the class is wrong, else 0; in regression the distance of prediction and
label; of tags the share of the item's words with a wrong tag; of spans 1 where the prediction is none of the answers, compared
as SQuAD does (arXiv:1606.05250, section 6.1), else 0.
"""

import ast
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from safetensors.numpy import load_file
from scipy.special import ndtr, ndtri
from tokenizers import Tokenizer

from harness import checksums, paired, paths
from harness.errors import InputError
from harness.metrics import golds_of, normalised
from harness.paired import grouped, influences
from harness.reports.errors import ReportError
from harness.reports.reading import folders
from harness.reports.reading.store import Output, Packed, Run
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of

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
    labels: list[int] = field(default_factory=list)  # of a classification: the right class of each item
    answers: tuple[str, Any, Any] | None = None  # kind of task, labels and predictions as scores take them


def errors(run: Run, output: Output) -> Errors | None:
    """Of the predictions of a run; None where they are gone, torn, or of no known kind."""
    table = _predictions(run, output)
    if table is None:
        return None
    names = set(table.column_names)
    columns = {name: table.column(name).to_pylist() for name in names & {"item", "position", "label", "prediction", "answers"}}
    if {"item", "answers", "prediction"} <= names:
        both = zip(columns["prediction"], columns["answers"], strict=True)
        wrong = [normalised(said) not in map(normalised, golds_of(right)) for said, right in both]
        return Errors(SPANS, tuple(columns["item"]), np.array(wrong, dtype=float))
    if {"item", "position", "label", "prediction"} <= names:
        return _of_tags(columns, labels_of(run))
    if not {"item", "label", "prediction"} <= names:
        return None
    if pyarrow.types.is_integer(table.schema.field("label").type):
        both = np.asarray(columns["label"]), np.asarray(columns["prediction"])
        wrong, answers = both[0] != both[1], ("classification", *both)
        return Errors(CLASSES, tuple(columns["item"]), wrong.astype(float), columns["label"], answers)
    label, predicted = (np.asarray(columns[name], dtype=float) for name in ("label", "prediction"))
    return Errors(REGRESSION, tuple(columns["item"]), np.abs(label - predicted))


def _predictions(run: Run, output: Output) -> pyarrow.Table | None:
    """None where they are gone or torn."""
    if isinstance(output, Packed):
        return output.predictions.get(run.run_id)
    folder = folders.folder_of(run, output)
    return None if folder is None or folders.torn(run, output, FILE) else _table(folder / FILE)


def _table(path: Path) -> pyarrow.Table | None:
    try:
        return table_of(paths.read(path, LARGEST_TABLES), str(path))
    except (OSError, InputError, ReportError):
        return None


@dataclass(frozen=True)
class Paradigm:
    """What a run said of the minimal pairs of one kind."""

    pairs: int
    right: float  # share of them
    unigram: float | None  # share that word frequencies alone decide
    distance: int | None  # tokens between the differing words and what decides; None where that is not known
    side: str | None  # of the differing words, on which that is


def paradigms(run: Run, output: Output) -> dict[str, Paradigm]:
    """Name -> paradigm, in the order of the data; empty where the run has no predictions of minimal pairs, or torn ones."""
    table = _predictions(run, output)
    if table is None or not {"paradigm", "label", "prediction", "distance", "side"} <= {*table.column_names}:
        return {}
    rows = grouped((row["paradigm"], row) for row in table.to_pylist())
    return {
        name: Paradigm(
            pairs=len(own),
            right=float(np.mean([row["label"] == row["prediction"] for row in own])),
            unigram=float(np.mean([row["unigram"] for row in own])) if "unigram" in own[0] else None,
            distance=own[0]["distance"],
            side=own[0]["side"],
        )
        for name, own in rows.items()
    }


def _of_tags(columns: dict[str, list[Any]], names: list[str]) -> Errors:
    """Words of an item stand together and count their positions from 0."""
    first = np.flatnonzero(np.asarray(columns["position"]) == 0)
    label, predicted, items = np.asarray(columns["label"]), np.asarray(columns["prediction"]), columns["item"]
    if not len(first):
        return Errors(TAGS, (), np.zeros(0))
    lengths = np.diff([*first, len(items)])
    known = names and max(label.max(), predicted.max()) < len(names)
    tags = ([part.tolist() for part in np.split(np.array(names)[one], first[1:])] for one in (label, predicted) if known)
    values = np.add.reduceat(label != predicted, first) / lengths
    return Errors(TAGS, tuple(items[index] for index in first), values, answers=("tokens", *tags) if known else None)


MOST_PAIRS = 5
"""Replicates of an arm whose predictions are read."""
NO_ERROR = 1e-9
"""Differences up to this are those of rounding."""


@dataclass(frozen=True)
class Paired:
    """Errors of a baseline and an arm on the same items, by paired replicate: (R, N) each."""

    what: str  # as `item_errors` names it
    items: tuple[object, ...]
    before: np.ndarray
    after: np.ndarray
    labels: list[int] = field(default_factory=list)  # of a classification: (N,) right classes
    answers: tuple[tuple[tuple[str, Any, Any] | None, ...], ...] = ()  # of each replicate, before and after

    def both(self, before_errs: bool, after_errs: bool) -> float:
        """Number of items on which each errs or not, mean over replicates."""
        return float(np.mean(np.sum(((self.before > 0) == before_errs) & ((self.after > 0) == after_errs), axis=1)))

    @property
    def change_of_items(self) -> np.ndarray:
        """(N,) after minus before, means over the replicates: above 0 the arm errs more."""
        return np.mean(self.after - self.before, axis=0)

    def counts(self) -> tuple[int, int, int]:
        """Items on which the arm errs less, as much, and more."""
        less, more = int((self.change_of_items < -NO_ERROR).sum()), int((self.change_of_items > NO_ERROR).sum())
        return less, self.count - less - more, more

    @property
    def count(self) -> int:
        """N."""
        return self.before.shape[1]

    @property
    def share_apart(self) -> float:
        """Share of the scatter over items that the two do not have in common."""
        return paired.share_apart(self.before, self.after)

    def error_of(self, score: str | None) -> float | None:
        """Standard error of the change of a score over the items, of these replicates; None for a mean over the items.

        By how far each item moves it (the delta method).
        """
        if not self.answers or score is None or None in self.answers[0] + self.answers[1]:
            return None
        moved = [[influences.of_score(kind, score, *both) for kind, *both in side] for side in self.answers]
        if moved[0][0] is None:
            return None
        before, after = (np.mean([each for each, _ in side], axis=0) for side in moved)
        return paired.influence_error(after - before, max(float(np.mean([one for _, one in side])) for side in moved))

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
        """Ends for the change over the items."""
        half = float(ndtri((1 + confidence) / 2)) * self.error
        return self.change - half, self.change + half


def labels_of(run: Run) -> list[str]:
    """Names of the classes or tags of its task; empty where they are unknown."""
    try:
        return [*map(str, ast.literal_eval(run.params["task.labels"]))]
    except (KeyError, SyntaxError, TypeError, ValueError):
        return []


def of_both(pairs: Iterable[tuple[Errors | None, Errors | None]]) -> Paired | None:
    """The first pairs whose predictions are there, on the same items; None without any."""
    known: list[tuple[Errors, Errors]] = []
    for before, after in pairs:
        if before and after and len(known) < MOST_PAIRS and before.items == after.items == (known or [(before,)])[0][0].items:
            known.append((before, after))
    if not known or not known[0][0].items:
        return None
    first, (before, after) = known[0][0], (np.stack([pair[side].values for pair in known]) for side in (0, 1))
    answers = tuple(tuple(pair[side].answers for pair in known) for side in (0, 1))
    return Paired(first.what, first.items, before, after, first.labels, answers)


@dataclass(frozen=True)
class Texts:
    """The validation data as a model reads it."""

    lengths: np.ndarray  # (N,) tokens, markers of beginning and end among them
    of: Callable[[int], str]  # the text of one item, put together from its tokens without markers


def torn(runs: Iterable[Run], output: Output) -> list[Path]:
    """Records and predictions of these runs that are not as they were written, or cannot be read."""
    paths = []
    for run in runs:
        folder = folders.folder_of(run, output)
        path = folders.torn(run, output, FILE)
        if path is None and folder is not None and (folder / FILE).is_file() and _table(folder / FILE) is None:
            path = folder / FILE  # the result of an older run has no checksum of them
        paths += [path] if path else []
    return paths


def texts(run: Run, output: Output, items: int) -> Texts | None:
    """The validation data of a run; None where its cache is gone or torn, or an item has several sequences."""
    if isinstance(output, Packed):
        table = output.texts.get(run.run_id)
        if table is None or len(table) != items:
            return None
        return Texts(table["tokens"].to_numpy(), table["text"].to_pylist().__getitem__)
    folder = folders.folder_of(run, output)
    key = folders.record_of(folder).get("inputs", {}).get("data") if folder else None
    if key is None:
        return None
    try:
        cache = paths.data_folder(str(folder.parent.parent), key)
    except ValueError:  # a name that leads elsewhere
        return None
    if not (cache / "validation.safetensors").is_file() or not (cache / "tokenizer.json").is_file():
        return None
    if (cache / checksums.FILE).exists() and checksums.broken_seal(cache):
        return None
    arrays = load_file(cache / "validation.safetensors")
    if len(arrays["starts"]) != items + 1:
        return None
    tokenizer, parts = Tokenizer.from_file(str(cache / "tokenizer.json")), np.split(arrays["ids"], arrays["starts"][1:-1])
    return Texts(np.diff(arrays["starts"]), lambda index: tokenizer.decode(parts[index].tolist(), skip_special_tokens=True))
