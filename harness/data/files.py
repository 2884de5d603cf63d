"""The user's own files of rows: tables, JSON, Parquet and columns of words, each format by one reader that checks it.

Values of a table are text: nothing in it is read as a number or as missing. In a .tsv a quotation mark is an ordinary
character, as in the files of GLUE; in a .csv it quotes. A name may end in .gz.
"""

import csv
import gzip
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from harness.errors import InputError, Mistakes, unknown
from harness.extensions import library
from harness.paths import TABLES, WORDS, ending, unique

BATCH = 2048
"""Rows of Parquet in memory at a time."""

Line = tuple[int, str]
Row = tuple[int | None, dict[str, Any]]
"""Line of the file at which the row begins, None where there are none; and its values."""


@dataclass(frozen=True)
class Wanted:
    """The columns that are read; no other one decides anything. `words`: the first of `fields` is a list of words."""

    fields: tuple[str, ...]
    label: str | None = None
    others: tuple[str, ...] = ()
    words: bool = False

    @cached_property
    def names(self) -> list[str]:
        """Each column once; `a+b` names three: itself and both of its parts; `a.b` also the column a."""
        parts = [part for name in self.fields for part in (name, *name.split("+"))]
        names = [*parts, *([self.label] if self.label else []), *self.others]
        return list(dict.fromkeys([*names, *(name.split(".")[0] for name in names)]))


def refuse_unreadable(path: Path, key: str, words: bool) -> None:
    """InputError when the file is missing, empty or of an unknown kind."""
    if not path.is_file():
        raise InputError(f"{key}={str(path)!r} is not a file")
    known = (*TABLES, *WORDS, *((".txt",) if words else ()))
    if ending(path) not in known:
        raise unknown("kind of file", ending(path) or path.name, known, key)
    if ending(path) in WORDS and not words:
        raise InputError(f"{key}={str(path)!r} has one word with its tag per line: set task.kind=tokens, or name another file")
    if not path.stat().st_size:
        raise InputError(f"{key}={str(path)!r} is empty")


def rows(
    path: Path, where: str, key: str, wanted: Wanted, mistakes: Mistakes, advance: Callable[[int], object] = lambda _: None
) -> Iterator[Row]:
    """Each row; wrong ones are collected. InputError for a file of another kind than its name says.

    `advance` gets the bytes that have been read.
    """
    kind = ending(path)
    if kind == ".parquet":
        yield from _parquet(path, where, key, wanted, advance)
        return
    lines = text_lines(path, where, key, advance)
    if wanted.words and kind in (*WORDS, ".txt", ".tsv"):
        yield from _sentences(lines, where, key, wanted, mistakes)
    elif kind in (".csv", ".tsv"):
        yield from _table(lines, where, key, wanted, mistakes, kind == ".tsv")
    else:
        yield from (_json_lines if kind == ".jsonl" else _json)(lines, where, key, mistakes)


def inner(value: Any, names: list[str]) -> Any:
    """The value at a dotted path, in each element of a list; None if it is missing."""
    if not names or value is None:
        return value
    if isinstance(value, list):
        return [inner(element, names) for element in value]
    return inner(value.get(names[0]), names[1:]) if isinstance(value, dict) else None


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


def features(path: Path) -> dict[str, Any]:
    """What `datasets` has written of the columns of a Parquet file, names of classes among it; empty for any other file."""
    schema = parquet.read_schema(path) if ending(path) == ".parquet" else None
    if schema is None or b"huggingface" not in (schema.metadata or {}):
        return {}
    try:
        return dict(library("datasets", "run").Features.from_arrow_schema(schema))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:  # of another version
        raise InputError(f"{path}: `datasets` cannot read the file's column types: {error}") from error


def _parquet(path: Path, where: str, key: str, wanted: Wanted, advance: Callable[[int], object]) -> Iterator[Row]:
    try:
        with parquet.ParquetFile(path) as file:
            names, done, count = file.schema_arrow.names, 0, file.metadata.num_rows
            _refuse_twice(names, where, key, wanted)
            read = [name for name in names if name in wanted.names]
            for batch in file.iter_batches(BATCH, columns=read):
                done += len(batch)
                for row in batch.to_pylist() if read else [{}] * len(batch):
                    yield None, dict.fromkeys(names) | row
                advance(path.stat().st_size * done // count)
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{where}: {path} is not a readable parquet file; restore it or change {key} ({reason})") from error


def text_lines(path: Path, where: str, key: str, advance: Callable[[int], object] = lambda _: None) -> Iterator[Line]:
    """Lines with their numbers, which end at line feeds alone; InputError for the first one that is not UTF-8 or has a NUL."""
    number = 0
    with path.open("rb") as file:
        try:
            for number, line in enumerate(gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if "\0" in text:
                    raise InputError(f"{where}, line {number}: there is a NUL byte; save the file of {key} as UTF-8 without it")
                yield number, text
                advance(file.tell())
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} is not UTF-8"
            raise InputError(f"{where}, line {number}: {byte}; save the file of {key} as UTF-8") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{where}, line {number + 1}: incomplete gzip file ({error}); restore the file of {key}"
            ) from error


