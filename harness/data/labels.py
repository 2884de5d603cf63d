"""Labels as files write them: missing ones, names of classes, and several labels of one text in any of their forms."""

import ast
import contextlib
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.errors import InputError, checked

SEPARATORS = ("|", ";", ",")
"""Between the labels of a text in a file that has no lists; the first one is what is written."""

LIST = re.compile(r"""\[.*\]|[({]\s*['"].*[)}]""", re.DOTALL)
"""A list as Python or JSON text."""

BITS = {"0": False, "1": True, "false": False, "true": True}
"""Labels of a text that has one or not."""


def is_missing(label: object) -> bool:
    """Whether the label is missing: null or NaN."""
    return label is None or label != label


def name_of(label: object) -> str:
    """Name of a class; a whole number has one name, whether a column with missing values made it a float or not."""
    return str(int(label) if isinstance(label, float) and label.is_integer() else label).strip()


def plain(text: str) -> str:
    """The text normalised for comparison: case, white space and Unicode forms."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def as_number(label: object) -> object:
    """The number that a text such as `1.0` denotes."""
    return float(label) if isinstance(label, str) and re.fullmatch(r"\s*-?\d{1,15}\.0*\s*", label, re.ASCII) else label


def _bit(value: object) -> bool | None:
    """None for what is neither 0 nor 1."""
    return BITS.get(name_of(as_number(value)).lower())


def several(task: TaskConfig, column: list[Any], place: Callable[[int], str]) -> tuple[list[list[Any] | None], list[str]]:
    """Lists of the labels of each row, None where they are missing; and the names of all labels where the form states them.

    Read are lists of names or numbers, also as text; lists with a 0 or 1 for each label; and names between separators.
    InputError for what is ambiguous.
    """
    separator = _separator(task, column, place(0).rpartition(",")[0] if column else "")

    def of_row(row: int, value: object) -> list[Any] | None:
        if is_missing(value):
            return None
        if isinstance(value, str):
            return _of_text(value.strip(), separator, task, place(row))
        return [*value] if isinstance(value, list | tuple) else [value]

    lists = checked(column, of_row)
    width, *others = {len(values) for values in lists if values is not None} or {0}
    bits = [[*map(_bit, values)] for values in lists if values is not None]
    if others or width < 2 or any(None in row for row in bits):
        return checked(lists, lambda row, values: _each_once(values, place(row))), []
    names = task.labels or [str(number) for number in range(width)]
    if len(names) != width:
        raise InputError(
            f"{place(0)}: lists of {width} zeros and ones in {task.label!r} (task.label), but task.labels has {len(names)}: "
            "name each place of the lists"
        )
    if width == 2 and all(row.count(True) == 1 for row in bits):  # numbers of two labels look like this, too
        raise InputError(
            f"{place(0)}: {lists[0]!r} in {task.label!r} (task.label) may be two labels, or a 0 or 1 for each: expected names, "
            "or a column of 0 and 1 for each label (task.labels)"
        )
    each = iter(bits)
    return [None if row is None else [n for n, bit in zip(names, next(each), strict=True) if bit] for row in lists], names


def _each_once(values: list[Any] | None, where: str) -> list[Any] | None:
    if any(
        is_missing(value) or isinstance(value, list | dict) or value % 1 for value in values or () if not isinstance(value, str)
    ):
        raise InputError(f"{where}: expected names of labels in a list, or a 0 or 1 for each label, got {values!r:.60}")
    if values is not None and len({name_of(value) for value in values}) < len(values):
        raise InputError(
            f"{where}: a row names a label twice, {values!r:.60}; zeros and ones need lists of one length, a place for each "
            "label, and task.labels=[...]"
        )
    return values


def _of_text(text: str, separator: str, task: TaskConfig, where: str) -> list[Any]:
    if re.fullmatch(r"[01](\s+[01])+", text):
        return text.split()
    if LIST.fullmatch(text):
        for parse in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                values = parse(text)
                if isinstance(values, list | tuple | set) and not re.search(
                    r"""['"]\s+['"]""", text
                ):  # names that numpy prints
                    return [*values]
        raise InputError(
            f"{where}: {text[:60]!r} in {task.label!r} (task.label) is not a list: expected [\"a\", \"b\"], ['a', 'b'] or a|b"
        )
    if text in task.labels or not separator:
        return [text] if text else []
    return [part.strip() for part in text.split(separator) if part.strip()]


def _separator(task: TaskConfig, column: list[Any], where: str) -> str:
    """task.label_separator, else the one that the texts have; empty where they have none.

    Where labels are known, it is one that leaves no unknown label. InputError where it is not clear.
    """
    if task.label_separator is not None:
        return task.label_separator
    texts = {value.strip() for value in column if isinstance(value, str)}
    texts = {text for text in texts if text not in task.labels and not LIST.fullmatch(text)}
    used = [separator for separator in SEPARATORS if any(separator in text for text in texts)]
    if used and not task.labels and used[0] != SEPARATORS[0]:
        which = " or ".join(map(repr, used))
        raise InputError(
            f"{where}: the separator of the labels in {task.label!r} (task.label) is ambiguous ({which}?): "
            f"set task.label_separator='{used[0]}', or task.label_separator='' where a text has one label"
        )
    known = {*task.labels, ""}
    fitting = [s for s in used if all(part.strip() in known for text in texts for part in text.split(s))]
    return (fitting or used or [""])[0]


def strata(task: TaskConfig, column: list[Any], place: Callable[[int], str]) -> list[str]:
    """What the rows of a split are stratified by: the class, or the rarest of several labels; one stratum without classes."""
    if task.kind is TaskKind.multilabel:
        lists = [[*map(name_of, values or ())] for values in several(task, column, place)[0]]
        times = Counter(name for names in lists for name in names)
        return [min(names, key=lambda name: (times[name], name), default="") for names in lists]
    return [name_of(label) if task.kind in (TaskKind.classification, TaskKind.minimal_pairs) else "" for label in column]


def order(strata: list[str], seed: int) -> list[int]:
    """Row numbers in an order of which every beginning, and every other part, has the strata in their shares.

    The first row of each stratum is at the beginning, so that few rows have them all.
    """
    draw = random.Random(seed)
    of_stratum: dict[str, list[int]] = {}
    keys = [draw.random() for _ in strata]
    for row in sorted(range(len(strata)), key=keys.__getitem__):
        of_stratum.setdefault(strata[row], []).append(row)
    places = {
        row: (place + 0.5) / len(rows) if place else -1.0 for rows in of_stratum.values() for place, row in enumerate(rows)
    }
    return sorted(places, key=places.__getitem__)


def of_columns(names: list[str], columns: dict[str, list[Any]], place: Callable[[int], str]) -> list[list[str]]:
    """The labels of each row where each label has a column of 0 and 1; InputError for another value."""

    def of_row(row: int, values: tuple[Any, ...]) -> list[str]:
        bits = [*map(_bit, values)]
        if None in bits:
            at = bits.index(None)
            raise InputError(f"{place(row)}: expected 0 or 1 in column {names[at]!r} (task.labels), got {values[at]!r:.60}")
        return [name for name, bit in zip(names, bits, strict=True) if bit]

    return checked(zip(*(columns[name] for name in names), strict=True), of_row)
