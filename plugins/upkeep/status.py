"""What of a study has finished, what is missing and why, and the command that completes it.

python -m harness status [STUDY] [output=multirun]
"""

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

from harness import paths
from harness.comparison.paired import grouped
from harness.errors import InputError, unknown
from harness.plugins.shared import status
from harness.plugins.shared.status import CommandStatus, RunStatus
from harness.plugins.upkeep.options import Status
from harness.redact import HIDDEN
from harness.study import plan_file
from harness.terminal import WIDTH, counted, wrapped
from harness.tracking.run_log import State, shortened

WITH_LOG = ("diverged", "out of memory", "timeout", "killed", "failed", "invalid")
"""States whose run log tells more."""

NUMBER = re.compile(r"\d+(\.\d+)?")

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
        raise unknown("study", options.study, studies, "STUDY")
    selected = studies if options.study is None else [options.study]
    commands = {study: status.of_study(options.output, study) for study in selected}
    for study, ran in commands.items():
        print(_details(study, ran, options.output) if len(selected) == 1 else _summary(study, ran))
    if len(selected) > 1:
        where = "" if options.output == Status.output else f" {shlex.quote(f'output={options.output}')}"
        print(f"python -m harness status STUDY{where} lists warnings, what is missing and why, and the command")
    return int(any(not command.is_complete for ran in commands.values() for command in ran))


def _distinct(ran: list[CommandStatus]) -> list[RunStatus]:
    """The runs of the commands, each once: as the command sees it for which it is not complete, if there is one."""
    runs = {run.folder: run for command in ran for run in command.runs}
    return [*(runs | {run.folder: run for command in ran for run in command.missing}).values()]


def _summary(study: str, ran: list[CommandStatus]) -> str:
    runs = _distinct(ran)
    counts = {"missing": sum(not run.is_complete for run in runs), "with a warning": sum(bool(run.said) for run in runs)}
    more = [f"{count} {what}" for what, count in counts.items() if count]
    more += ["search unfinished"] * any(command.is_searching for command in ran)
    more += [f"from {len(ran)} commands"] * (len(ran) > 1)
    return ", ".join([f"{study}: {len(runs) - counts['missing']} of {counted(len(runs), 'run')} complete", *more])


def _details(study: str, ran: list[CommandStatus], output: str) -> str:
    heading = _summary(study, ran)
    if len(ran) == 1:
        heading = f"{study}: {counted(len(ran[0].runs), 'run')}: {ran[0].counts()}"
        heading += "\nsearch unfinished: more trials follow" * ran[0].is_searching
    listed = _by_seed([run for run in _distinct(ran) if run.said or not run.is_complete])
    width, given = max(map(len, listed), default=0), set[str]()
    rows = ["\n".join(_line(title, run, width, given) for title, run in listed.items())] * bool(listed)
    endings = [_ending(command, len(ran) > 1) for command in ran if not command.is_complete]
    report = plan_file.called(output, study.removesuffix(paths.OF_TRIALS), "reports study=")
    return ("\n\n" if listed or endings else "\n").join([heading, *rows, *(endings or [f"Complete. Report: {report}"])])


def _ending(command: CommandStatus, is_one_of_several: bool) -> str:
    """The command, and what it needs to complete its runs, of which some are missing."""
    count = f"{len(command.missing)} of {counted(len(command.runs), 'run')} missing."
    lines = [count] * is_one_of_several
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
    """`albert, tiny, bag, seeds 0, 1` -> the first of the runs that differ in their seed alone, and ended alike.

    Their warnings may differ in numbers; those of the first are shown.
    """
    alike = grouped(
        (
            (
                run.title.rpartition(SEED)[0] or run.title,
                run.state,
                run.is_untimed,
                run.reason,
                NUMBER.sub("", run.said),
                run.retries,
            ),
            run,
        )
        for run in runs
    )
    titles = {}
    for first, *others in alike.values():
        seeds = [run.title.rpartition(SEED)[2] for run in (first, *others)]
        if any(run.said != first.said for run in others):
            first = replace(first, said=f"{first.said} (seed {seeds[0]}; the others alike)")
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
