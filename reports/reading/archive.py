"""An archive: a folder of few files with all that the report of a study reads, in place of its store and folders of runs.

- `manifest.json`: the study, the options of its report, what was thinned, and size and SHA-256 of every other file
- `runs.parquet`: a row a run: tags, parameters, metrics; the texts of its `config.yaml`, `result.json` and, in part, `run.json`
- `curves.parquet`: histories of metrics, those of launches among them
- `predictions-TASK.parquet`, `texts.parquet`: what runs predicted for each item, and the items as their tokens read
- `plan.json`, `audit.json`: runs that never started, and verdicts on claims, where there are any
- `report.md`, `summary.csv` and pictures: the report, made from the files above alone
"""

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
from pyarrow import parquet

from harness import paths
from harness.paired import grouped
from reports.errors import ReportError
from reports.reading import folders
from reports.reading.store import Reader, Run

MANIFEST = "manifest.json"
RUNS, CURVES, TEXTS, AUDIT = "runs.parquet", "curves.parquet", "texts.parquet", "audit.json"
PREDICTIONS = "predictions"
"""How names of files with predictions begin."""


def hashes(files: Mapping[str, bytes]) -> dict[str, list[int | str]]:
    """Name -> size in bytes and SHA-256."""
    return {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in files.items()}


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an archive; ReportError for a folder that is none."""
    try:
        content = {"lean": False, "pictures": None} | json.loads((folder / MANIFEST).read_bytes())
        return content | {key: content[key] for key in ("study", "options", "thinned", "data", "report")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{str(folder)!r} is no archive ({MANIFEST}: {error!r}); expected one of reports archive") from error


def faults(folder: Path, sums: Mapping[str, list[int | str]]) -> list[str]:
    """What is wrong with these files of the folder, a line each; empty where all are as they were written."""
    found = []
    for name, expected in sums.items():
        path = paths.named(folder, name)
        if not path.is_file():
            found.append(f"{name} is missing")
        elif hashes({name: path.read_bytes()})[name] != expected:
            found.append(f"{name} has changed since it was written: its SHA-256 is not that of {MANIFEST}")
    return found


class ArchiveReader(Reader):
    """Reads an archive; ReportError for one that is not as it was written. Files of runs are unpacked into a folder."""

    is_unpacked = True

    def __init__(self, folder: Path) -> None:
        self.manifest = manifest(folder)
        if wrong := faults(folder, self.manifest["data"]):
            raise ReportError(f"archive {str(folder)!r}: {'; '.join(wrong)}")
        self.output = Path(tempfile.mkdtemp(prefix="archive-"))
        weakref.finalize(self, shutil.rmtree, self.output, ignore_errors=True)
        data = {name: (folder / name).read_bytes() for name in self.manifest["data"]}
        self.packed: tuple[dict[str, bytes], dict[str, Any]] = data, self.manifest["thinned"]
        rows = parquet.read_table(folder / RUNS).to_pylist(maps_as_pydicts="strict")
        here = {"output": str(self.output)}  # else files of a run elsewhere were read
        keys = ("run_id", "name", "started", "tags", "metrics")
        runs = [Run(**{key: row[key] for key in keys}, params=row["params"] | here) for row in rows]
        self._runs = {run.run_id: (row["study"], run) for row, run in zip(rows, runs, strict=True)}
        curves = parquet.read_table(folder / CURVES).to_pylist()
        self._history = grouped(((row["run_id"], row["metric"]), (row["step"], row["value"])) for row in curves)
        self._unpack(folder, rows)

    def _unpack(self, folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            if row["record"] is not None:
                own = self._place(row["run_id"])
                own.mkdir(parents=True)
                (own / folders.RECORD).write_text(row["record"])
        for name in self.manifest["data"]:
            if name.startswith(PREDICTIONS):
                for run_id, table in of_runs(folder / name):
                    parquet.write_table(table, self._place(run_id) / f"{name.partition('-')[0]}.parquet")
            elif name == TEXTS:
                table = parquet.read_table(folder / TEXTS)
                for key in table["data"].unique().to_pylist():
                    cache = paths.data_folder(str(self.output), key)
                    cache.mkdir(parents=True)
                    parquet.write_table(table.filter(pyarrow.compute.equal(table["data"], key)), cache / TEXTS)
            elif name in (paths.PLAN, AUDIT):
                to = self.output / ("audit" if name == AUDIT else paths.named(self.output, self.manifest["study"]))
                to.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, to / name)

    def _place(self, run_id: str) -> Path:
        return folders.candidates(self._runs[run_id][1], self.output)[0]

    def studies(self) -> dict[str, str]:
        return {study: study for study, _ in self._runs.values()}

    def runs(self, study: str) -> list[Run]:
        return [run for own, run in self._runs.values() if own == study]

    def newest(self, studies: list[str], identity: Mapping[str, str]) -> tuple[str, Run] | None:
        fitting = [
            (study, run) for study, run in self._runs.values() if study in studies and identity.items() <= run.tags.items()
        ]
        return min(fitting, key=lambda one: (-one[1].started, one[1].run_id), default=None)

    def history(self, run_id: str, key: str) -> list[tuple[int, float]]:
        return self._history.get((run_id, key), [])


def of_runs(path: Path) -> list[tuple[str, pyarrow.Table]]:
    """Id of a run and its predictions, of all in a file of an archive."""
    table = parquet.read_table(path)
    ids = table["run_id"].unique().to_pylist()
    return [(key, table.filter(pyarrow.compute.equal(table["run_id"], key)).drop_columns("run_id")) for key in ids]
