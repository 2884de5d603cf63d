"""Rows of a task as columns: generated, or loaded by `harness/data/sources.py`; labels as numbers, everything checked."""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from harness.config.choices import TaskKind
from harness.config.conditions import ranks_a_corpus
from harness.config.resolve import OWN
from harness.config.schema import RunConfig, TaskConfig, key_of
from harness.data import labels as label_forms
from harness.data import retrieval, sources
from harness.data.labels import as_number, is_missing, name_of
from harness.data.sources import Loaded
from harness.errors import InputError, Mistakes, checked, has_half_characters, present, unknown
from harness.tasks.synthetic import families, paradigms

NUMBERED = ("idx", "id")
"""Values of `task.item` for which the data set may lack the column: the rows are then numbered."""

PARADIGM = "UID"
"""BLiMP's value of `task.label`: pairs may lack the column, and are then of one paradigm."""

HIDDEN = -1
"""Label of a test row that the benchmark does not publish."""

LISTED = 20
"""Maximum number of labels in an error."""

NO_NAMES = (list, tuple, dict, bytes)
"""Types of values that are no labels of a class."""

ONE_LABEL = (TaskKind.classification, TaskKind.multiple_choice)
"""Kinds of tasks with one class for each row."""

WITH_CLASSES = (TaskKind.classification, TaskKind.multiple_choice, TaskKind.multilabel, TaskKind.tokens)
"""Kinds of tasks whose labels have names."""


@dataclass
class Table:
    """One split: the checked columns of `task.fields` and `task.label`."""

    columns: dict[str, list[Any]]
    items: list[int] | list[str]  # ids of the rows
    where: str  # prefix of error messages: task and split
    places: list[str] = field(default_factory=list)  # of each row in error messages; empty: their numbers
    notes: list[str] = field(default_factory=list)  # what is read otherwise than it stands there
    origin: str = ""  # of `Loaded`
    corpus: dict[str, str] = field(default_factory=dict)  # of a retrieval: id -> text of each document that is ranked
    has_class_names: bool = False  # the data set's own

    def place(self, row: int) -> str:
        """The row in error messages."""
        return self.places[row] if self.places else f"{self.where}, row {row}"


def with_labels(config: RunConfig) -> RunConfig:
    """The run with the names of its classes: those of `task.labels`, else of the data set, else of the labels of train.

    Labels that are whole numbers are in their order, others in that of Unicode. InputError for a column of numbers.
    """
    task = config.task
    if task.labels or task.kind not in WITH_CLASSES or not (sources.is_own(task) or task.dataset or task.hub or task.folder):
        return config
    loaded = sources.load(config, "train")
    column, stated = _label_column(task, loaded, "train"), loaded.class_names or []
    if task.kind is TaskKind.multilabel and not stated:
        column, stated = label_forms.several(task, column, loaded.place)
    names = [*stated] or [*_names(column)]
    if len(names) > max(LISTED, len(column) / 2):
        raise InputError(
            f"{loaded.where}: column {task.label!r} (task.label) has {len(names):,} labels in {len(column):,} rows; "
            "for numbers set task.kind=regression, or list task.labels"
        )
    lists = [label for label in column if isinstance(label, list)] + [*filter(label_forms.LIST.fullmatch, names)]
    if not stated and lists and task.kind in ONE_LABEL:
        raise InputError(
            f"{loaded.where}: {lists[0]!r:.60} in {task.label!r} (task.label) is a list: set task.kind=multilabel, or list "
            "task.labels if it is a name"
        )
    if not stated and task.kind is TaskKind.multiple_choice and not all(re.fullmatch(r"\d+|\w", name) for name in names):
        raise InputError(
            f"{loaded.where}: expected numbers or letters of endings in {task.label!r} (task.label), got "
            f"{max(names, key=len)!r:.60}; for names, list task.labels in the order of the endings"
        )
    if not stated:
        names.sort(key=lambda name: (0, int(name), name) if re.fullmatch(r"[+-]?\d+", name, re.ASCII) else (1, 0, name))
    return replace(config, task=replace(task, labels=names))


