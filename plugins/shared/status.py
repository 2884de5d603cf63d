"""What the commands of a study have planned, and the state of every planned run, from the files alone."""

import fcntl
import os
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import paths, records, tags
from harness.config import command_line
from harness.config.schema import key_of
from harness.errors import LONGEST, InputError, on_one_line
from harness.records import CorruptError
from harness.study.plan_file import Plans
from harness.tracking import run_log
from harness.tracking.run_log import Record, Result, State

MOST_OF_REASON = 1000
"""Characters of the reason why a run has not finished."""

OF_HYDRA = re.compile(
    r"hydra[./](mode|verbose|launcher|sweeper)(\.\w+)*=[\w:,+-]*|hydra\.sweeper\.params\..*|"
    r"hydra\.searchpath=\[?['\"]?file://[^,]*",
    re.DOTALL,
)
"""Settings of Hydra that are printed in a command; others may name a command or a file of whoever made the plan."""


def rebuilt(command: str, output: str, folder: str) -> tuple[str, list[str]]:
    """The command of a plan, quoted for a shell from its parsed settings, and those that are left out.

    Typed in `folder`, it repeats the runs in `output`. InputError for anything but a command of the harness.
    """
    try:
        typed = shlex.split(command)
        if typed[:3] != ["python", "-m", "harness"]:
            raise InputError("it does not begin with python -m harness")
        parsed = command_line.read(typed[3:])
        if unknown_key := next((one for one in parsed.overrides if not re.match(r"\+{0,2}~?[\w./@:-]+(=|$)", one)), None):
            raise InputError(f"{unknown_key!r} is not a setting")
    except ValueError as error:  # InputError is one; a quotation mark without a partner
        raise InputError(f"{on_one_line(command, LONGEST)!r} is not a command of the harness: {error}") from error
    of_hydra = [one for one in parsed.overrides if re.match(r"\+*~?hydra[./]", one)]
    left_out = [one for one in of_hydra if not OF_HYDRA.fullmatch(one.lstrip("+"))]
    left_out += [one for one in parsed.overrides if re.search(r"\$\{.*:", one, re.DOTALL)]  # may read the environment
    words, place = [word for word in parsed.words if word not in left_out], os.path.abspath(output)
    typed = ["output=multirun", *(one for one in parsed.overrides if key_of(one) == "output")]
    if os.path.abspath(os.path.join(folder, typed[-1].partition("=")[2].strip("'"))) != place:
        words = [*(word for word in words if word not in typed), f"output={output if folder == os.getcwd() else place}"]
    return " ".join(map(_quoted, ["python", "-m", "harness", *words])), [key_of(one) for one in left_out]


