"""Tables with one row per value, or with columns of values: CSV (commas, semicolons, tabs or bars), JSON lines, a list in JSON,
Parquet."""

import codecs
import csv
import itertools
import re
from pathlib import Path

import pandas as pd
import pyarrow
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from harness import paths
from harness.errors import InputError, on_one_line
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results.columns import chosen, frame, say_other_metrics, say_unfinished, stated
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of

BLOCK = 1 << 24
"""Bytes of the longest row."""
STATE = ("state", "status")
"""Names of the column that says whether a run finished, in tables that Weights & Biases, MLflow, Optuna and Ray Tune export."""
FINISHED = "finished|completed?|succeeded|terminated"
UNFINISHED = "running|pending|pruned|stopped|killed|crashed|fail(ed)?|error"


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """The rows of a file with the suffix of a table; None for any other, and for JSON that is not a list."""
    ending = path.suffix.lower()
    if not path.is_file() or ending not in paths.TABLES:
        return None
    content, known = paths.read(path, LARGEST_TABLES).removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n"), stated(path, asked)
    rows: list[dict[str, object]] = []
    if ending == ".parquet":
        names = parquet.read_schema(pyarrow.BufferReader(content)).names
    elif ending in (".csv", ".tsv"):
        line = content.partition(b"\n")[0].decode().rstrip("\r")
        delimiter = max(",;\t|", key=line.count)
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
    elif ending == ".json" and not content.lstrip().startswith(b"["):
        return None
    else:
        lines = (line for line in content.splitlines() if line.strip())
        rows = paths.read_object(path, list) if ending == ".json" else [paths.object_of(line, path) for line in lines]
        if others := [row for row in rows if not isinstance(row, dict)]:
            raise InputError(
                f"{on_one_line(str(path))!r} has {on_one_line(repr(others[0]), 40)} among its rows: expected objects"
            )
        names = [*dict.fromkeys(itertools.chain.from_iterable(rows))]
    if not names:
        raise InputError(f"{on_one_line(str(path))!r} is empty: expected a table")
    of = chosen(names, asked, known, path)
    say_other_metrics(of, names, asked, path)
    state = [name for name in names if name.casefold() in STATE][:1]
    used = [*{*itertools.chain.from_iterable(of.values()), *state}]
    if ending == ".parquet":
        table = table_of(content, str(path), columns=used)
    elif ending in (".csv", ".tsv"):
        texts = dict.fromkeys(used, pyarrow.string())
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(content),
            arrow_csv.ReadOptions(column_names=names, skip_rows=1, block_size=BLOCK),
            arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=texts, include_columns=[*texts], null_values=[""], strings_can_be_null=True),
        )
    else:
        texts = {name: [None if (value := row.get(name)) is None else str(value) for row in rows] for name in used}
        table = pyarrow.table(texts)
    states = [str(one).casefold() for name in state for one in table[name].to_pylist()]
    finished = [re.fullmatch(FINISHED, one) is not None for one in states]
    if any(finished) or (state and all(re.fullmatch(UNFINISHED, one) for one in states)):
        table = table.filter(finished)
        say_unfinished(finished.count(False), path)
    return frame(table, of, asked).assign(**{own: value for own, value in known.items() if own not in of})


TABLE = Results("tables (.csv, .tsv, .jsonl, .json, .parquet)", read)