_kinds: dict[str, TaskKind | None] = {}


def kind_by_features(config: RunConfig) -> TaskKind | None:
    """The kind of task that the columns of `task.dataset` leave no doubt of; None where it is stated or they leave one.

    InputError for a data set that cannot be loaded.
    """
    task, stated = config.task, {*map(key_of, config.overrides), *chain(*config.said_keys.values())}
    if task.name != OWN or not task.dataset or task.labels or "task.kind" in stated or task.kind is not TaskConfig.kind:
        return None
    key = repr((task, config.data))
    if key not in _kinds:
        features = sources.load(
            replace(config, task=replace(task, kind=TaskKind.spans)), "train"
        ).features  # which may be lists
        label, *texts = (sources.feature(features, name) for name in (task.label, *task.fields))
        inner, are_lists = getattr(label, "feature", label), [hasattr(text, "feature") for text in texts]
        kinds = {
            TaskKind.spans: isinstance(inner, dict) and "answer_start" in inner,
            TaskKind.regression: str(getattr(label, "dtype", "")).startswith("float"),
            TaskKind.tokens: inner is not label and hasattr(inner, "names") and are_lists == [True],
            TaskKind.multiple_choice: inner is label is not None and are_lists == [False, True],
        }
        _kinds[key] = next((kind for kind, is_it in kinds.items() if is_it), None)
    return _kinds[key]


def _names(column: list[Any]) -> set[str]:
    """The names of classes in a column of labels or of lists of them; what is missing is a mistake, and no class."""
    of_rows = (label if isinstance(label, list) else [label] for label in column)
    labels = (label for labels in of_rows for label in labels)
    return {name_of(label) for label in labels if not is_missing(label) and not isinstance(label, NO_NAMES)} - {""}


def load_table(config: RunConfig, split: str, are_ordered: bool = True) -> Table:
    """The rows of `train`, `validation`, `tune`, `test`, or of a name in `task.more_validation` or `task.more_submission`.

    Fields are texts, or lists of words for kind `tokens`. Labels are class numbers, lists of them for `tokens`, numbers for a
    regression, and unchanged for `spans`; labels of `test` may be HIDDEN. InputError names file, row and key of invalid data.
    Unless the classes `are_ordered`, by the user or the data set, numbers are not classes.
    """
    task = config.task
    if ranks_a_corpus(task):
        return _judged(config, split)
    loaded = _generated(task, split) if task.grammar or task.pairs else sources.load(config, split)
    mistakes, columns, items = Mistakes(), {}, []
    for name in task.fields:
        with mistakes.collected():
            columns[name] = _column(loaded, name, "task.fields")
    with mistakes.collected():
        columns[task.label] = _label_column(task, loaded, split)
    with mistakes.collected():
        items = _items(task, loaded, split)
    mistakes.refuse()
    if task.kind is TaskKind.multilabel and not loaded.class_names:
        columns[task.label] = label_forms.several(task, columns[task.label], loaded.place)[0]
    selected = _chosen(config, split, loaded, columns)
    columns = {name: [values[row] for row in selected] for name, values in columns.items()}
    table = Table(columns, [items[row] for row in selected], loaded.where, [*map(loaded.place, selected)], [], loaded.origin)
    table.has_class_names = bool(loaded.class_names)
    for name in task.fields:
        with mistakes.collected():
            _refuse_other_than_text(task, name, table)
    padded = sum(isinstance(label, str) and label != label.strip() for label in columns[task.label])
    with mistakes.collected():
        columns[task.label] = _labels(task, table, loaded.class_names, split, are_ordered)
    mistakes.refuse()
    if padded and task.kind in WITH_CLASSES:
        table.notes.append(f"{split}: blanks around {padded:,} labels in {task.label!r} are left out")
    return table


