"""Rows of a user's text file: .txt, one text or pair a line, or .csv, .tsv, .jsonl by the names of their columns."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.config.choices import TaskKind
from harness.errors import InputError, has_half_characters, on_one_line

if TYPE_CHECKING:
    from harness.config.texts import TaskConfig

SEPARATOR = " ||| "
"""Between the texts of a pair."""


@dataclass(frozen=True)
class Columns:
    """What is read of a row: one or two texts, or one list of `words`; `whose` says who reads them, in errors."""

    fields: tuple[str, ...]
    whose: str
    words: bool = False

    @classmethod
    def of_task(cls, task: "TaskConfig") -> "Columns":
        """Those that a run on the task reads."""
        return cls(tuple(task.fields), f"task {task.name!r} of the run", task.kind is TaskKind.tokens)


def read_rows(path: Path, columns: Columns) -> Iterator[list[str]]:
    """The texts of each row, one or two, or its words; InputError naming the line that cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from READERS[path.suffix](file, columns, path)
    except UnicodeDecodeError as error:
        raise InputError(f"input={str(path)!r} is not UTF-8 text: {error.reason}") from error


def _lines(file: IO[str], columns: Columns, path: Path) -> Iterator[list[str]]:
    for number, line in enumerate(file, 1):
        texts = line.split() if columns.words else line.strip().split(SEPARATOR)
        if not texts or not all(text.strip() for text in texts):
            raise InputError(f"input={str(path)!r} line {number} is empty: expected a text on every line")
        if not columns.words and len(texts) != len(columns.fields):
            raise InputError(
                f"input={str(path)!r} line {number} has {len(texts)} texts, {columns.whose} has {len(columns.fields)}: "
                f"separate the texts of a pair by {SEPARATOR!r}"
            )
        yield texts


def _table(file: IO[str], columns: Columns, path: Path) -> Iterator[list[str]]:
    if columns.words:
        raise InputError(f"input={str(path)!r}: {columns.whose} reads lists of words: expected .jsonl, or .txt with spaces")
    rows = csv.DictReader(file, dialect="excel-tab" if path.suffix == ".tsv" else "excel")
    try:
        for row in rows:
            yield _fields(row, columns, f"input={str(path)!r} line {rows.line_num}")
    except csv.Error as error:
        raise InputError(f"input={str(path)!r} line {rows.line_num} cannot be read: {error}") from error


def _json_lines(file: IO[str], columns: Columns, path: Path) -> Iterator[list[str]]:
    for number, line in enumerate(file, 1):
        where = f"input={str(path)!r} line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{where}: expected an object with {', '.join(columns.fields)}")
        yield _fields(row, columns, where)


READERS = {".txt": _lines, ".csv": _table, ".tsv": _table, ".jsonl": _json_lines}


def _fields(row: dict[str, Any], columns: Columns, where: str) -> list[str]:
    """The values of the fields; `a+b` joins two columns as in training."""
    texts = []
    for name in columns.fields:
        parts = [name] if name in row else name.split("+")
        for part in parts:
            if part not in row:
                there = ", ".join(on_one_line(key) for key in row if key) or "none"
                raise InputError(f"{where} lacks the column {part!r}, which {columns.whose} reads; it has: {there}")
        values = [row[part] for part in parts]
        texts.append(values[0] if len(values) == 1 else ": ".join(map(str, values)))
    if columns.words:
        (texts,) = texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        expected = "a list of words" if columns.words else "text"
        raise InputError(f"{where}: expected {expected} in {', '.join(columns.fields)}, got {texts!r:.60}")
    if any(map(has_half_characters, texts)):
        raise InputError(f"{where}: expected text in {', '.join(columns.fields)}, got half of a character: {texts!r:.60}")
    return texts
