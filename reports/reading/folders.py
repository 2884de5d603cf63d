"""Where the files of a tracked run are, which the tracking store does not say."""

from pathlib import Path
from typing import Any

import msgspec

from harness import metrics, paths, records, tags
from harness.comparison import arms
from harness.comparison.runs import Run
from harness.errors import on_one_line
from harness.records import CorruptError
from harness.reports.reading.store import Output, Packed

RECORD, RESULT = "run.json", "result.json"
"""In the folder of a run: its record, with the attempt that wrote the folder last, and its result."""


def name_of(run: Run) -> str | None:
    """Name of the run's folder; None for an A/A replicate, which has none of its own, and where tags are missing."""
    needed = (tags.MODEL, tags.SCALE, tags.TASK, tags.SEED, tags.FINGERPRINT)
    if not run.tags.keys() >= {*needed} or run.is_aa_replicate:
        return None
    model, scale, task, seed, fingerprint = (run.tags[tag] for tag in needed)
    what = arms.objective(run.params) or "" if run.is_pretraining else task
    enhancements = [name for name in run.tags.get(tags.ENHANCEMENTS, "").split(",") if name]
    return paths.run_name([model, *enhancements, scale, what, seed], fingerprint)


def folder_of(run: Run, output: Output) -> Path | None:
    """The folder of this attempt at the run, below `output` or where the run says; None if it is gone."""
    attempt = run.tags.get(tags.ATTEMPT, "")  # a later attempt writes to the same folder
    return next((folder for folder in candidates(run, output) if record_of(folder).get("attempt") == attempt), None)


def record_of(folder: Path) -> dict[str, Any]:
    """The record in a run's folder; empty where it is missing or cannot be read."""
    try:
        return records.read(folder / RECORD, dict[str, Any])
    except (OSError, CorruptError):
        return {}


def run_of(folder: Path) -> Run:
    """The finished run in a folder, as the store has it; OSError or CorruptError where they cannot be read."""
    record, result = (records.read(folder / name, dict[str, Any]) for name in (RECORD, RESULT))
    identity = {tags.STATUS: result["status"], tags.ATTEMPT: record["attempt"]}
    values = {name: value for name, value in result["metrics"].items() if value is not None and name in metrics.METRICS}
    if notes := result.get("notes", []):
        identity |= {tags.WARNING: "; ".join(one["text"] for one in notes), tags.NOTES: ", ".join(one["kind"] for one in notes)}
    return Run(record["attempt"], record["name"], record["started"], record["tags"] | identity, record["parameters"], values)


def candidates(run: Run, output: Output) -> list[Path]:
    """Where the folder of the run would be, below `output` first; empty for a run without one, and for one of an archive."""
    name, study = name_of(run), run.tags.get(tags.STUDY)
    if name is None or study is None or isinstance(output, Packed):
        return []
    outputs = [place for place in (output, Path(run.params.get("output", "multirun"))) if place]
    try:
        return [paths.run_folder(str(place), paths.PRETRAINED if run.is_pretraining else study, name) for place in outputs]
    except ValueError:  # a name that leads elsewhere
        return []


def not_run(study: str, output: Output) -> list[str]:
    """Titles of the runs that the newest command of a study planned and never started; none where no plan is there."""
    if output is None or isinstance(output, Packed):
        return output.not_run if output else []
    try:
        runs = planned(paths.read(paths.study_folder(str(output), study) / paths.PLAN, paths.LARGEST_PLAN))
        folders = [(on_one_line(one.title), paths.planned_folder(str(output), one.folder)) for one in runs]
    except (OSError, ValueError):  # the plan is no result: status names a torn one
        return []
    return [title for title, folder in folders if not (folder / RECORD).exists()]


def planned_pretrainings(study: str, output: Output) -> list[str]:
    """Fingerprints of the pretrainings that commands of a study planned; another study may have run them."""
    if output is None or isinstance(output, Packed):
        return []
    pretrained = paths.study_folder(str(output), paths.PRETRAINED)
    names = paths.planned(paths.study_folder(str(output), study) / paths.PLAN, paths.PRETRAINED)
    return [of for name in names if (of := record_of(pretrained / name).get("tags", {}).get(tags.FINGERPRINT))]


class Planned(msgspec.Struct):
    """A run of a plan."""

    title: str
    folder: str


class Plan(msgspec.Struct):
    """What a command planned, and when."""

    time: float
    runs: list[Planned]


def planned(content: bytes) -> list[Planned]:
    """The runs of the newest plan in this file; CorruptError for one that holds no plans."""
    plans = records.decoded(content, dict[str, Plan], paths.PLAN)
    return max(plans.values(), key=lambda plan: plan.time).runs if plans else []