def _judged(config: RunConfig, split: str) -> Table:
    """One row per query; its label is the grade above 0 of each relevant document, by the number of the document."""
    judged, data = retrieval.load(config, split), config.data
    numbers = {name: number for number, name in enumerate(judged.corpus)}
    chosen = _limited([""] * len(judged.queries), data.validation_examples, data.split_seed)
    names = [*judged.queries]
    items = [names[row] for row in chosen]
    grades = [{numbers[name]: grade for name, grade in judged.grades[item].items() if grade > 0} for item in items]
    columns: dict[str, list[Any]] = {config.task.fields[0]: [judged.queries[item] for item in items], config.task.label: grades}
    return Table(columns, items, judged.where, origin=judged.origin, corpus=judged.corpus)


def load_languages(config: RunConfig) -> list[str]:
    """All texts of `task.languages`, at most data.train_examples rows of each; labels are not read."""
    task, texts = config.task, []
    for language in task.languages:
        loaded = sources.load(config, sources.text_of(language))
        loaded = loaded.part(_limited([""] * loaded.count, config.data.train_examples, config.data.split_seed))
        columns = [_column(loaded, name, "task.fields") for name in task.fields]
        for name, values in zip(task.fields, columns, strict=True):
            _refuse_other_than_text(task, name, Table({name: values}, [], loaded.where))
        rows = (value for row in zip(*columns, strict=True) for value in row)
        texts += [word for value in rows for word in (value if isinstance(value, list) else [value])]
    return texts


def _generated(task: TaskConfig, split: str) -> Loaded:
    source = {"train": "train", "tune": "train", "validation": "validation"}.get(split)
    if source is None:
        raise InputError(f"task {task.name!r} has no split {split!r}: a generated task has train, tune and validation")
    if task.grammar:
        families.refuse_cut(task.grammar, task.max_length)
    rows = families.generate(task.grammar, source) if task.grammar else paradigms.generate(present(task.pairs), source)
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    return Loaded(columns, None, f"task {task.name!r}, {split}")


def _column(loaded: Loaded, name: str, key: str) -> list[Any]:
    """The values of a column; for `a+b` the texts of both columns joined."""
    parts = [name] if name in loaded.columns else name.split("+")
    for part in parts:
        if part not in loaded.columns:
            raise unknown(f"column of {loaded.where}:", part, [*loaded.columns, *loaded.unread], key)
    values = [loaded.columns[part] for part in parts]
    return values[0] if len(parts) == 1 else [*map(joined, zip(*values, strict=True))]


def joined(texts: Sequence[object]) -> str | None:
    """The texts of several columns as one; None where one of them is missing."""
    return None if any(map(is_missing, texts)) else ": ".join(map(str, texts))


def _label_column(task: TaskConfig, loaded: Loaded, split: str) -> list[Any]:
    """The column of labels; HIDDEN in every row of a test split without labels, the task where pairs have no paradigm."""
    if task.kind is TaskKind.minimal_pairs and task.label == PARADIGM and PARADIGM not in loaded.columns:
        return [task.name] * loaded.count
    if task.kind is TaskKind.retrieval:
        return _column(loaded, task.fields[-1], "task.fields")
    if _is_hidden(task, split) and task.label not in loaded.columns:
        return [HIDDEN] * loaded.count
    if task.kind is TaskKind.multilabel and task.label not in loaded.columns:
        there, form = ", ".join([*loaded.columns, *loaded.unread]), "a column of 0 and 1 for each label"
        raise InputError(
            f"{loaded.where}: there is no column {task.label!r} (task.label), only {there}; for {form} set task.labels=[NAMES]"
        )
    return _column(loaded, task.label, "task.label")