def _quoted(word: str) -> str:
    """The word for a shell, on one line and without control characters."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{on_one_line(escaped)}'"


RUNNING, NOT_STARTED, CORRUPT = "running", "not started", "corrupt"
"""States of runs that have not ended, or whose files cannot be read, besides those of `State`."""


@dataclass(frozen=True)
class RunStatus:
    """One planned run."""

    folder: Path
    title: str
    state: str  # as it is read
    reason: str  # why it has not finished, or where it is; empty for a finished one
    is_untimed: bool  # it has finished, and its timing is missing
    retries: int  # times that a command ran it again because its worker was killed
    said: str = ""  # what went wrong in its training, of a finished one

    @property
    def is_complete(self) -> bool:
        """Whether nothing of it is missing."""
        return self.state == State.finished.text and not self.is_untimed


@dataclass(frozen=True)
class CommandStatus:
    """What one command planned."""

    command: str
    left_out: list[str]  # its settings that are not printed
    folder: str  # where it was called
    time_ms: int  # when
    runs: list[RunStatus]
    is_searching: bool  # more trials may come: it was ended before its search was

    @property
    def missing(self) -> list[RunStatus]:
        """Runs that are not complete."""
        return [run for run in self.runs if not run.is_complete]

    @property
    def is_complete(self) -> bool:
        """Whether nothing of it is missing, and no trial follows."""
        return not self.missing and not self.is_searching

    def counts(self) -> str:
        """`9 finished, 2 not started; 3 of the finished ones are not timed`."""
        states = Counter(run.state for run in self.runs)
        more = {
            "finished but not timed": sum(run.is_untimed for run in self.runs),
            "finished with a warning": sum(bool(run.said) for run in self.runs),
            "killed and run again (sweep.retries)": sum(run.retries > 0 for run in self.runs),
        }
        listed = ", ".join(f"{count} {state}" for state, count in states.most_common())
        return "; ".join([listed, *(f"{count} {what}" for what, count in more.items() if count)])


def studies(output: str) -> list[str]:
    """Names of the studies below this folder of which there is a plan."""
    return sorted(path.parent.name for path in Path(output).glob(f"*/{paths.PLAN}"))


def of_study(output: str, study: str) -> list[CommandStatus]:
    """What each command of the study planned, oldest first."""
    commands = []
    for command, plan in plans(output, study).items():
        is_searching = "search" in plan and command not in plans(output, study.removesuffix(paths.OF_TRIALS))
        runs = [_status(output, entry) for entry in plan["runs"]]
        try:
            is_complete = not is_searching and all(run.is_complete for run in runs)
            shown, left_out = rebuilt(command, output, os.getcwd() if is_complete else plan["folder"])
        except InputError as error:
            raise InputError(f"{paths.study_folder(output, study) / paths.PLAN}: {error}") from error
        commands.append(CommandStatus(shown, left_out, plan["folder"], plan["time"], runs, is_searching))
    return sorted(commands, key=lambda command: command.time_ms)


def plans(output: str, study: str) -> dict[str, Any]:
    """Command -> what it plans of the study; InputError where that is corrupt."""
    try:
        return records.read_or(paths.study_folder(output, study) / paths.PLAN, Plans, {})
    except CorruptError as error:
        raise InputError(f"{error}; the next command of study {study!r} sets it aside and writes a new one") from error


def _status(output: str, entry: dict[str, Any]) -> RunStatus:
    folder = paths.planned_folder(output, entry["folder"])
    needs = paths.planned_folder(output, entry["needs"]) if entry["needs"] else None
    title = on_one_line(entry["title"], LONGEST)
    try:
        record, result = run_log.record(folder) or Record(), run_log.result(folder)
        state, reason = _state(folder, record, result)
        if state == NOT_STARTED and needs and run_log.finished(needs) is None:
            reason = f"it needs the pretraining {needs.name}"
    except CorruptError as error:  # the same command makes the run again
        return RunStatus(folder, title, CORRUPT, str(error), is_untimed=False, retries=0)
    finished = state == State.finished.text
    is_untimed = finished and entry["timed"] and tags.SESSION not in record.get("tags", {})
    retries = len(record.get(tags.RETRIES, []))
    said = on_one_line(run_log.said_of(result), MOST_OF_REASON) if finished else ""
    return RunStatus(folder, title, state, on_one_line(reason, MOST_OF_REASON), is_untimed, retries, said)


def _state(folder: Path, record: Record, result: Result | None) -> tuple[str, str]:
    end = record.get(tags.END, {})
    if result is not None:
        return State(result["status"]).text, end.get("reason", "")
    if is_held(folder / paths.LOCK) or is_held(folder / paths.WORKER_LOCK):
        return RUNNING, _progress(folder)
    if end.get("state") in (State.finished, State.diverged):
        return CORRUPT, f"{run_log.RESULT} is missing"
    if end:
        return State(end["state"]).text, end["reason"]
    if record:
        return State.killed.text, "its command was killed, or the machine restarted"
    return NOT_STARTED, ""


def is_held(lock: Path) -> bool:
    """Whether a process holds this lock; the file need not be writable."""
    try:
        with open(lock, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:  # it may be a FIFO
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _progress(folder: Path) -> str:
    """`finetune step 120 of 400`, as far as the log of the run says."""
    entries = run_log.Reader(folder).new_entries()
    stage = next((entry for entry in reversed(entries) if "stage" in entry), None)
    if stage is None:
        return "starting"
    steps = [entry["step"] for entry in entries if entry.get("key") == f"{stage['stage']}/loss"]
    done = f" step {steps[-1]}" if steps else ""
    return f"{stage['stage']}{done}" + (f" of {stage['steps']}" if stage["steps"] and done else "")
