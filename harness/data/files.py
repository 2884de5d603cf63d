"""The user's own files of rows: .csv, .tsv, .jsonl and .parquet, checked before a loader reads them.

In a .tsv a quotation mark is an ordinary character, as in the files of GLUE; in a .csv it quotes.
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow
from pyarrow import parquet

from harness.errors import InputError, Mistakes, unknown

LOADERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".parquet": "parquet"}
"""File extension -> loader of `datasets`."""


def loader(path: Path, key: str) -> str:
    """The loader of this file; InputError when the file is missing, empty or of an unknown kind."""
    if not path.is_file():
        raise InputError(f"{key}={str(path)!r} is not a file")
    if path.suffix.lower() not in LOADERS:
        raise unknown("kind of file", path.suffix or path.name, LOADERS, key)
    if not path.stat().st_size:
        raise InputError(f"{key}={str(path)!r} is empty")
    return LOADERS[path.suffix.lower()]


def options(path: Path, columns: set[str]) -> dict[str, Any]:
    """Options of the loader: no value is read as missing, and the columns that are used stay text."""
    if LOADERS[path.suffix.lower()] != "csv":
        return {}
    as_text = {"keep_default_na": False, "converters": dict.fromkeys(sorted(columns), str)}
    return as_text | ({"sep": "\t", "quoting": csv.QUOTE_NONE} if path.suffix.lower() == ".tsv" else {})


def lines_of_rows(path: Path, where: str, key: str) -> list[int] | None:
    """Line at which each row begins, None for parquet; InputError, with all lines that are wrong, for a file of another kind
    than its name says."""
    if path.suffix.lower() == ".parquet":
        if torn_parquet(path):
            raise InputError(f"{where}: {path} is not a readable parquet file; restore it or change {key}")
        if not parquet.read_metadata(path).num_rows:
            raise InputError(f"{where}: there are no rows in the file of {key}")
        return None
    _refuse_other_bytes(path, where, key)
    return _lines_of_json(path, where, key) if path.suffix.lower() == ".jsonl" else _lines_of_table(path, where, key)


def torn_parquet(place: Path) -> Path | None:
    """The first parquet file in this folder, or this file, that cannot be read; read in batches to bound memory."""
    for path in [place] if place.is_file() else sorted(place.rglob("*.parquet")):
        try:
            with parquet.ParquetFile(path) as file:
                for _ in file.iter_batches():
                    pass
        except (pyarrow.ArrowException, OSError):
            return path
    return None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from enumerate(file, 1)


def _refuse_other_bytes(path: Path, where: str, key: str) -> None:
    mistakes = Mistakes()
    for number, line in _lines(path):
        with mistakes.collected():
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x}"
                raise InputError(f"{where}, line {number}: {byte} is not UTF-8; save the file of {key} as UTF-8") from error
            if b"\0" in line:
                raise InputError(f"{where}, line {number}: there is a NUL byte; remove it from the file of {key}")
    mistakes.refuse()


def _lines_of_json(path: Path, where: str, key: str) -> list[int]:
    mistakes, lines = Mistakes(), [(number, line) for number, line in _lines(path) if line.strip()]
    for number, line in lines:
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except json.JSONDecodeError as error:
            wrong = f"not JSON ({error.msg} at column {error.colno})"
        except RecursionError:
            wrong = "lists or objects are nested too deep"
        except ValueError:
            wrong = f"a number has more than {sys.get_int_max_str_digits():,} digits"
        else:
            wrong = "" if isinstance(row, dict) else f"expected an object, got {line[:40]!r}"
        with mistakes.collected():
            if wrong:
                raise InputError(f"{where}, line {number}: {wrong}; fix the file of {key}")
    mistakes.refuse()
    return [number for number, _ in lines]


def table_reader(file: IO[str], path: Path) -> Any:
    """The reader of the csv module for a .csv or .tsv that is opened as `file`."""
    csv.field_size_limit(sys.maxsize)  # the default limit of 131,072 characters is too low for texts
    is_tsv = path.suffix.lower() == ".tsv"
    return csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if is_tsv else csv.reader(file, strict=True)


def table_error(error: csv.Error) -> str:
    """What is wrong with a row, in words for who has the file."""
    found = str(error)
    return "there is a carriage return without a line feed" if found.startswith("new-line character") else found


def _lines_of_table(path: Path, where: str, key: str) -> list[int]:
    mistakes, lines, header, line = Mistakes(), [], None, 1
    with path.open(encoding="utf-8-sig", newline="\n") as file:  # the only end of a line
        reader = table_reader(file, path)
        with mistakes.collected():
            try:
                for row in reader:
                    if row and header is None:
                        header = row
                    elif row and len(row) != len(header):
                        columns = f"{len(row)} columns, but the header has {len(header)}"
                        with mistakes.collected():
                            raise InputError(f"{where}, line {line}: {columns}; fix the file of {key}")
                    elif row:
                        lines.append(line)
                    line = reader.line_num + 1
            except csv.Error as error:
                raise InputError(f"{where}, line {reader.line_num}: {table_error(error)}; fix the file of {key}") from error
        with mistakes.collected():
            if header and len(set(header)) < len(header):
                raise InputError(f"{where}: two columns of the header {header} have the same name; fix the file of {key}")
    mistakes.refuse()
    return lines