def _items(task: TaskConfig, loaded: Loaded, split: str) -> list[Any]:
    """Unique ids of the rows; their numbers where the data set has no ids, or where parts of several splits are joined."""
    is_joined = not (task.grammar or task.pairs) and "+" in sources.part_of(task, split)
    if is_joined or not task.item or (task.item not in loaded.columns and task.item in NUMBERED):
        return list(range(loaded.count))
    items = _column(loaded, task.item, "task.item")
    first: dict[object, int] = {}

    def different(row: int, item: object) -> object:
        if isinstance(item, bool) or not isinstance(item, (int, str)):
            raise InputError(f"{loaded.place(row)}: expected a number or text in task.item={task.item!r}, got {item!r:.60}")
        if first.setdefault(item, row) != row:
            before = loaded.place(first[item]).removeprefix(f"{loaded.where}, ")
            same = f"the same {task.item} {item!r} as {before}"
            raise InputError(f"{loaded.place(row)}: {same}; fix the data or set task.item to a column of unique ids")
        return item

    return checked(items, different)


def _chosen(config: RunConfig, split: str, loaded: Loaded, columns: dict[str, list[Any]]) -> list[int]:
    """Numbers of the rows of this split, in order; InputError when there are none. A limited number is stratified by label."""
    task, data = config.task, config.data
    texts, rows = [columns[name] for name in task.fields], list(range(loaded.count))
    if split in ("train", "tune") and task.tune_share:
        texts = texts[-1:] if task.kind is TaskKind.retrieval else texts  # no paragraph is in both
        # decided by a hash of the text: independent of the order of rows, and the same for equal texts
        contents = [json.dumps([task.tune_seed, [column[row] for column in texts]]).encode() for row in rows]
        hashes = [int.from_bytes(hashlib.sha256(content).digest()[:8]) for content in contents]
        rows = [row for row in rows if (hashes[row] < task.tune_share * 2**64) == (split == "tune")]
    elif split == "tune":
        raise InputError(f"{loaded.where}: task.tune_share=0 holds out no rows for tuning: set the share of train")
    if not rows:
        share = f" with task.tune_share={task.tune_share}" if task.tune_share else ""
        raise InputError(f"{loaded.where}: there are no rows{share}")
    limit = data.train_examples if split == "train" else data.validation_examples
    if limit is None or _is_hidden(task, split):
        return rows
    strata = label_forms.strata(task, [columns[task.label][row] for row in rows], lambda row: loaded.place(rows[row]))
    return [rows[place] for place in _limited(strata, limit, data.split_seed)]


def _limited(strata: list[str], limit: int | None, seed: int | None) -> list[int]:
    """Numbers of so many of the rows of these strata, in order."""
    if seed is None or limit is None or limit >= len(strata):
        return list(range(len(strata)))[:limit]
    return sorted(label_forms.order(strata, seed)[:limit])


def _is_hidden(task: TaskConfig, split: str) -> bool:
    """Whether the labels of the split may be unpublished; such a split is predicted whole."""
    return split == "test" or split in task.more_submission


def _refuse_other_than_text(task: TaskConfig, name: str, table: Table) -> None:
    """InputError for rows without text, in files of the user also for empty ones."""
    of_words = task.kind is TaskKind.tokens or lists_endings(task, name)

    def refuse(row: int, value: object) -> None:
        words: list[Any] = value if of_words and isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in words) or (of_words and not isinstance(value, list)):
            expected = (
                f"lists of {'words' if task.kind is TaskKind.tokens else 'texts'}" if of_words else "text in every column"
            )
            raise InputError(f"{table.place(row)}: expected {expected} (task.fields), got {value!r:.60} in {name!r}")
        if any("\0" in word for word in words):
            raise InputError(f"{table.place(row)}: there is a NUL byte in {name!r} (task.fields); remove it from the data")
        if any(map(has_half_characters, words)):
            raise InputError(
                f"{table.place(row)}: expected text in {name!r} (task.fields), got an unpaired surrogate: {value!r:.60}"
            )
        if sources.is_own(task) and not any(word.strip() for word in words):
            raise InputError(f"{table.place(row)}: the text in {name!r} (task.fields) is empty; fill it in or remove the row")

    checked(table.columns[name], refuse)


def lists_endings(task: TaskConfig, name: str) -> bool:
    """Whether the column has all endings of each row of a multiple choice, as a list."""
    return task.kind is TaskKind.multiple_choice and task.fields[1:] == [name]


