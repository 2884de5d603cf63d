"""Sends runs to MLflow that it has missed, from their folders; sending one twice changes nothing.

python -m harness.sync [--output multirun] [--uri URI]
"""

import argparse
import json
import sys
from pathlib import Path

from harness.tracking import run_log
from harness.tracking.mlflow_store import MlflowException, Tracker


def sync(output: str, uri: str | None) -> int:
    """Sends every finished run below `output`; returns how many there are. MlflowException when MLflow is unreachable."""
    folders = sorted(path.parent for path in Path(output).glob("*/*/result.json"))
    trackers: dict[str, Tracker] = {}
    for folder in folders:
        record, result = json.loads((folder / "run.json").read_text()), run_log.result(folder)
        study = record["tags"]["study"]
        trackers.setdefault(study, Tracker(uri, output, study))
        run_id = trackers[study].open(record)
        trackers[study].log(run_id, run_log.Reader(folder).new_entries())
        trackers[study].close(run_id, folder, result["status"])
    return len(folders)


def main() -> None:
    """Exit code 2 when there is nothing to send or MLflow is unreachable."""
    parser = argparse.ArgumentParser(prog="python -m harness.sync", description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="multirun", help="folder of the runs (multirun)")
    parser.add_argument("--uri", help="tracking store (SQLite in the output folder)")
    options = parser.parse_args()
    if not Path(options.output).is_dir():
        sys.exit(_wrong(f"--output={options.output!r} is not a folder"))
    try:
        print(f"synced {sync(options.output, options.uri)} runs")
    except MlflowException as error:
        sys.exit(_wrong(f"MLflow is unreachable: {str(error).splitlines()[0]}"))


def _wrong(line: str) -> int:
    print(f"harness.sync: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
