"""An archive: a folder of few files with all that the report of a study reads, in place of its store and folders of runs.

- `manifest.json`: the study, the options of its report, what was thinned, and size and SHA-256 of every other file
- `runs.parquet`: runs as rows: tags, parameters, metrics; texts of its `config.yaml`, `result.json` and, in part, `run.json`
- `curves.parquet`: histories of metrics, those of launches among them
- `predictions-TASK.parquet`, `texts.parquet`: what runs predicted for each item, and the items as their tokens read
- `plan.json`, `audit.json`: runs that never started, and verdicts on claims, where there are any
- `report.md`, `summary.csv` and pictures: the report, made from the files above alone
"""

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow
import pyarrow.compute
from pydantic import Field
from pydantic.dataclasses import dataclass

from harness import paths
from harness.comparison.paired import grouped
from harness.errors import InputError, on_one_line
from harness.plugins.shared.reader import MemoryReader
from harness.plugins.shared.untrusted_json import SHAPE, Entries, Line, json_of
from harness.reports.reading import folders
from harness.reports.reading.store import Folders, Packed, logged
from harness.reports.reading.untrusted import LARGEST_TABLES, MOST_PARTS, table_of

MANIFEST = "manifest.json"
RUNS, CURVES, TEXTS, AUDIT = "runs.parquet", "curves.parquet", "texts.parquet", "audit.json"
PREDICTIONS = "predictions"
"""How names of files with predictions begin."""

TEXT, NUMBER, INTEGER = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
TEXTS_OF, NUMBERS_OF = pyarrow.map_(TEXT, TEXT), pyarrow.map_(TEXT, NUMBER)
COLUMNS = {"run_id": TEXT, "name": TEXT, "study": TEXT, "started": INTEGER}
COLUMNS |= {"tags": TEXTS_OF, "params": TEXTS_OF, "metrics": NUMBERS_OF, "record": TEXT, "config": TEXT, "result": TEXT}
CURVE = {"run_id": TEXT, "metric": TEXT, "step": INTEGER, "value": NUMBER}
MAY_LACK = ("record", "config", "result")
"""Columns that are null for a run whose folder was gone."""

LARGEST_MANIFEST = 1 << 20
SWITCHES = {"--with-wnli": "with_wnli", "--all-pairs": "all_pairs", "--random-tasks": "random_tasks"}
"""Switch that an archive may state -> option of the report."""
EXPECTED = "what `python -m reports archive` writes"

Sum = tuple[Annotated[int, Field(ge=0)], Line]
"""Size in bytes and SHA-256."""
Data = Annotated[str, Field(pattern=r"^((runs|curves|texts|predictions[A-Za-z0-9_.+@-]*)\.parquet|(plan|audit)\.json)$")]
Rendered = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+@-][A-Za-z0-9_.+@-]*\.(md|csv|svg)$")]


@dataclass(config=SHAPE, frozen=True)
class Manifest:
    """What an archive says of itself."""

    study: Line
    options: Entries[Line]
    thinned: dict[Line, dict[Line, int]]
    data: Annotated[dict[Data, Sum], Field(max_length=MOST_PARTS)]
    report: Annotated[dict[Rendered, Sum], Field(max_length=MOST_PARTS)]
    left_out: Line = ""
    lean: bool = False
    pictures: Line | None = None

    @property
    def choices(self) -> dict[str, Any]:
        """Options of the report, as values; InputError for one that an archive may not state, such as a store to read."""
        choices: dict[str, Any] = {"baseline": (), "along": (), "target": (), "where": None} | dict.fromkeys(
            SWITCHES.values(), False
        )
        for word in self.options:
            match word.partition("="):
                case ("--baseline" | "--along" | "--target") as name, "=", value:
                    choices[name[2:]] += (value,)
                case "--where", "=", value:
                    choices["where"] = value
                case name, "", "" if name in SWITCHES:
                    choices[SWITCHES[name]] = True
                case _:
                    stated = f"--baseline=, --along=, --target=, --where=, {' or '.join(SWITCHES)}"
                    raise InputError(f"{MANIFEST} states the option {on_one_line(word, 60)!r}: expected {stated}")
        return choices


