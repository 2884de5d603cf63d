"""What of a study has finished, what is missing and why, and the command that completes it.

python -m harness status [STUDY] [--output multirun]
"""

import os
import shlex

from harness.commands.arguments import Parser, folder_of_runs
from harness.errors import InputError, unknown
from harness.redact import HIDDEN
from harness.study import status
from harness.study.status import CommandStatus, RunStatus
from harness.terminal import WIDTH, wrapped


def main(arguments: list[str]) -> int:
    """0 if everything that was planned has finished, 1 if not; InputError where there is no such study."""
    parser = Parser("status", __doc__.splitlines()[0])
    parser.add_argument("study", nargs="?", help="name of a study (all of them, in short)")
    parser.add_argument("--output", default="multirun", help="folder of the runs (multirun)")
    options = parser.parse_args(arguments)
    folder_of_runs(options.output)
    known = status.studies(options.output)
    if not known:
        raise InputError(f"--output={options.output!r} has no study with a plan: run one first")
    if options.study is not None and options.study not in known:
        raise unknown("study", options.study, known, "status")
    chosen = known if options.study is None else [options.study]
    found = {study: status.of_study(options.output, study) for study in chosen}
    for study, commands in found.items():
        print(_in_short(study, commands) if len(chosen) > 1 else "\n\n".join(_details(study, one) for one in commands))
    if len(chosen) > 1:
        where = "" if options.output == parser.get_default("output") else f" --output {shlex.quote(options.output)}"
        print(f"python -m harness status STUDY{where} says why, and which command completes it")
    return int(any(one.missing for commands in found.values() for one in commands))


def _in_short(study: str, commands: list[CommandStatus]) -> str:
    planned, missing = sum(len(one.runs) for one in commands), sum(len(one.missing) for one in commands)
    return f"{study}: {planned - missing} of {planned} planned runs complete" + (f", {missing} missing" if missing else "")


def _details(study: str, one: CommandStatus) -> str:
    lines = [f"{study}: {len(one.runs)} run{'s'[: len(one.runs) != 1]}: {one.counts()}"]
    if not one.missing:
        return "\n".join([*lines, f"nothing is missing of: {one.command}"])
    width = max(len(run.title) for run in one.missing)
    lines += ["", *(_line(run, width) for run in one.missing), ""]
    again = [run for run in one.missing if run.state == "diverged"]
    if len(again) < len(one.missing):
        place = "" if one.folder == os.getcwd() else f"cd {shlex.quote(one.folder)} && "
        lines += ["To complete it:", f"  {place}{one.command}"]
    if HIDDEN in one.command:
        lines.append(f"{HIDDEN} stands for what was not kept, because it is secret: put it in its place.")
    if "sweep.budget_minutes=" in one.command:
        lines.append("What does not fit into its budget is left out: a larger sweep.budget_minutes runs more.")
    if again:
        lines.append("A diverged run has its result, and is not run again: change its settings, or add rerun=true.")
    return "\n".join(lines)


def _line(run: RunStatus, width: int) -> str:
    state = "not timed" if run.is_untimed else run.state
    log = run.folder / "log.txt"
    place = f" (see {os.path.relpath(log)})" if run.state in SHOWN and log.exists() else ""
    again = f", after {run.retries} {'retry' if run.retries == 1 else 'retries'}" if run.retries else ""
    first, why = f"  {run.title:<{width}}  {state:<14}  ", f"{run.reason}{again}{place}"
    if len(first) > WIDTH // 2:
        return "\n".join([first.rstrip(), *([wrapped(why, 6)] if why else [])])
    return wrapped(why, len(first), first) if why else first.rstrip()


SHOWN = ("diverged", "out of memory", "timeout", "killed", "failed", "invalid")
"""States in which the log of a run says more."""
