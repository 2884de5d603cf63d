"""A pretraining that ended on one number of devices is resumed on another: its checkpoints and curves are taken over."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness import paths
from harness.checksums import TornError
from harness.config.schema import RunConfig
from harness.study import run_folder
from harness.tracking import run_log

RESUMED_FROM = "resumed_from"
"""Tag with the name of the folder whose checkpoints a run began with."""


def take_over(folder: Path, config: RunConfig, record: dict[str, Any]) -> Path | None:
    """Copies checkpoints, kept weights and curves of the same training into this new run; None where no other run left any.

    Of several runs, the one with the newest step. Its folder is not changed: it can be resumed, too.
    """
    found = [(steps[-1].name, other) for other in folder.parent.iterdir() if (steps := _steps(other, config, record))]
    for _, other in sorted(found, reverse=True):
        with (
            contextlib.suppress(Timeout),
            FileLock(other / paths.LOCK, timeout=0),
            FileLock(other / paths.WORKER_LOCK, timeout=0),
        ):
            for name in (paths.CHECKPOINTS, paths.KEPT):
                if (other / name).is_dir():
                    shutil.copytree(other / name, folder / name)
            shutil.copyfile(other / run_log.LINES, folder / run_log.LINES)
            record["tags"][RESUMED_FROM] = other.name
            run_folder.write(folder, record)
            return other
    return None


def _steps(other: Path, config: RunConfig, record: dict[str, Any]) -> list[Path]:
    """Checkpoints of another attempt at the training of this record, oldest first."""
    steps = sorted(other.glob(f"{paths.CHECKPOINTS}/step-*"))
    if not steps or not (other / run_log.LINES).exists():
        return []
    try:
        theirs = run_folder.resumable(other, config)
    except TornError:
        return []
    same = theirs and theirs["attempt"] != record["attempt"] and theirs.get("training") == record["training"]
    return steps if same else []
