"""What is said of the rows of a task before a run: too few classes, rows that are in train and validation, odd labels."""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.data import one_file
from harness.data.labels import BITS, plain
from harness.tasks.base import Examples
from harness.tasks.rows import HIDDEN, WITH_CLASSES
from harness.tasks.tagging import scheme_of

LISTED = 5
"""Maximum number of labels or columns in a note."""

SEVERAL = 0.01
"""Texts with several labels or in quotation marks that are named, as a share of the rows."""

LIKE_MISSING = ("nan", "inf", "-inf", "na", "n/a", "#n/a", "<na>", "null", "None", "-", "?", str(HIDDEN))
"""Labels that other programs write where there is none."""

QUOTED_TEXT = re.compile(r"""\s*"[^"]*""(?:[^"]|"")*"\s*|\s+"[^"]*"\s*""")
"""A text with the quotation marks of a table: one inside of it is doubled, or a blank stands before them."""

IN_TSV = ": those of a .tsv quote in a .csv alone, without a blank before them"
SEPARATOR, QUOTED = re.compile(r"\s*[|;,/+&]\s*"), re.compile(r"""(["']).+\1""", re.DOTALL)


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
    if task.kind is TaskKind.classification and "train" in splits and not (task.grammar or task.pairs):
        texts = [*_texts(splits["train"])]
        counts = Counter(text for text, _ in {*zip(texts, splits["train"].labels, strict=True)})
        if (twofold := sum(count > 1 for count in counts.values())) > SEVERAL * len(texts):
            same = f"{twofold:,} of {len(counts):,} texts of train"
            notes.append(f"warning: {same} have several labels each, in rows that are equal but for case and blanks")
    if task.kind is TaskKind.multilabel and all(len(labels) < 2 for examples in splits.values() for labels in examples.labels):
        notes.append(
            "warning: no row has several labels: set task.label_separator if one of its texts is several, or task.kind"
        )
    if task.kind in (TaskKind.regression, TaskKind.similarity):
        notes += [
            f"warning: all rows of {name} have the label {examples.labels[0]:g}: scores are not meaningful"
            for name, examples in splits.items()
            if {*examples.labels} - {HIDDEN} == {*examples.labels[:1]}
        ]
    if task.kind is TaskKind.tokens:
        schemes = {name: scheme_of([[task.labels[tag] for tag in tags] for tags in of.labels]) for name, of in splits.items()}
        if len(used := {*schemes.values()} - {""}) > 1:
            several = ", ".join(f"{name} {scheme}" for name, scheme in schemes.items() if scheme)
            notes.append(f"warning: tags are in different schemes ({several}): write them in one")
        notes += [f"tags are in the scheme {scheme}" for scheme in used - {"IOB2"} if len(used) == 1]
    for name, examples in splits.items():
        quoted = sum(any(map(QUOTED_TEXT.fullmatch, texts)) for texts in examples.texts)
        if task.train_file and quoted > SEVERAL * len(examples.texts):  # QQP of GLUE has such texts
            notes.append(f"warning: the quotation marks around {quoted:,} texts of {name} are read as part of them{IN_TSV}")
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
    unread = f" (not read: {_listed(others, str)})" if (others := one_file.unread(task)) else ""
    how = (
        "in file order" if config.data.split_seed is None else f"stratified by label, data.split_seed={config.data.split_seed}"
    )
    return [f"{columns} of {task.file}{unread}; {counts[0]} train, {counts[-1]} evaluate ({how})"]


def of_lengths(task: TaskConfig, cut: dict[str, float]) -> list[str]:
    """What is said of truncated texts, from their share in each split; those of exactly the maximum length are whole."""
    of_splits = [f"{100 * share:.3g} % of the texts of {name}" for name, share in cut.items() if share > SEVERAL]
    return (
        [f"{' and '.join(of_splits)} are longer than task.max_length={task.max_length} tokens and are cut"] if of_splits else []
    )


def leaks(task: TaskConfig, splits: dict[str, Examples]) -> dict[str, float]:
    """Split -> share of its rows whose texts are in train, case and blanks aside; empty where none are read or trained on."""
    if task.grammar or task.pairs or "train" not in splits:
        return {}
    trained = {*_texts(splits["train"])}
    others = {name: [text in trained for text in _texts(examples)] for name, examples in splits.items() if name != "train"}
    return {name: sum(shared) / len(shared) for name, shared in others.items()}


def _texts(examples: Examples) -> Iterator[int]:
    """Hashes, which take less memory than the texts."""
    return (hash(plain("\n".join(texts))) for texts in examples.texts)


def _classes(examples: Examples) -> set[int]:
    of_rows = (label if isinstance(label, list) else [label] for label in examples.labels)
    return {number for numbers in of_rows for number in numbers} - {HIDDEN}


def _of_names(names: list[str]) -> Iterator[str]:
    twins: dict[str, dict[str, str]] = {}
    for name in names:
        number = text = plain("".join(letter for letter in name if unicodedata.category(letter) != "Cf"))
        with contextlib.suppress(ValueError):
            number = str(float(BITS.get(text, text)))
        twins.setdefault(number, {})[name] = text
        if {name, name.casefold()} & {*LIKE_MISSING}:
            yield f"warning: {name!r} is read as the name of a class: leave empty what has no label"
        if len(parts := SEPARATOR.split(name)) > 1 and {*parts} <= {*names}:
            yield (
                f"warning: {name!r} is read as one class, and so is each of its parts: several labels need "
                "task.kind=multilabel and task.label_separator"
            )
        if QUOTED.fullmatch(name):
            yield f"warning: the quotation marks of {name} are read as part of the label{IN_TSV}"
    decimals = {re.sub(r"^-?\d+\.", "", number) for number in twins}
    if decimals - {"0"} and all(map(str.isdecimal, decimals)):
        yield f"warning: the labels {_listed(names)} are numbers and read as classes: for numbers set task.kind=regression"
    for alike in twins.values():
        if len(alike) > 1:
            how = "case, blanks or ways to write a letter alone" if len({*alike.values()}) == 1 else "how a number is written"
            how = "case alone" if len({name.lower() for name in alike}) == 1 else how
            yield f"warning: the labels {_listed([*alike], ascii)} differ in {how} and are several classes"


def _listed(names: list[str], written: Callable[[str], str] = repr) -> str:
    return ", ".join(map(written, names[:LISTED])) + (", ..." if len(names) > LISTED else "")
