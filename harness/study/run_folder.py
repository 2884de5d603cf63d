"""The folder of a run around its worker: its config, and its record with the end."""

import getpass
import os
import shlex
import shutil
import sys
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import checksums, paths, tags
from harness.config.resolve import load
from harness.config.schema import RunConfig, save
from harness.redact import words
from harness.study import identity
from harness.study.identity import Inputs
from harness.study.schedule import End
from harness.tracking import run_log

CONFIG = "config.yaml"


def record(config: RunConfig, inputs: Inputs, lifted: list[str]) -> dict[str, Any]:
    """A new attempt at the run."""
    described = identity.describe(config, inputs, lifted)
    described["tags"] |= source(described["tags"][tags.GIT_COMMIT])
    return {
        "attempt": uuid.uuid4().hex,
        "name": identity.title(config, inputs),
        "started": run_log.now_ms(),
        "inputs": asdict(inputs),
        "training": identity.training(config, inputs),
        **described,
    }


def source(commit: str) -> dict[str, str]:
    """Tags that say what was called, by whom, and at which commit."""
    command = shlex.join(["harness", *words(sys.argv[1:])])
    known = {tags.COMMAND: command, "mlflow.source.name": "python -m harness", "mlflow.source.type": "LOCAL"}
    known |= {"mlflow.user": _user()}
    return known | ({"mlflow.source.git.commit": commit} if commit != "unknown" else {})


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"user {os.getuid()}"


def prepare(folder: Path, config: RunConfig, run: dict[str, Any]) -> None:
    """Writes config and record, which gets the checksum of the config, and removes the files of an earlier attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (paths.CHECKPOINTS, paths.WEIGHTS, paths.KEPT):
        shutil.rmtree(folder / name, ignore_errors=True)
    links = (path for path in folder.iterdir() if path.is_symlink())  # which would be written through
    for path in (*run_log.artifacts(folder), folder / run_log.LINES, folder / run_log.RECORD, *links):
        path.unlink(missing_ok=True)
    save(config, folder / CONFIG)
    run["files"] = checksums.of_files(folder, [CONFIG])
    write(folder, run)


def try_again(folder: Path, run: dict[str, Any]) -> None:
    """Lays the folder out for another worker of the same attempt; the curves of a training without a checkpoint begin anew."""
    if not any(folder.glob(f"{paths.CHECKPOINTS}/step-*")):
        (folder / run_log.LINES).unlink(missing_ok=True)
    write(folder, run)


def write(folder: Path, run: dict[str, Any]) -> None:
    """Replaces the record of a run."""
    run_log.write_json(folder / run_log.RECORD, checksums.with_checksum(run))


def write_end(folder: Path, run: dict[str, Any], end: End) -> None:
    """Adds the end to the record of the run, in its folder."""
    run[tags.END] = {"state": end.state.value, "reason": end.reason, "lines": list(end.lines), "time": run_log.now_ms()}
    write(folder, run)


def read(folder: Path) -> dict[str, Any]:
    """The record of a run; FileNotFoundError where there is none, TornError for a torn one."""
    return run_log.read(folder / run_log.RECORD)


def resumable(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """The record of an attempt that left a checkpoint to resume from; None if the run starts from the beginning.

    An attempt that did not keep all weights that `pretrain.keep` now asks for is not resumed.
    """
    if not ((folder / run_log.RECORD).exists() and any(folder.glob(f"{paths.CHECKPOINTS}/step-*"))):
        return None
    keeps_all = {*config.pretrain.keep} <= {*load(folder / CONFIG).pretrain.keep}
    if not keeps_all:
        return None
    return {key: value for key, value in read(folder).items() if key != tags.END}
