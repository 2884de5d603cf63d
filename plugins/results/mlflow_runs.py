"""Experiments of others in a store of MLflow on this disk, a SQLite file or a folder `mlruns`, read without MLflow.

`metric=NAME columns=arm=params.model,seed=params.seed` says which metric counts, and which parameters, tags (`tags.NAME`) or
`experiment` are what; `columns=experiment=NAME` chooses one of several. A value is that of the last step.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import yaml

from harness import paths
from harness.errors import unknown
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results import folders
from harness.plugins.results.columns import FINISHED, Row, of_runs, stated
from harness.reports.reading.sqlite_reader import IN_STUDY, SqliteReader

EXPERIMENT = "experiment"
STATUS = 3
"""Number of the status FINISHED in `meta.yaml`."""

KINDS = ("tags", "params", "metrics")
DATABASE = r".*/ml(flow|runs)[^/]*\.(db|sqlite3?)"
"""Path of one in a folder, where others of other tools may be."""
FILE = rf"(?P<experiment>.*/[^/]+)/(?P<run>[0-9a-f]{{32}})/(?P<kind>{'|'.join(KINDS)})/(?P<name>.+)"


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """One row per run and metric; None unless it is a store of MLflow."""
    databases = folders.found(path, DATABASE if path.is_dir() else ".*", "SQLite format 3")
    runs = [run for file, _ in databases for run in _of_database(file)] or _of_folder(path)
    names, columns = {run[EXPERIMENT] for run in runs}, dict(asked.columns)
    name = columns.pop(EXPERIMENT, None)
    if runs and (name or len(names) > 1) and name not in names and EXPERIMENT not in columns.values():
        raise unknown(EXPERIMENT, name or "", names, f"columns={EXPERIMENT}")
    kept = [run | stated(path, asked) for run in runs if name in (None, run[EXPERIMENT])]
    return of_runs(kept, replace(asked, columns=columns), path)


def _of_database(file: Path) -> Iterator[Row]:
    reader = SqliteReader(file)
    for (experiment, number), finished in itertools.product(reader.studies().items(), (True, False)):
        for *_, stored in reader.stored(f"{IN_STUDY} and (status = 'FINISHED') = {int(finished)}", number):
            yield {EXPERIMENT: experiment, FINISHED: finished} | {
                f"{kind}.{name}": math.nan if value is None else value
                for kind, of in zip(KINDS, stored, strict=True)
                for name, value in of.items()
            }


def _of_folder(path: Path) -> list[Row]:
    """Runs of folders EXPERIMENT/RUN, with a file for each parameter, tag and metric; deleted ones are left out."""
    runs = {}
    for file, match in folders.found(path, FILE):
        experiment, run = Path(match["experiment"]), Path(match["experiment"], match["run"])
        if run not in runs:
            metas = [yaml.safe_load(paths.read(folder / "meta.yaml", paths.LARGEST_RECORD)) for folder in (experiment, run)]
            is_active = all(meta["lifecycle_stage"] == "active" for meta in metas)
            runs[run] = {EXPERIMENT: metas[0]["name"], FINISHED: metas[1]["status"] == STATUS} if is_active else {}
        if runs[run]:
            text = paths.read(file, paths.LARGEST_RECORD).decode().strip()
            steps = [(*line.split(), "0")[:3] for line in text.splitlines()] if match["kind"] == "metrics" else []
            last = max(((int(step), int(time), float(value)) for time, value, step in steps), default=(text,))
            runs[run][f"{match['kind']}.{match['name']}"] = last[-1]
    return [run for run in runs.values() if run]


MLFLOW = Results("MLflow", read)
