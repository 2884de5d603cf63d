"""A study as a pandas DataFrame, for notebooks: one row per run."""

from collections.abc import Iterable, Sequence

import pandas as pd

from harness import metrics, tags
from harness.comparison.compare import FIRST, compare, differing_settings
from harness.comparison.runs import Run
from harness.comparison.section import RESULTS
from harness.reports.read import StudyRuns, read
from harness.reports.reading import folders

SEEDS = (tags.SEED, tags.PRETRAIN_SEED)
IDENTITY = (tags.ARM, tags.MODEL, tags.SCALE, tags.ENHANCEMENTS, tags.TASK, *SEEDS, tags.CONDITIONS)
"""Columns that are tags; the arm and the conditions of a finished run are those of the report."""

NAMED = ("model_name", "scale_name", "task.name")
"""Parameters that are columns of the identity."""

SUPERSEDED, OTHER_CONDITIONS = "superseded", "other conditions"
Place = tuple[str, str, str | None]
"""Label of the arm, hash of the conditions, and why a finished run does not count."""


def load(study: str | Sequence[str] | None, uri: str | None, where: str | None, along: Iterable[str]) -> pd.DataFrame:
    """One row per run, oldest first; see `reports.load`."""
    names = [study] if isinstance(study, str) else list(study or ())
    found = read(uri, names, where)
    with found.reader.guarded():
        return _frame(found, along)


def _frame(found: StudyRuns, along: Iterable[str]) -> pd.DataFrame:
    runs = [run for run in found.runs if not run.is_aa_replicate]
    places: dict[str, Place] = {}
    if any(run.status == "finished" for run in runs):
        comparison = compare(found.study, found.runs, FIRST, along)
        for section in comparison.sections:
            for arm in section.rows:
                why = None if section in comparison.selected else OTHER_CONDITIONS
                places |= {run.run_id: (arm.label, section.conditions, why) for run in arm.runs}
                places |= {run.run_id: (arm.label, section.conditions, SUPERSEDED) for run in arm.superseded}
    differing = [key for key in differing_settings(runs) if key not in NAMED]
    used = [name for name in RESULTS if any(name in run.metrics for run in runs)]
    rows = []
    for run in runs:
        folder = folders.folder_of(run, found.reader.output)
        row = _identity(run, places.get(run.run_id)) | {"run_id": run.run_id, "folder": str(folder) if folder else None}
        row |= {key: run.params.get(key) for key in differing}
        rows.append(row | {name: run.metrics.get(name) for name in used})
    frame = pd.DataFrame(rows)
    frame["started"] = pd.to_datetime(frame["started"], unit="ms", utc=True)
    for name in (*SEEDS, *differing):
        frame[name] = _numbers(frame[name])
    frame[used] = frame[used].astype(float)
    frame.attrs = {"study": found.study, "units": {name: metrics.get(name).unit for name in used}}
    return frame


def _identity(run: Run, place: Place | None) -> dict[str, object]:
    facts: dict[str, object] = {tag: run.tags.get(tag) for tag in IDENTITY}
    label, conditions, why = place or (facts["arm"], facts["conditions"], None)
    facts |= {"arm": label, "conditions": conditions, "status": why or run.status, "counted": bool(place) and why is None}
    return facts | {"study": run.elsewhere or run.tags.get(tags.STUDY), "started": run.started}


def _numbers(texts: pd.Series) -> pd.Series:
    """The column as numbers or booleans, where all of its values are such."""
    known = texts.where(texts.notna() & (texts != "None"), None)
    if known.notna().any() and {*known.dropna()} <= {"True", "False"}:
        return known.map({"True": True, "False": False}).astype("boolean")
    try:
        return known.astype(float) if known.isna().all() else pd.to_numeric(known)
    except ValueError:
        return texts
