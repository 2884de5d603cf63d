"""The worker: one run in its own process. It imports torch, but neither Hydra nor MLflow.

python -m harness.study.worker FOLDER     reads config.yaml and run.json there, writes result.json

A run on several devices is executed by as many processes: those that the worker starts, or, under an outer launcher, this one
and those of the other commands.
"""

import sys
from pathlib import Path

from filelock import FileLock

from harness import paths
from harness.config import resolve
from harness.hardware import outer_launcher
from harness.study import ranks
from harness.study.execute import execute

WAIT_S = 60.0
"""Longest wait for another worker that writes into the folder; the supervisor has seen that there is none."""


def main(folder: Path) -> None:
    """Executes the run of this folder; after an exception there is no result. Timeout if another worker writes there."""
    with FileLock(folder / paths.WORKER_LOCK, timeout=WAIT_S):
        config = resolve.load(folder / "config.yaml")
        if config.hardware.devices == 1:
            execute(folder, config)
        elif outer_launcher.processes() > 1:
            ranks.execute_first(folder, config)
        else:
            ranks.start_ranks(folder, config.hardware.devices)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