# JSON


def _parsed(text: str) -> tuple[Any, str]:
    """The value, and what is wrong with the text; empty where nothing is."""
    try:
        return json.loads(text, object_pairs_hook=unique), ""
    except (ValueError, RecursionError) as error:  # of a number with too many digits, too
        return None, f"not JSON ({error})"


def _json_lines(lines: Iterable[Line], where: str, key: str, mistakes: Mistakes) -> Iterator[Row]:
    for number, line in lines:
        if not line.strip():
            continue
        row, wrong = _parsed(line.rstrip("\r\n"))
        if isinstance(row, dict):
            if "_task_hash" in row and row.get("answer", "accept") != "accept":
                answer = f"answer={row['answer']!r} of Prodigy"
                raise InputError(f"{where}, line {number}: {answer}: expected accepted rows alone in the file of {key}")
            yield number, row
            continue
        with mistakes.collected():
            wrong = wrong or f"expected an object, got {line[:40]!r}"
            raise InputError(f"{where}, line {number}: {wrong}; fix the file of {key}")


def _json(lines: Iterable[Line], where: str, key: str, mistakes: Mistakes) -> Iterator[Row]:
    """A list of rows, SQuAD's nesting, or one row per line; not an object of lists or objects alone."""
    lines = [*lines]
    value, wrong = _parsed("".join(line for _, line in lines))
    is_row = isinstance(value, dict) and "data" not in value and any(not isinstance(of, list | dict) for of in value.values())
    if is_row or "Extra data" in wrong:
        yield from _json_lines(lines, where, key, mistakes)
        return
    found: Any = value.get("data") if isinstance(value, dict) else value
    if not wrong and not (isinstance(found, list) and all(isinstance(row, dict) for row in found)):
        wrong = "expected a list of objects, or SQuAD's `data`"
    if wrong:
        raise InputError(f"{where}: {wrong}; fix the file of {key}")
    nested = any("paragraphs" in row for row in found)
    try:
        for row in _questions(found) if nested else found:
            yield None, row
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: not nested like SQuAD: data, paragraphs, qas, answers ({error!r}); fix {key}") from error