def hashes(files: Mapping[str, bytes]) -> dict[str, tuple[int, str]]:
    """Name -> size in bytes and SHA-256."""
    return {name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items()}


def manifest(folder: Path) -> Manifest:
    """The manifest of an archive; InputError for another folder."""
    path, where = folder / MANIFEST, f"archive {str(folder)!r}"
    _refuse_special(path, where)
    try:
        content = json_of(paths.read(path, LARGEST_MANIFEST), Manifest, MANIFEST, EXPECTED)
        if missing := {RUNS, CURVES} - {*content.data}:
            raise InputError(f"{MANIFEST} lacks {min(missing)}: expected {EXPECTED}")
        _ = content.choices
    except (OSError, InputError) as error:
        reason = f"{MANIFEST}: {error.strerror}" if isinstance(error, OSError) else error
        raise InputError(f"{str(folder)!r} is not an archive: {reason}") from error
    return content


def contents(folder: Path, sums: Mapping[str, Sum]) -> tuple[dict[str, bytes], list[str]]:
    """These files of the folder, and what is wrong with them, a line each; InputError for links, pipes and devices."""
    if (size := sum(of_file for of_file, _ in sums.values())) > LARGEST_TABLES:
        raise InputError(f"archive {str(folder)!r} has {size:,} bytes: expected at most {LARGEST_TABLES:,}")
    files, wrong = {}, []
    for name, expected in sums.items():
        path = paths.named(folder, name)
        _refuse_special(path, f"archive {str(folder)!r}")
        try:
            files[name] = paths.read(path, expected[0])
        except FileNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        except InputError:  # it is larger
            files[name] = b""
        if hashes({name: files[name]})[name] != expected:
            wrong.append(f"{name} has changed since it was written: its SHA-256 is not that of {MANIFEST}")
    return files, wrong


def _refuse_special(path: Path, where: str) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{where}: {path.name} is not a regular file: expected {EXPECTED}")


class ArchiveReader(MemoryReader):
    """Reads an archive, `where`, from the content of its data files; InputError for malformed content."""

    def __init__(self, where: str, manifest: Manifest, data: Mapping[str, bytes]) -> None:
        self.manifest, self._where = manifest, f"archive {where!r}"
        self.packed: tuple[dict[str, bytes], dict[str, Any]] = {**data}, manifest.thinned
        try:
            with self.guarded():
                self._read(data)
        except InputError as error:
            raise InputError(f"{self._where}: {error}") from error

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Reports an error in the block as one of the archive: its data have the right types, but impossible values."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # numbers that overflow
                yield
        except (OSError, InputError):
            raise
        except Exception as error:
            kind = f"{type(error).__name__}: {on_one_line(str(error), 100)}"
            raise InputError(f"{self._where}: no report can be made from its data ({kind}): expected {EXPECTED}") from error

    def _read(self, data: Mapping[str, bytes]) -> None:
        left, tables = LARGEST_TABLES, {}
        for name in (name for name in data if name.endswith(".parquet")):
            tables[name] = table_of(data[name], name, left)
            left -= tables[name].nbytes
        _refuse_other(tables[RUNS], RUNS, COLUMNS, MAY_LACK)
        _refuse_other(tables[CURVES], CURVES, CURVE)
        rows = tables[RUNS].to_pylist(maps_as_pydicts="strict")
        self.rows = {row["run_id"]: row for row in rows}
        if len(self.rows) != len(rows):
            raise InputError(f"{RUNS} has two runs of one id: expected {EXPECTED}")
        for name in (name for row in rows for name in (row["run_id"], row["study"])):
            if not name.isprintable():
                raise InputError(f"{RUNS} has the name {on_one_line(name, 60)!r}: expected one without control characters")
        self._runs = grouped(
            (row["study"], logged(key, row["name"], row["started"], (row["tags"], row["params"], row["metrics"])))
            for key, row in sorted(self.rows.items())
        )
        columns = (tables[CURVES][name].to_pylist() for name in CURVE)
        self._history = grouped(((run, metric), (step, value)) for run, metric, step, value in zip(*columns, strict=True))
        self.predictions = {name: _parts(tables[name], name, "run_id") for name in tables if name.startswith(PREDICTIONS)}
        if unknown := {run for of_file in self.predictions.values() for run in of_file} - self.rows.keys():
            raise InputError(f"a run of predictions, {min(unknown)!r}, is not in {RUNS}: expected {EXPECTED}")
        of_main = [of_file for name, of_file in self.predictions.items() if split_of(name) == ""]
        texts = _parts(tables[TEXTS], TEXTS, "data") if TEXTS in tables else {}
        if TEXTS in tables:
            _refuse_other(tables[TEXTS], TEXTS, {"data": TEXT, "tokens": INTEGER, "text": TEXT})
        keys = {run: _json(row["record"]).get("inputs", {}).get("data") for run, row in self.rows.items()}
        self.output = Packed(
            predictions={run: table for of_file in of_main for run, table in of_file.items()},
            texts={run: texts[key] for run, key in keys.items() if key in texts},
            not_run=[on_one_line(one.title) for one in folders.planned(data[paths.PLAN])] if paths.PLAN in data else [],
            audit=data.get(AUDIT),
        )

    def results(self, run_id: str) -> dict[str, float | None]:
        """The metrics in the result of a run; none where its folder was gone."""
        metrics: dict[str, float | None] = _json(self.rows[run_id]["result"]).get("metrics", {})
        return metrics


