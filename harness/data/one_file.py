"""One file of the user as both splits of a task: which of its columns are the text and the label, and how it is cut."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.data import files
from harness.errors import InputError, Mistakes

KEY = "task.file"
TEXTS = "text|sentence|review|content|comment|message|body|tweet|document|title|utterance|question|query|premise|hypothesis"
LABELS = "labels?|class|category|target|sentiment|y|intent|topic|stars|rating|score"
"""Names of columns that are taken where a file has one of them alone."""
SPLITS = "split|train(ing)?|dev|val(id(ation)?)?|test"
"""Name or first value of a column that says which rows train."""
FIRST_ROWS = 2000
"""Rows by which columns are told apart."""
MOST_CLASSES = 50
FEWEST_WORDS = 2.5
"""Mean words of a text, from which a column is taken for one."""
GUESSED = (TaskKind.classification, TaskKind.regression, TaskKind.multilabel)
"""Kinds of tasks whose columns may be left out: a text, and its label."""


def with_splits(config: RunConfig) -> TaskConfig | None:
    """The task with the file as its train split and a fifth of it as validation; None without `task.file`.

    A column that neither a key nor its default names is guessed where one alone can be meant. InputError for a file that
    cannot be read, for columns that must be named, for one that says which rows train, and for additional files.
    """
    task, default = config.task, TaskConfig()
    if not task.file:
        return None
    beside = [key for key in ("train_file", "validation_file", "dataset") if getattr(task, key) not in (None, "", task.file)]
    if beside:
        raise InputError(f"{KEY} and task.{beside[0]} both name the data: leave one out")
    path = Path(task.file)
    files.refuse_unreadable(path, KEY, task.kind is TaskKind.tokens)
    if task.kind in GUESSED:
        task = _with_columns(task, path)
    if (task.train_split, task.validation_split) == (default.train_split, default.validation_split):
        row = _first_row(task)
        if stated := [name for name in unread(task) if _is(name, SPLITS) or _is(row[name], SPLITS)]:
            raise InputError(
                f"{KEY}={str(path)!r}: the column {stated[0]!r} says which rows train: expected a file for each split "
                "(task.train_file, task.validation_file), or task.train_split='train[:80%]' task.validation_split='train[80%:]'"
            )
        task = replace(task, train_split="train[:80%]", validation_split="train[80%:]")
    return replace(task, train_file=task.file)


def unread(task: TaskConfig) -> list[str]:
    """The columns other than text and label, for kinds whose columns may be guessed."""
    if task.kind not in GUESSED:
        return []
    fields = [part.partition(".")[0] for field in (*task.fields, task.label) for part in field.split("+")]
    return [name for name in _first_row(task) if name not in (*fields, *task.fields, task.label, *task.labels)]


def _first_row(task: TaskConfig) -> dict[str, Any]:
    return next((row for _, row in _first(Path(task.file or ""), files.Wanted(tuple(task.fields), task.label), 1)), {})


def _with_columns(task: TaskConfig, path: Path) -> TaskConfig:
    """With the names of the columns of a text and its label that the file has."""
    names = [*_first_row(task)]
    has_text = task.fields != ["text"] or "text" in names
    has_label = task.label != "label" or bool({"label", *task.labels} & {*names})
    if not names or (has_text and has_label):
        return task
    rows = [row for _, row in _first(path, files.Wanted(tuple(names)), FIRST_ROWS)]
    columns = {name: [row[name] for row in rows] for name in names}
    fields, label = task.fields, task.label
    if not has_label:
        found = _named(names, LABELS, fields) or [
            name for name in names if name not in fields and _has_classes(columns[name]) and not _is_text(columns[name])
        ]
        label = _only(found, "label", "task.label", path, [name for name in names if name not in fields])
        if not _is(label, LABELS) and label in map(str, columns[label]):
            raise InputError(
                f"{KEY}={str(path)!r}: {label!r} of the first line is a label, too: begin with a line of column names, "
                f"or set task.label if it names the column"
            )
    if not has_text:
        others = [name for name in names if name != label]
        found = _named(others, TEXTS, ()) or [name for name in others if _is_text(columns[name])]
        fields = [_only(found, "text", "'task.fields=[NAME]'", path, others)]
    return replace(task, fields=fields, label=label)


def _first(path: Path, wanted: files.Wanted, count: int) -> Iterable[files.Row]:
    return islice(files.rows(path, f"{KEY}={str(path)!r}", KEY, wanted, Mistakes()), count)


def _is(name: object, known: str) -> bool:
    return re.fullmatch(known, str(name).strip().casefold()) is not None


def _named(names: list[str], known: str, taken: Iterable[str]) -> list[str]:
    """The known names that the file has, whatever their case."""
    return [name for name in names if _is(name, known) and name not in taken]


def _has_classes(values: list[Any]) -> bool:
    """Whether each of a few values occurs in several rows."""
    return 2 <= len({str(value) for value in values}) <= min(MOST_CLASSES, len(values) / 2)


def _is_text(values: list[Any]) -> bool:
    return fmean(len(str(value).split()) for value in values) >= FEWEST_WORDS


def _only(found: list[str], what: str, key: str, path: Path, names: list[str]) -> str:
    if len(found) != 1:
        raise InputError(f"{KEY}={str(path)!r}: which column is the {what}? Set {key}, one of {', '.join(found or names)}")
    return found[0]