def _questions(articles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per question, in the columns of the hub's `squad`; without an answer where it is said to be impossible."""
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                impossible = question.get("is_impossible") or False
                if not isinstance(impossible, bool):
                    raise TypeError(f"is_impossible={impossible!r}")
                answers = [] if impossible else question.get("answers")
                columns = {name: question.get(name) for name in ("id", "question")}
                yield columns | {"title": article.get("title"), "context": paragraph["context"], "answers": answers}


# Tables


def _table(lines: Iterator[Line], where: str, key: str, wanted: Wanted, mistakes: Mistakes, is_tsv: bool) -> Iterator[Row]:
    csv.field_size_limit(sys.maxsize)  # the default limit of 131,072 characters is too low for texts
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    before, head = first
    texts = chain([head], (line for _, line in lines))
    reader, line, header = None, before, list[str]()
    try:
        delimiter = "\t" if is_tsv else _delimiter(head, wanted)
        reader = csv.reader(texts, strict=True, delimiter=delimiter, quoting=csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL)
        for row in reader:
            if row and not header:
                header = row
                if is_tsv and len(row) == 1 and (other := _delimiter(head, wanted)) in head and row[0] not in wanted.names:
                    raise InputError(f"{where}: {other!r} separates the columns, not a tab: name the file of {key} .csv")
                _refuse_twice(header, where, key, wanted)
            elif row and (len(row) != len(header) or (row == header and row[1:])):
                columns = f"expected {len(header)} columns, as in the header, got {len(row)}"
                columns = "the header stands here again" if row == header else columns
                with mistakes.collected():
                    raise InputError(f"{where}, line {line}: {columns}; fix the file of {key}")
            elif row:
                yield line, dict(zip(header, row, strict=True))
            line = before + reader.line_num
    except csv.Error as error:
        stopped, wrong = before + (reader.line_num - 1 if reader else 0), str(error)
        if "new-line character" in wrong:
            line, wrong = stopped, "there is a carriage return without a line feed"
        elif "end of data" in wrong:
            wrong = "a quotation mark opens here and is not closed"
        elif stopped > line:  # a quotation mark makes one value of many lines
            wrong = f"{wrong} in line {stopped}"
        raise InputError(f"{where}, line {line}: {wrong}; fix the file of {key}") from error


def _delimiter(head: str, wanted: Wanted) -> str:
    """Comma, semicolon, tab or bar: the one under which the header has most of the columns that are read, or most columns."""

    def fits(delimiter: str) -> tuple[int, int]:
        header = next(csv.reader([head], delimiter=delimiter), [])
        return len({*header} & {*wanted.names}), len(header)

    return max((",", ";", "\t", "|"), key=fits)


def _refuse_twice(header: list[str], where: str, key: str, wanted: Wanted) -> None:
    if any(header.count(name) > 1 for name in wanted.names):
        raise InputError(f"{where}: header {header} names a column twice; fix the file of {key}")


# Columns of words

TAG = re.compile(r"O|[BIESLU]-.+")
"""Tag of any scheme: IOB1, IOB2, BIOES, BILOU."""

BLANKS = re.compile(r"[ \t]+")
"""Between columns: other white space is part of a word."""

RANGE = re.compile(r"\d+[-.]\d+", re.ASCII)
"""Number of a line of CoNLL-U that repeats words, or has one that is not in the text."""

NUMBER = re.compile(r"-?\d{1,3}")
"""Name of a column without one."""


def _sentences(lines: Iterator[Line], where: str, key: str, wanted: Wanted, mistakes: Mistakes) -> Iterator[Row]:
    """One row per sentence (CoNLL). Columns are parted by tabs, or by blanks where there are none; `-DOCSTART-` and comments
    are left out. Words are in the first column, or behind one of their numbers as in CoNLL-U, and tags in the last one; or in
    those of the header, or with these numbers.
    """
    begin, width, has_tabs = 0, 0, False
    words: list[list[str]] = []  # of the sentence, each with its columns
    header: list[str] = []
    places: tuple[int, int | None] = (0, None)  # of words and of tags
    numbered: bool | None = None

    def row() -> Row:
        nonlocal numbered, words
        (first, second), (name, *_) = places, wanted.fields
        alone = [cells[0] for cells in words if not RANGE.fullmatch(cells[0])]
        are_numbers = bool(alone) and all(cell.isdecimal() for cell in alone)
        is_counted = are_numbers and [*map(int, alone)] == [*range(int(alone[0]), int(alone[0]) + len(alone))]
        if numbered is None:
            numbered = width > 2 and not header and is_counted and (len(alone) > 1 or alone[0] in ("0", "1"))
            if width > 2 and not header and len(alone) > 1 and are_numbers > is_counted and not NUMBER.fullmatch(name):
                raise InputError(
                    f"{where}, line {begin}: the words are numbers alone: task.fields=[NUMBER] names the column of words, "
                    "0 the first one"
                )
        elif numbered and not is_counted and not NUMBER.fullmatch(name):
            raise InputError(
                f"{where}, line {begin}: the words have no numbers before them, but those of the first sentence have: "
                "task.fields=[NUMBER] names the column of words, 0 the first one"
            )
        if numbered:
            words = [cells for cells in words if not RANGE.fullmatch(cells[0])]
            first = first if NUMBER.fullmatch(name) else 1
        columns = {title: [cells[place] for cells in words] for place, title in enumerate(header)}
        columns |= {wanted.label: [cells[second] for cells in words]} if wanted.label and second is not None else {}
        return begin, columns | {name: [cells[first] for cells in words]}

    for number, line in chain(lines, [(0, "")]):
        text = line.rstrip("\r\n\t ")
        cells = text.split("\t") if has_tabs or (not width and "\t" in text) else BLANKS.split(text.lstrip(" "))
        if not text.strip() or cells[0].startswith("-DOCSTART-"):
            if words:
                yield row()
            words = []
        elif text.startswith(("# ", "#\t")) and (len(cells) != (width or 2) or not TAG.fullmatch(cells[-1])):
            continue
        elif not width:
            width, has_tabs = len(cells), "\t" in text
            header = cells if width > 1 and _is_header(cells, f"{where}, line {number}", wanted) else []
            places = _places(header, width, where, wanted)
            begin, words = number, [] if header else [cells]
        elif len(cells) != width:
            with mistakes.collected():
                raise InputError(f"{where}, line {number}: {len(cells)} columns, but {width} before; fix the file of {key}")
        else:
            begin = begin if words else number
            words.append(cells)


def _is_header(cells: list[str], where: str, wanted: Wanted) -> bool:
    """Whether the first line names the columns: it has one that is read, or its last cell is not a tag and its first not a
    number. InputError where tags are not read and that is not clear.
    """
    named = any(name in cells and not NUMBER.fullmatch(name) for name in wanted.names)
    is_tagged = NUMBER.fullmatch(wanted.label or "") or TAG.fullmatch(cells[-1])
    if named or is_tagged or cells[0].isdigit() or RANGE.fullmatch(cells[0]):
        return named
    if wanted.label is None:
        raise InputError(f"{where}: {cells!r:.60} is not a word with its tag: expected one, words alone, or a header")
    return True


def _places(header: list[str], width: int, where: str, wanted: Wanted) -> tuple[int, int | None]:
    """Columns of words and of tags; None where there is one column alone."""
    places = []
    for name, default, key in ((wanted.fields[0], 0, "task.fields"), (wanted.label or "", width - 1, "task.label")):
        if name in header:
            places.append(header.index(name))
        elif NUMBER.fullmatch(name) and -width <= int(name) < width:
            places.append(int(name) % width)
        elif len(header) > 2 and name:
            raise unknown(f"column of {where}:", name, header, key)
        else:
            places.append(default)
    return places[0], places[1] if width > 1 else None