def read(folder: Path) -> ArchiveReader | None:
    """A reader of the archive in a folder, None for another folder; InputError for an archive that has changed."""
    if not os.path.lexists(folder / MANIFEST):
        return None
    content = manifest(folder)
    data, wrong = contents(folder, content.data)
    if wrong:
        raise InputError(f"archive {str(folder)!r}: {'; '.join(wrong)}")
    return ArchiveReader(str(folder), content, data)


def split_of(name: str) -> str:
    """How names of its scores end: in nothing for the split that decides, in `_mismatched` for the other one of MNLI."""
    return name.removesuffix(".parquet").partition("-")[0].removeprefix(PREDICTIONS)


def _refuse_other(
    table: pyarrow.Table, name: str, columns: Mapping[str, pyarrow.DataType], may_lack: tuple[str, ...] = ()
) -> None:
    """InputError for other columns, or for values that are missing."""
    if not table.schema.equals(pyarrow.schema(columns)):
        raise InputError(f"{name} has the columns {on_one_line(', '.join(map(str, table.schema)), 200)}: expected {EXPECTED}")
    for column in columns:
        chunks = [one for one in table[column].chunks if column not in may_lack]
        inner = [part for one in chunks if isinstance(one, pyarrow.MapArray) for part in (one.keys, one.items)]
        if any(part.null_count for part in (*chunks, *inner)):
            raise InputError(f"{name} has no value in the column {column!r} of a row: expected {EXPECTED}")


def _json(text: str | None) -> Any:
    """A record or a result; empty where the folder of the run was gone."""
    return json.loads(text or "{}")


def _parts(table: pyarrow.Table, name: str, column: str) -> dict[str, pyarrow.Table]:
    """Value of a column of texts -> its rows, in their order, without that column."""
    if column not in table.column_names or table.schema.field(column).type != TEXT or table[column].null_count:
        raise InputError(f"{name} has no text in the column {column!r} of each row: expected {EXPECTED}")
    encoded = table[column].combine_chunks().dictionary_encode()
    numbers, keys = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    ends = np.cumsum(np.bincount(numbers, minlength=len(keys)))
    ordered = table.take(np.argsort(numbers, kind="stable")).drop_columns(column)
    return {key: ordered.slice(begin, end - begin) for key, begin, end in zip(keys, [0, *ends], ends, strict=False)}


ARCHIVES = Folders(read)
