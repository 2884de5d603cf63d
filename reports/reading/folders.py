"""Where the files of a tracked run are, which the tracking store does not say."""

import json
from pathlib import Path

from harness import paths, tags
from reports.reading.store import Run

RECORD = "run.json"
"""In the folder of a run: its record, with the attempt that wrote the folder last."""


def name_of(run: Run) -> str | None:
    """Name of the run's folder; None for an A/A replicate, which has none of its own, and where tags are missing."""
    known = [run.tags.get(tag) for tag in (tags.MODEL, tags.SCALE, tags.TASK, tags.SEED, tags.FINGERPRINT)]
    if None in known or run.is_aa_replicate:
        return None
    model, scale, task, seed, fingerprint = known
    what = run.params.get("pretrain.objective", "") if run.is_pretraining else task
    enhancements = [name for name in run.tags.get(tags.ENHANCEMENTS, "").split(",") if name]
    return paths.run_name([model, *enhancements, scale, what, seed], fingerprint)


def folder_of(run: Run, output: Path | None) -> Path | None:
    """The folder that this very attempt wrote, below `output` or where the run says; None where there is none any more."""
    name, study = name_of(run), run.tags.get(tags.STUDY)
    if name is None or study is None:
        return None
    outputs = [place for place in (output, Path(run.params.get("output", "multirun"))) if place]
    folders = [paths.run_folder(str(place), paths.PRETRAINED if run.is_pretraining else study, name) for place in outputs]
    return next((folder for folder in folders if _is_of(run, folder / RECORD)), None)


def _is_of(run: Run, record: Path) -> bool:
    """Whether the record is of this run: a later attempt writes to the same folder."""
    return record.is_file() and json.loads(record.read_text()).get("attempt") == run.tags.get(tags.ATTEMPT)
