"""Sends results to MLflow that it has missed, from the folders of the runs; sending them twice changes nothing.

A run without a result, which is running or failed, is not sent.

python -m harness sync [output=multirun] [tracking.uri=URI]
"""

from pathlib import Path

from harness import paths, tags
from harness.errors import InputError, on_one_line, present
from harness.plugins.shared import status
from harness.plugins.trackers import sqlite_store
from harness.plugins.trackers.mlflow_store import MlflowException, Tracker
from harness.plugins.upkeep.options import Sync
from harness.terminal import counted
from harness.tracking import run_log
from harness.tracking.database import BrokenStoreError
from harness.tracking.run_log import Record, State
from harness.tracking.trackers import complaint

SENT = ("attempt", "name", "started", "tags", "parameters")
"""Keys of a record that the tracking store gets."""


def sync(output: str, uri: str | None) -> int:
    """Sends every finished run below `output`; returns how many there are.

    InputError when MLflow is unreachable, and for a record or a store that is not as the harness makes it.
    """
    if not (records := run_log.all_records(output)):
        raise InputError(f"output={output!r} has no run: expected the `output` of one")
    runs = {folder: record for folder, record in records.items() if _is_sound(folder, record)}
    try:
        if set_aside := sqlite_store.renewed(uri or paths.database_uri(output)):
            print(f"the tracking store was corrupt: kept as {set_aside}, and rebuilt from the folders of the runs")
        trackers = {}
        for folder, record in runs.items():
            study = record["tags"]["study"]
            if study not in trackers:
                trackers[study] = Tracker(uri, output, study)
                trackers[study].study_run()
            trackers[study].send(record, folder)
        for study, tracker in trackers.items():
            tracker.reap()
            of_study = {folder: record["tags"] for folder, record in runs.items() if record["tags"]["study"] == study}
            if state := _state(output, study, [*of_study]):
                report = paths.report_folder(output, study)
                planned = [
                    run_tags | {"folder": folder.name, tags.STATUS: present(run_log.result(folder))["status"]}
                    for folder, run_tags in of_study.items()
                    if tags.REPLICATE not in run_tags
                ]
                tracker.close_study(planned, {}, state, report if report.is_dir() else None)
    except (MlflowException, ModuleNotFoundError, BrokenStoreError) as error:  # a database without its driver
        raise InputError(f"{f'tracking.uri={uri}: ' if uri else ''}MLflow {complaint(error)}") from error
    return len(runs)


def _is_sound(folder: Path, record: Record) -> bool:
    """Whether the run has a result, a record with all that is sent, and readable files; faults are printed."""
    lacks = [*(key for key in SENT if key not in record), *({tags.STUDY} - record.get("tags", {}).keys())]
    faults = run_log.faults(folder) | ({run_log.RECORD: f"has no {lacks[0]}"} if lacks else {})
    if not faults and "time" not in (run_log.result(folder) or {"time": 0}):
        faults = {run_log.RESULT: "has no time"}
    for name, why in faults.items():
        print(f"{on_one_line(str(folder / name))} {why}: this run is left out; repeat its command to rerun it", flush=True)
    return not faults and (folder / run_log.RESULT).exists()


def _state(output: str, study: str, folders: list[Path]) -> State | None:
    """How the study ended: killed where a run of it has no result; None while one of them is running."""
    try:  # what the commands of the study planned; nothing where that is corrupt
        plans = [*status.plans(output, study).values()]
    except InputError:
        plans = []
    folders = [*folders, *(paths.planned_folder(output, entry["folder"]) for plan in plans for entry in plan["runs"])]
    if any(status.is_held(folder / lock) for folder in folders for lock in (paths.LOCK, paths.WORKER_LOCK)):
        return None
    return State.finished if all((folder / run_log.RESULT).exists() for folder in folders) else State.killed


def main(options: Sync) -> int:
    """0; InputError where MLflow is unreachable."""
    print(f"synced {counted(sync(options.output, options.uri), 'run')}")
    return 0
