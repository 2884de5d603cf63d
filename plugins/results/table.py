"""Tables with one row per value, or with columns of values: CSV (commas, semicolons, tabs or bars), JSON lines, a list in JSON,
Parquet."""

import codecs
import contextlib
import csv
import io
import itertools
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json
from pyarrow import parquet

from harness import paths
from harness.errors import InputError, on_one_line
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results.columns import FINISHED, NUMBERS, chosen, frame, say_unfinished, stated
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of

BLOCK = 1 << 24
"""Bytes of the longest row."""
FIRST = 1_000
"""Rows of JSON lines by which their names and types are known: a row may lack some."""

STATE = ("state", "status")
"""Names of the column that says whether a run `finished`, in tables that Weights & Biases and MLflow export."""

KINDS = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
"""Type of a value in the first object of JSON that has one -> type of its column; others are text."""


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """The rows of a file with the suffix of a table; None for any other, and for JSON that is not a list."""
    ending = path.suffix.lower()
    if not path.is_file() or ending not in paths.TABLES:
        return None
    content, known = paths.read(path, LARGEST_TABLES).removeprefix(codecs.BOM_UTF8), stated(path, asked)
    if ending == ".json":
        if not content.lstrip().startswith(b"["):
            return None
        content = b"\n".join(map(msgspec.json.encode, paths.read_object(path, list)))
    if not (content := content.lstrip(b"\r\n")):
        raise InputError(f"{on_one_line(str(path))!r} is empty: expected a table")
    data, head = pyarrow.BufferReader(content), content.partition(b"\n")[0]
    if ending == ".parquet":
        names = parquet.read_schema(data).names
    elif ending in (".csv", ".tsv"):
        line = head.decode().rstrip("\r")
        delimiter = max(",;\t|", key=line.count)
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
    else:
        first = msgspec.json.decode(head, type=dict[str, object])
        for text in itertools.islice(io.BytesIO(content), 1, FIRST):
            with contextlib.suppress(msgspec.DecodeError, RecursionError):  # Arrow says what is wrong there
                row = msgspec.json.decode(text, type=dict[str, object])
                first |= {name: value for name, value in row.items() if first.get(name) is None}
        names = [*first]
    of = chosen(names, asked, known, path)
    used = [name for parts in of.values() for name in parts]
    if ending == ".parquet":
        table = table_of(content, str(path), columns=used)
    elif ending in (".csv", ".tsv"):
        state = [name for name in names if name.casefold() in STATE][:1]
        texts = dict.fromkeys([*used, *state], pyarrow.string())
        table = arrow_csv.read_csv(
            data,
            arrow_csv.ReadOptions(column_names=names, skip_rows=1, block_size=BLOCK),
            arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=texts, include_columns=[*texts], null_values=[""], strings_can_be_null=True),
        )
        states = [str(one).casefold() for name in state for one in table[name].to_pylist()]
        if FINISHED in states:
            table = table.filter([one == FINISHED for one in states])
            say_unfinished(len(states) - len(table), path)
    else:  # types that are stated keep Arrow from following lists of other columns into any depth
        names = [name for own, parts in of.items() for name in parts if own not in NUMBERS and len(parts) == 1]
        kinds = {name: KINDS.get(type(first[name]), pyarrow.string()) for name in used}
        kinds |= {name: pyarrow.float64() for name in {*used} - {*names} if kinds[name] == pyarrow.int64()}
        parsing = arrow_json.ParseOptions(explicit_schema=pyarrow.schema(kinds), unexpected_field_behavior="ignore")
        table = arrow_json.read_json(data, arrow_json.ReadOptions(block_size=BLOCK), parsing)
    return frame(table, of, asked).assign(**{own: value for own, value in known.items() if own not in of})


TABLE = Results("tables (.csv, .tsv, .jsonl, .json, .parquet)", read)
