"""Sends results to MLflow that it has missed, from the folders of the runs; sending them twice changes nothing.

python -m harness sync [--output multirun] [--uri URI]
"""

import json
from pathlib import Path

from harness import paths, tags
from harness.commands.arguments import Parser
from harness.errors import InputError
from harness.tracking import database, run_log


def sync(output: str, uri: str | None) -> int:
    """Sends every finished run below `output`; returns how many there are. InputError when MLflow is unreachable."""
    from harness.tracking.mlflow_store import MlflowException, Tracker  # MLflow takes a second, which --help does not need

    folders = sorted(path.parent for path in Path(output).glob("*/*/result.json"))
    try:
        if kept := database.renewed(uri or paths.database_uri(output)):
            print(f"the tracking store was broken: kept as {kept}, and made anew from the folders of the runs")
        trackers: dict[str, Tracker] = {}
        for folder in folders:
            record = json.loads((folder / "run.json").read_text())
            study = record["tags"]["study"]
            if study not in trackers:
                trackers[study] = Tracker(uri, output, study)
                trackers[study].study_run()
            trackers[study].send(record, folder)
        for study, tracker in trackers.items():
            tracker.reap()
            report = paths.report_folder(output, study)
            written = report if (report / "report.md").is_file() else None
            tracker.close_study(_plan(folders, study), {}, "finished", written)
    except (MlflowException, database.BrokenStoreError) as error:
        raise InputError(f"MLflow is unreachable: {str(error).splitlines()[0]}") from error
    return len(folders)


def _plan(folders: list[Path], study: str) -> list[dict[str, str]]:
    """What each run of the study is, A/A replicates left out."""
    records = {folder: json.loads((folder / "run.json").read_text())["tags"] for folder in folders}
    kept = {folder: known for folder, known in records.items() if known["study"] == study and tags.REPLICATE not in known}
    return [known | {"folder": folder.name, tags.STATUS: run_log.result(folder)["status"]} for folder, known in kept.items()]


def main(arguments: list[str]) -> int:
    """0; InputError where there are no runs, or MLflow is unreachable."""
    parser = Parser("sync", __doc__.splitlines()[0])
    parser.add_argument("--output", default="multirun", help="folder of the runs (multirun)")
    parser.add_argument("--uri", help="tracking store (SQLite in the output folder)")
    options = parser.parse_args(arguments)
    if not Path(options.output).is_dir():
        raise InputError(f"--output={options.output!r} is not a folder")
    count = sync(options.output, options.uri)
    print(f"synced {count} run{'s'[: count != 1]}")
    return 0
