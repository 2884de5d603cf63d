"""The worker: one run in its own process. It imports torch, but neither Hydra nor MLflow.

python -m harness.study.worker FOLDER     reads config.yaml and run.json there, writes result.json

A run on several devices is executed by as many processes that the worker starts: `harness.study.rank`.
"""

import shutil
import sys
from pathlib import Path

from filelock import FileLock

from harness import measure, paths
from harness.config import resolve
from harness.errors import InputError
from harness.hardware import facts
from harness.hardware.device import Machine
from harness.study import pieces, pretrain_run, run_folder, task_run
from harness.study.end import INVALID
from harness.study.identity import Inputs
from harness.tracking.run_log import RunLog, write_json
from harness.training import distributed
from harness.training.distributed import ALONE, Ranks
from harness.training.loop import DivergedError

WAIT_S = 60.0
"""Longest wait for another worker that writes into the folder; the supervisor has seen that there is none."""


def main(folder: Path) -> None:
    """Executes the run of this folder; after an exception there is no result. Timeout if another worker writes there."""
    with FileLock(folder / paths.WORKER_LOCK, timeout=WAIT_S):
        devices = resolve.load(folder / "config.yaml").hardware.devices
        if devices == 1:
            execute(folder)
        else:
            from harness.study import launch  # torch's launcher takes a second

            launch.start_ranks(folder, devices)


def execute(folder: Path, ranks: Ranks = ALONE) -> None:
    """Executes the run as this one of its ranks, of which the first writes."""
    record = run_folder.read(folder)
    config = pieces.applied(resolve.load(folder / "config.yaml"), record)
    run_log = RunLog(folder, writes=ranks.first)
    if ranks.first:
        write_json(folder / "environment.json", facts.environment(config.hardware) | {"measure_version": measure.VERSION})
    try:
        inputs, machine = Inputs(**record["inputs"]), Machine(config.hardware, distributed.local_rank())
        if inputs.data is None:
            pretrain_run.run(config, inputs, record["training"], machine, run_log, ranks)
        else:
            task_run.run(config, inputs, machine, run_log, ranks)
        status = "finished"
    except DivergedError as error:  # on all ranks at once: they share the loss
        print(error)
        status = "diverged"
    except InputError as error:  # of this machine, or of files that have changed since the command read them
        print(error)
        sys.exit(INVALID)
    if ranks.first:
        run_log.finish(status)
        if status == "finished":
            shutil.rmtree(folder / paths.CHECKPOINTS, ignore_errors=True)  # a finished run is not resumed


if __name__ == "__main__":
    main(Path(sys.argv[1]))
