"""The user's own files of rows: .csv, .tsv, .jsonl and .parquet, looked through before a loader guesses at what is torn.

In a .tsv a quotation mark is a character like any other, as in GLUE's own files; in a .csv it quotes.
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from harness.errors import InputError, unknown

LOADERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".parquet": "parquet"}
"""Loader of `datasets` by the end of a file's name."""


def loader(path: Path, key: str) -> str:
    """The loader for this file; InputError when there is no such file or no loader for it."""
    if not path.is_file():
        raise InputError(f"{key}={str(path)!r} is not a file")
    if path.suffix.lower() not in LOADERS:
        raise unknown("kind of file", path.suffix or path.name, LOADERS, key)
    if not path.stat().st_size:
        raise InputError(f"{key}={str(path)!r} is empty")
    return LOADERS[path.suffix.lower()]


def options(path: Path, columns: set[str]) -> dict[str, Any]:
    """How the loader is to read it: nothing is guessed to be missing, and the columns that are used stay text."""
    if LOADERS[path.suffix.lower()] != "csv":
        return {}
    told = {"keep_default_na": False, "converters": dict.fromkeys(sorted(columns), str)}
    return told | ({"sep": "\t", "quoting": csv.QUOTE_NONE} if path.suffix.lower() == ".tsv" else {})


def refuse_torn(path: Path, where: str, key: str) -> None:
    """InputError that names the line, or the file where there are none, that is not what the file's name says."""
    if path.suffix.lower() == ".parquet":
        if torn_parquet(path):
            raise InputError(f"{where}: {path} is not a readable parquet file; restore it or change {key}")
        _refuse_no_rows(path, where, key)
        return
    _refuse_other_bytes(path, where, key)
    if path.suffix.lower() == ".jsonl":
        _refuse_broken_json(path, where, key)
    else:
        _refuse_ragged(path, where, key)


def torn_parquet(place: Path) -> Path | None:
    """The first file at or below this place that is not whole."""
    for path in [place] if place.is_file() else sorted(place.rglob("*.parquet")):
        try:
            parquet.read_table(path)
        except (pyarrow.ArrowException, OSError):
            return path
    return None


def _refuse_no_rows(path: Path, where: str, key: str) -> None:
    if not parquet.read_metadata(path).num_rows:
        raise InputError(f"{where}: there are no rows in the file of {key}")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from enumerate(file, 1)


def _refuse_other_bytes(path: Path, where: str, key: str) -> None:
    for number, line in _lines(path):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x}"
            raise InputError(f"{where}, line {number}: {byte} is not UTF-8; save the file of {key} as UTF-8") from error
        if b"\0" in line:
            raise InputError(f"{where}, line {number}: there is a NUL byte; remove it from the file of {key}")


def _refuse_broken_json(path: Path, where: str, key: str) -> None:
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except json.JSONDecodeError as error:
            raise InputError(f"{where}, line {number}: not JSON ({error.msg}); mend the file of {key}") from error
        if not isinstance(row, dict):
            raise InputError(f"{where}, line {number}: expected an object, got {line[:40]!r}; mend the file of {key}")


def _refuse_ragged(path: Path, where: str, key: str) -> None:
    csv.field_size_limit(sys.maxsize)  # a text may be longer than the module's 131,072 characters
    told = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix.lower() == ".tsv" else {"strict": True}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, **told)
        try:
            header = next((row for row in reader if row), [])
            for row in reader:
                if row and len(row) != len(header):
                    columns = f"{len(row)} columns, but the header has {len(header)}"
                    raise InputError(f"{where}, line {reader.line_num}: {columns}; mend the file of {key}")
        except csv.Error as error:
            raise InputError(f"{where}, line {reader.line_num}: {error}; mend the file of {key}") from error
    if len(set(header)) < len(header):
        raise InputError(f"{where}: two columns of the header {header} have one name; mend the file of {key}")
