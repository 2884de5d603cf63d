"""The plan of a study, which its commands write next to the runs: `python -m harness status` says what of it is missing."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from filelock import FileLock

from harness import paths, records
from harness.config import command_line
from harness.redact import words
from harness.tracking import run_log

if TYPE_CHECKING:  # reading the state of a study imports no torch
    from harness.study.plan import PlannedRun

PLAN_LOCK = ".plan.lock"
"""In the folder of a study: held while its plan is written."""


class Entry(TypedDict):
    """A run that a command planned."""

    folder: str
    title: str
    timed: bool
    needs: str | None


class Plan(TypedDict):
    """What one command planned."""

    time: int
    folder: str
    runs: list[Entry]
    sweep: NotRequired[str | None]
    search: NotRequired[bool]


Plans = dict[str, Plan]
"""Content of the plan of a study: by command."""

AGAIN = ("rerun", "sweep.retime", "sweep.quiet")
"""Keys that repeat finished work, or print less."""


def write(planned: Sequence["PlannedRun"], is_search: bool = False) -> None:
    """Adds what this command plans to the files of its studies, in place of an earlier plan of the same command.

    A search plans its trials, to which more may come, in a study of their own; after them its command plans the study itself.
    Jobs of one sweep, which a launcher started, plan a run each: together they are the plan of the command.
    """
    for output, study in {(run.config.output, run.config.study) for run in planned}:
        root = Path(output).absolute()
        entries: list[Entry] = [
            {
                "folder": str(run.folder.relative_to(root)),
                "title": run.title,
                "timed": run.is_to_be_timed and run.config.sweep.timing,
                "needs": None if run.needs is None else str(run.needs.folder.relative_to(root)),
            }
            for run in planned
            if (run.config.output, run.config.study) == (output, study)
        ]
        paths.made(root)
        folder = paths.study_folder(output, study)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / PLAN_LOCK):
            plans = records.read_or_set_aside(folder / paths.PLAN, Plans)
            sweep = command_line.sweep()
            mine: Plan = {"time": run_log.now_ms(), "folder": os.getcwd(), "sweep": sweep, "runs": entries}
            if is_search:
                mine["search"] = True
            before = plans.get(command())
            if sweep is not None and before and before.get("sweep") == sweep:
                planned_here = {entry["folder"] for entry in entries}
                mine["runs"] = [*(entry for entry in before["runs"] if entry["folder"] not in planned_here), *entries]
            records.write(folder / paths.PLAN, {**plans, command(): mine})


def command() -> str:
    """This command for another call: without secrets, -q, and keys that repeat what is finished."""
    repeated = (word for word in sys.argv[1:] if word.lstrip("+").partition("=")[0] not in AGAIN)
    return shlex.join(["python", "-m", "harness", *words(repeated)])


def called(output: str, study: str, command: str = "harness status ") -> str:
    """The command that says what is missing of the study, or another one about it."""
    return f"python -m {command}{shlex.join([study, *([] if output == 'multirun' else [f'output={output}'])])}"
