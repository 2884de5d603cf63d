"""Executes a run in this process: alone, or as one of its ranks."""

import shutil
import sys
from pathlib import Path

from harness import paths
from harness.config import resolve
from harness.errors import InputError
from harness.hardware import facts
from harness.hardware.device import Machine
from harness.processes.ending import INVALID
from harness.study import pieces, pretrain_run, run_folder, task_run
from harness.study.identity import Inputs
from harness.tracking.run_log import RunLog, write_json
from harness.training import distributed
from harness.training.distributed import ALONE, Ranks
from harness.training.loop import DivergedError


def execute(folder: Path, ranks: Ranks = ALONE) -> None:
    """Executes the run as this one of its ranks, of which the first writes."""
    record = run_folder.read(folder)
    config = pieces.applied(resolve.load(folder / "config.yaml"), record)
    run_log = RunLog(folder, writes=ranks.first)
    if ranks.first:
        write_json(folder / "environment.json", facts.environment(config.hardware))
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
        print(error, file=sys.stderr, flush=True)  # of any rank
        sys.exit(INVALID)
    if ranks.first:
        run_log.finish(status)
        if status == "finished":
            shutil.rmtree(folder / paths.CHECKPOINTS, ignore_errors=True)  # a finished run is not resumed
