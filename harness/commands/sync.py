"""Sends results to MLflow that it has missed, from the folders of the runs; sending them twice changes nothing.

python -m harness sync [--output multirun] [--uri URI]
"""

import json
from pathlib import Path

from harness.commands.arguments import Parser
from harness.errors import InputError
from harness.tracking import run_log


def sync(output: str, uri: str | None) -> int:
    """Sends every finished run below `output`; returns how many there are. InputError when MLflow is unreachable."""
    from harness.tracking.mlflow_store import MlflowException, Tracker  # MLflow takes a second, which --help does not need

    folders = sorted(path.parent for path in Path(output).glob("*/*/result.json"))
    trackers: dict[str, Tracker] = {}
    try:
        for folder in folders:
            record, result = json.loads((folder / "run.json").read_text()), run_log.result(folder)
            study = record["tags"]["study"]
            trackers.setdefault(study, Tracker(uri, output, study))
            run_id = trackers[study].open(record)
            trackers[study].log(run_id, run_log.Reader(folder).new_entries())
            trackers[study].close(run_id, folder, result["status"])
    except MlflowException as error:
        raise InputError(f"MLflow is unreachable: {str(error).splitlines()[0]}") from error
    return len(folders)


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
