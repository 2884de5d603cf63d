"""What the commands of a study plan to run, kept beside its runs: what is missing can be said without composing anything."""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from harness import paths
from harness.config import launched
from harness.config.command_line import QUIET_KEY
from harness.redact import words
from harness.study.plan import PlannedRun
from harness.study.timing.session import is_to_be_timed
from harness.tracking import run_log

LOCK = ".plan.lock"
"""In the folder of a study: held while its plan is written."""

AGAIN = ("rerun=true", "sweep.retime=true")
"""Words of a command that repeat finished work."""


@dataclass(frozen=True)
class Entry:
    """A planned run."""

    folder: str  # below the folder of all results
    title: str
    timed: bool  # whether its inference is timed when it has finished
    needs: str | None  # folder of the pretraining that it starts from


def write(planned: Sequence[PlannedRun]) -> None:
    """Adds what this command plans to the files of its studies, in place of an earlier plan of the same command.

    Jobs of one sweep, which a launcher started, plan a run each: together they are the plan of the command.
    """
    studies = {(item.config.output, item.config.study) for item in planned}
    for output, study in studies:
        entries = [asdict(_entry(item)) for item in planned if (item.config.output, item.config.study) == (output, study)]
        paths.made(Path(output).absolute())
        folder = paths.study_folder(output, study)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK):
            known = run_log.read_or_set_aside(folder / paths.PLAN)
            mine = {"time": run_log.now_ms(), "folder": os.getcwd(), "sweep": launched.sweep(), "runs": entries}
            before = known.get(command(), {})
            if mine["sweep"] is not None and before.get("sweep") == mine["sweep"]:
                planned_here = {entry["folder"] for entry in entries}
                mine["runs"] = [*(entry for entry in before["runs"] if entry["folder"] not in planned_here), *entries]
            run_log.write_json(folder / paths.PLAN, {**known, command(): mine})


def command() -> str:
    """This command, to be called again: without secrets, -q, and keys that would run or time again what is finished."""
    repeated = (word for word in sys.argv[1:] if word.lstrip("+") not in (*AGAIN, QUIET_KEY))
    return shlex.join(["python", "-m", "harness", *words(repeated)])


def _entry(item: PlannedRun) -> Entry:
    output = Path(item.config.output).absolute()
    needs = None if item.needs is None else str(item.needs.folder.relative_to(output))
    return Entry(str(item.folder.relative_to(output)), item.title, is_to_be_timed(item) and item.config.sweep.timing, needs)