def _labels(task: TaskConfig, table: Table, class_names: list[str] | None, split: str, are_ordered: bool) -> list[Any]:
    """Labels as class numbers or numbers, as the kind of task needs them."""
    labels = table.columns[task.label]
    if task.kind is TaskKind.minimal_pairs:
        return [*map(str, labels)]
    if task.kind in (TaskKind.regression, TaskKind.similarity):
        return checked(labels, lambda row, label: _number(task, label, table.place(row)))
    if task.kind not in WITH_CLASSES:
        return labels
    _refuse_other_names(task, table, class_names)
    if not task.labels:  # those of the rows have been refused
        return labels
    hidden, several = _is_hidden(task, split), task.kind is TaskKind.multilabel
    are_numbers = any(re.fullmatch(r"[+-]?\d+(\.\d*)?", name.strip()) for name in task.labels)
    by_name = not class_names and (are_numbers or not are_ordered)
    numbers = {name_of(as_number(name)): number for number, name in enumerate(task.labels)}
    numbers |= {name.strip(): number for number, name in enumerate(task.labels)}

    def one(place: str, label: object) -> int:
        """The name itself, or the same number otherwise written; else the number of a class."""
        if isinstance(label, str) or not (class_names or is_missing(label) or isinstance(label, NO_NAMES)):
            for name in (name_of(label), name_of(as_number(label))):
                if name in numbers:
                    return numbers[name]
        return _class_number(task, label, place, by_name)

    def number_of(row: int, label: Any) -> object:
        place = table.place(row)
        if isinstance(label, list) and task.kind is TaskKind.tokens:
            return [one(place, word) for word in label]
        missing = is_missing(label) or not (several or name_of(label))
        if hidden and (missing or name_of(label) in (str(HIDDEN), f"[{HIDDEN}]")):
            return [] if several else HIDDEN
        if missing:
            raise InputError(f"{place}: there is no label in {task.label!r} (task.label); add it, or remove the row")
        return sorted({one(place, name) for name in label}) if several else one(place, label)

    return checked(labels, number_of)


def _refuse_other_names(task: TaskConfig, table: Table, class_names: list[str] | None) -> None:
    """InputError when no row has a label, and for other names than those of the data set, whose numbers follow them."""
    if not (task.labels or class_names or _names(table.columns[task.label])):
        got = next((f", which is a name or number: got {one!r:.60}" for one in table.columns[task.label] if one), "")
        raise InputError(f"{table.where}: no row has a label in {task.label!r} (task.label){got}")
    if task.labels and class_names and class_names != task.labels:
        raise InputError(f"task.labels={task.labels} of task {task.name!r} must be the data set's own: {class_names}")


def _class_number(task: TaskConfig, label: Any, where: str, by_name: bool) -> int:
    """The label as a class number, also when it was read as text; InputError for any other label, and `by_name` for all."""
    label = as_number(label)
    if by_name or (isinstance(label, str) and not re.fullmatch(r"-?\d+", label)):
        hint = "; in YAML, quote yes, no, on and off" if {"True", "False"} & {*task.labels} else ""
        raise InputError(f"{unknown(f'label of {where}:', label, task.labels, 'task.labels')}{hint}")
    try:
        number = int(label) if int(label) == float(label) else -1
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number < len(task.labels):
        hint = "; for lists set task.kind=multilabel" if isinstance(label, list) else ""
        hint = " (hidden labels?)" if label in (HIDDEN, str(HIDDEN)) else hint
        raise InputError(f"{where}: label {label!r:.60} is not among 0 to {len(task.labels) - 1}, task.labels{hint}")
    return number


def _number(task: TaskConfig, label: object, where: str) -> float:
    number = math.nan
    if isinstance(label, (int, float, str)) and not isinstance(label, bool) and "_" not in str(label):  # Python reads 1_000
        with contextlib.suppress(ValueError):
            number = float(label)
    if not abs(number) < 2.0**128:  # nan, or infinite as float32
        raise InputError(f"{where}: expected a number in column {task.label!r} (task.label), got {label!r:.60}")
    return number
