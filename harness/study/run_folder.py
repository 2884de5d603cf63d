"""The folder of a run around its worker: its config, its record with the end, and what is done where it cannot be read."""

import contextlib
import getpass
import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from harness import paths, records, tags
from harness.config.resolve import load, save
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.records import CorruptError
from harness.redact import words
from harness.study import hypothesis
from harness.study.identity import Identity, Inputs
from harness.terminal import console
from harness.tracking import run_log
from harness.tracking.run_log import Record

if TYPE_CHECKING:  # workers plan nothing
    from harness.study.plan import PlannedRun

CONFIG = "config.yaml"


def new_record(config: RunConfig, inputs: Inputs, lifted: list[str]) -> Record:
    """The record of a new attempt at the run."""
    identity = Identity(config, inputs)
    described = identity.described(lifted)
    described["tags"] |= source(described["tags"][tags.GIT_COMMIT]) | hypothesis.tags_of(config)
    return {
        "attempt": uuid.uuid4().hex,
        "name": identity.title,
        "started": run_log.now_ms(),
        "inputs": asdict(inputs),
        "training": identity.training,
        "tags": described["tags"],
        "parameters": described["parameters"],
    }


def source(commit: str) -> dict[str, str]:
    """Tags that say what was called, by whom, and at which commit."""
    command = shlex.join(["harness", *words(sys.argv[1:])])
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = f"user {os.getuid()}"
    source_tags = {tags.COMMAND: command, "mlflow.source.name": "python -m harness", "mlflow.source.type": "LOCAL"}
    return source_tags | {"mlflow.user": user} | ({"mlflow.source.git.commit": commit} if commit != "unknown" else {})


def prepare(folder: Path, config: RunConfig, run: Record) -> None:
    """Writes config and record, and removes the files of an earlier attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (paths.CHECKPOINTS, paths.WEIGHTS, paths.KEPT):
        shutil.rmtree(folder / name, ignore_errors=True)
    links = (path for path in folder.iterdir() if path.is_symlink())  # which would be written through
    for path in (*run_log.artifacts(folder), folder / run_log.LINES, folder / run_log.RECORD, *links):
        path.unlink(missing_ok=True)
    save(config, folder / CONFIG)
    write(folder, run)


def remove_temporary(folder: Path) -> None:
    """Removes what a killed worker left half-written in the folder of a run; to be called under the locks of the run."""
    for path in paths.below(folder):
        if paths.TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def write(folder: Path, run: Record) -> None:
    """Replaces the record of a run."""
    records.write(folder / run_log.RECORD, run)


def read(folder: Path) -> Record:
    """The record of a run; FileNotFoundError where there is none, CorruptError for one that cannot be read."""
    return records.read(folder / run_log.RECORD, Record)


def resumable(folder: Path, keep: list[float]) -> Record | None:
    """The record of an attempt that left a checkpoint to resume from; None if the run starts from the beginning.

    An attempt that did not keep all weights that `pretrain.keep` now asks for is not resumed.
    """
    if not ((folder / run_log.RECORD).exists() and any(folder.glob(f"{paths.CHECKPOINTS}/step-*"))):
        return None
    if not {*keep} <= {*load(folder / CONFIG).pretrain.keep}:
        return None
    record = read(folder)
    record.pop(tags.END, None)
    return record


RESUMED_FROM = "resumed_from"
"""Tag with the name of the folder whose checkpoints a run began with."""


def take_over(folder: Path, config: RunConfig, record: Record) -> Path | None:
    """Copies checkpoints, kept weights and curves of the same training into this new run; None where no other run left any.

    If there are several, the one with the newest step. Its folder is not changed: it can be resumed, too.
    """
    candidates = [(steps[-1].name, other) for other in folder.parent.iterdir() if (steps := _steps(other, config, record))]
    for _, other in sorted(candidates, reverse=True):
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
            write(folder, record)
            return other
    return None


def _steps(other: Path, config: RunConfig, record: Record) -> list[Path]:
    """Checkpoints of another attempt at the training of this record, oldest first."""
    steps = sorted(other.glob(f"{paths.CHECKPOINTS}/step-*"))
    if not steps or not (other / run_log.LINES).exists():
        return []
    try:
        theirs = resumable(other, config.pretrain.keep)
    except CorruptError:
        return []
    same = theirs and theirs["attempt"] != record["attempt"] and theirs.get("training") == record["training"]
    return steps if same else []


def set_aside(planned: Sequence["PlannedRun"]) -> None:
    """Renames records, results and logs that cannot be read, and prints it, so that these runs run again.

    The one place that does: what a run writes is whole, so that only damage from outside is noticed here. InputError for a
    folder that is a link: a run would empty what it names, which may be anywhere.
    """
    for folder in (run.folder for run in planned):
        if folder.is_symlink() or folder.parent.is_symlink():
            raise InputError(
                f"{folder} is reached by a link, which is not followed: move the folder to its place, or set study or output"
            )
        if not (folder / run_log.RECORD).exists() and not (folder / run_log.RESULT).exists():
            continue
        with contextlib.suppress(Timeout), FileLock(folder / paths.LOCK, timeout=0):  # one that is being run stays
            if faults := run_log.faults(folder):
                listed = ", ".join(f"{name} {why}" for name, why in faults.items())
                console.problem(f"{folder}: {listed}: kept as *{records.ASIDE}, and the run is made again")
                for path in (folder / name for name in {*faults, run_log.RECORD, run_log.RESULT}):
                    if path.exists() or path.is_symlink():
                        records.set_aside(path)
