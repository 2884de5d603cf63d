"""What is said of the rows of a task before a run: too few classes, rows that are in train and validation, odd labels."""

import unicodedata
from collections.abc import Callable, Iterator

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.tasks.base import Examples
from harness.tasks.rows import HIDDEN, WITH_CLASSES
from harness.tasks.tagging import scheme_of

LISTED = 5
"""Maximum number of labels in a note."""

LIKE_MISSING = ("nan", "n/a", "<na>", "null", str(HIDDEN))
"""Labels that other programs write where there is none."""


def of_rows(task: TaskConfig, splits: dict[str, Examples], leaked: dict[str, float]) -> list[str]:
    """Notes on the splits that are trained on or scored, of which the first is `train` where there is one.

    `leaked` are the shares of `leaks`.
    """
    notes: list[str] = []
    if task.kind in WITH_CLASSES:
        notes += _of_names(task.labels)
        classes = {name: _classes(examples) for name, examples in splits.items()}
        for name, found in classes.items():
            if task.kind is TaskKind.classification and len(found) == 1:
                notes.append(
                    f"warning: all rows of {name} have the label {task.labels[min(found)]!r}: scores are not meaningful"
                )
            if name != "train" and "train" in classes and (new := sorted(found - classes["train"])):
                notes.append(f"warning: {name} has rows of {_listed([task.labels[label] for label in new])}, which train lacks")
    if task.kind is TaskKind.multilabel and all(len(labels) < 2 for examples in splits.values() for labels in examples.labels):
        notes.append(
            "warning: no row has several labels: set task.label_separator if one of its texts is several, or task.kind"
        )
    if task.kind is TaskKind.regression:
        constant = [name for name, examples in splits.items() if {*examples.labels} - {HIDDEN} == {*examples.labels[:1]}]
        notes += [
            f"warning: all rows of {name} have the label {splits[name].labels[0]:g}: scores are not meaningful"
            for name in constant
        ]
    if task.kind is TaskKind.tokens:
        (name, first), *_ = splits.items()
        scheme = scheme_of([[task.labels[tag] for tag in tags] for tags in first.labels])
        notes += [] if scheme == "IOB2" else [f"tags of {name} are in the scheme {scheme}"]
    for name, share in leaked.items():
        if share:
            same = f"{100 * share:.3g} % of the rows of {name} are in train, too, but for case and blanks"
            notes.append(f"warning: {same}: their scores measure memory")
    return notes


def of_file(config: RunConfig, splits: dict[str, Examples]) -> list[str]:
    """What is read of the one file of a task, and how it is split; empty for any other task."""
    task, counts = config.task, [f"{len(examples.items):,} rows" for examples in splits.values()]
    if not task.file:
        return []
    columns = f"{' and '.join(task.fields)} is read as text, {task.label} as the label"
    how = (
        "in file order" if config.data.split_seed is None else f"stratified by label, data.split_seed={config.data.split_seed}"
    )
    return [f"{columns} of {task.file}; {counts[0]} train, {counts[-1]} evaluate ({how})"]


def leaks(task: TaskConfig, splits: dict[str, Examples]) -> dict[str, float]:
    """Split -> share of its rows whose texts are in train, case and blanks aside; empty where none are read or trained on."""
    if task.grammar or task.pairs or "train" not in splits:
        return {}
    trained = {*_texts(splits["train"])}
    others = {name: [text in trained for text in _texts(examples)] for name, examples in splits.items() if name != "train"}
    return {name: sum(shared) / len(shared) for name, shared in others.items()}


def _texts(examples: Examples) -> Iterator[int]:
    """Hashes, which take less memory than the texts."""
    return (hash(" ".join("\n".join(texts).casefold().split())) for texts in examples.texts)


def _classes(examples: Examples) -> set[int]:
    of_rows = (label if isinstance(label, list) else [label] for label in examples.labels)
    return {number for numbers in of_rows for number in numbers} - {HIDDEN}


def _of_names(names: list[str]) -> Iterator[str]:
    twins: dict[str, list[str]] = {}
    for name in names:
        plain = "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
        twins.setdefault(" ".join(plain.casefold().split()), []).append(name)
        if name.casefold() in LIKE_MISSING:
            yield f"warning: {name!r} is read as the name of a class: leave empty what has no label"
    for alike in twins.values():
        if len(alike) > 1:
            how = "case alone" if len({name.lower() for name in alike}) == 1 else "case, blanks or ways to write a letter alone"
            yield f"warning: the labels {_listed(alike, ascii)} differ in {how} and are several classes"


def _listed(names: list[str], written: Callable[[str], str] = repr) -> str:
    return ", ".join(map(written, names[:LISTED])) + (", ..." if len(names) > LISTED else "")
