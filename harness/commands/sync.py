"""Tells the tracking store of cells that it has missed, from their folders; telling one twice changes nothing.

python -m harness.sync [--output multirun] [--uri URI]
"""

import argparse
import json
import sys
from pathlib import Path

from harness.tracking import run_log
from harness.tracking.mlflow_store import MlflowException, Tracker


def sync(output: str, uri: str | None) -> int:
    """Replays every finished cell below `output`; returns how many there are. MlflowException when the store is away."""
    folders = sorted(path.parent for path in Path(output).glob("*/*/result.json"))
    trackers: dict[str, Tracker] = {}
    for folder in folders:
        cell, result = json.loads((folder / "cell.json").read_text()), run_log.result(folder)
        study = cell["tags"]["study"]
        trackers.setdefault(study, Tracker(uri, output, study))
        run_id = trackers[study].open(cell)
        trackers[study].log(run_id, run_log.Reader(folder).new_entries())
        trackers[study].close(run_id, folder, result["status"])
    return len(folders)


def main() -> None:
    """Leaves with 2 when there is nothing to tell or nobody to tell it to."""
    parser = argparse.ArgumentParser(prog="python -m harness.sync", description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="multirun", help="folder of the runs (multirun)")
    parser.add_argument("--uri", help="tracking store (SQLite in the output folder)")
    options = parser.parse_args()
    if not Path(options.output).is_dir():
        sys.exit(_wrong(f"--output={options.output!r} is not a folder"))
    try:
        print(f"told of {sync(options.output, options.uri)} cells")
    except MlflowException as error:
        sys.exit(_wrong(f"the tracking store is away: {str(error).splitlines()[0]}"))


def _wrong(line: str) -> int:
    print(f"harness.sync: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
