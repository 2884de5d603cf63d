"""What of a study has finished, what is missing and why, and the command that completes it.

python -m harness status [STUDY] [output=multirun]
"""

import os
import shlex
from pathlib import Path

from harness import paths
from harness.comparison.paired import grouped
from harness.errors import InputError, unknown
from harness.plugins.shared import status
from harness.plugins.shared.status import CommandStatus, RunStatus
from harness.plugins.upkeep.options import Status
from harness.redact import HIDDEN
from harness.terminal import WIDTH, counted, wrapped
from harness.tracking.run_log import State, shortened

WITH_LOG = ("diverged", "out of memory", "timeout", "killed", "failed", "invalid")
"""States whose run log tells more."""

SEED = ", seed "
"""Stands before the seed in the title of a run."""


def main(options: Status) -> int:
    """0 if everything that was planned has finished, 1 if not; InputError where there is no such study."""
    studies = status.studies(options.output)
    if not studies:
        raise InputError(
            f"output={options.output!r} has no studies: start one, such as python -m harness -m model=base,static task=order"
        )
    if options.study is not None and options.study not in studies:
        raise unknown("study", options.study, studies, "status")
    selected = studies if options.study is None else [options.study]
    commands = {study: status.of_study(options.output, study) for study in selected}
    for study, ran in commands.items():
        if len(selected) == 1:
            print("\n\n".join(_details(study, command) for command in ran))
            continue
        planned, missing = (
            sum(len(runs) for runs in every) for every in zip(*((it.runs, it.missing) for it in ran), strict=True)
        )
        still = ", search unfinished" if any(command.is_searching for command in ran) else ""
        missed = f", {missing} missing" if missing else ""
        count = sum(bool(run.said) for command in ran for run in command.runs)
        warned = f", {count} with a warning" * bool(count)
        print(f"{study}: {planned - missing} of {planned} planned runs complete{missed}{warned}{still}")
    if len(selected) > 1:
        where = "" if options.output == Status.output else f" {shlex.quote(f'output={options.output}')}"
        print(f"python -m harness status STUDY{where} lists warnings, what is missing and why, and the command")
    return int(any(not command.is_complete for ran in commands.values() for command in ran))


def _details(study: str, command: CommandStatus) -> str:
    lines = [f"{study}: {counted(len(command.runs), 'run')}: {command.counts()}"]
    lines += ["search unfinished: more trials follow"] if command.is_searching else []
    listed = _by_seed([run for run in command.runs if run.said or not run.is_complete])
    width, given = max(map(len, listed), default=0), set[str]()
    if listed or not command.is_complete:
        lines += ["", *(_line(title, run, width, given) for title, run in listed.items()), *([""] if listed else [])]
    if command.is_complete:
        return "\n".join([*lines, f"Complete. Its command: {command.command}"])
    diverged = [run for run in command.missing if run.state == "diverged"]
    if command.is_searching or len(diverged) < len(command.missing):
        place = _place(Path(command.folder))
        lines += ["To complete it:", f"  {place}{command.command}"]
    if command.left_out:
        lines.append(
            f"Left out because it may name code, files or variables: {', '.join(command.left_out)}. Add it if it is yours."
        )
    if HIDDEN in command.command:
        lines.append(f"{HIDDEN} is a secret that was not kept: replace it.")
    if "sweep.budget_minutes=" in command.command:
        lines.append("Runs beyond the budget are left out: a larger sweep.budget_minutes adds them.")
    if "sweep.timeout_minutes=" in command.command and any(run.state == State.timeout.text for run in command.missing):
        lines.append("Runs that timed out need a larger sweep.timeout_minutes.")
    if diverged:
        lines.append("Diverged runs are not repeated: change their settings, or add rerun=true.")
    return "\n".join(lines)


def _place(folder: Path) -> str:
    """`cd FOLDER && ` where the command was called elsewhere; InputError for a folder that is not a command's."""
    if not folder.is_absolute() or not str(folder).isprintable():
        raise InputError(f"{str(folder)!r}, in a plan, is not a command's folder: expected its absolute path")
    others = [folder / name for name in ("harness", "harness.py") if (folder / name).exists()]
    if others and others[0].resolve() != Path(paths.__file__).resolve().parent:  # `python -m harness` would run it there
        raise InputError(f"{folder}, where a command of the plan was called, contains other code named harness")
    if folder == Path.cwd():
        return ""
    return f"cd {shlex.quote(str(folder))} && "


def _by_seed(runs: list[RunStatus]) -> dict[str, RunStatus]:
    """`albert, tiny, bag, seeds 0, 1` -> the first of the runs that differ in their seed alone, and ended alike."""
    alike = grouped(
        ((run.title.rpartition(SEED)[0] or run.title, run.state, run.is_untimed, run.reason, run.said, run.retries), run)
        for run in runs
    )
    titles = {}
    for first, *others in alike.values():
        seeds = [run.title.rpartition(SEED)[2] for run in (first, *others)]
        titles[f"{first.title.rpartition(SEED)[0]}, seeds {', '.join(seeds)}" if others else first.title] = first
    return titles


def _line(title: str, run: RunStatus, width: int, given: set[str]) -> str:
    """How the run ended, and why; advice on training that is already `given` is left out."""
    state = "not timed" if run.is_untimed else run.state
    log = run.folder / "log.txt"
    place = f" (see {os.path.relpath(log)})" if run.state in WITH_LOG and log.exists() else ""
    again = f", run {counted(1 + run.retries, 'time')}" if run.retries else ""
    why = shortened(run.reason or run.said, given) if run.said or run.state == "diverged" else run.reason
    first, why = f"  {title:<{width}}  {state:<14}  ", f"{why}{again}{place}"
    if len(first) > WIDTH // 2:
        return "\n".join([first.rstrip(), *([wrapped(why, 6)] if why else [])])
    return wrapped(why, len(first), first) if why else first.rstrip()
