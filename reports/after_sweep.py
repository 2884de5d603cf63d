"""The report of a sweep, made where the one on disk is not that of the runs as the store has them now.

python -m reports.after_sweep, with a JSON object on stdin, for a command line could be read by every user of the machine:
`arguments` of `python -m reports`, and `stamp`, the file that says of which runs the report in the folder `to` is.

Prints "written" or "current", as JSON; exit codes are those of `python -m reports`. A second process waits for the first.
"""

import gc
import hashlib
import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from filelock import FileLock

from harness import grammar, paths, processes
from harness.command import refused
from harness.errors import InputError
from harness.reports.options import GC_THRESHOLDS, Report
from harness.reports.read import StudyRuns
from harness.reports.report import default_out, read, rendered, writable, write

CODE = (Path(paths.__file__).resolve().parent, Path(__file__).resolve().parent)
"""Folders whose code shapes a report."""


class Stamp(msgspec.Struct, frozen=True):
    """Hash of what a report was made from, and of its files by name."""

    state: str
    files: dict[str, str]


def update(arguments: list[str], stamp: Path) -> bool:
    """Writes the report unless the stamp fits runs and files; returns whether it did. InputError as `python -m reports`."""
    options = grammar.parse(arguments, Report, "python -m reports")
    to = options.to or default_out(options.study[0], options.output)
    with writable(to):
        held = FileLock(stamp.with_suffix(".lock")).acquire()
    with held:
        runs = read(options)
        state, before = state_of(options, runs), _read(stamp)
        there = _hashes(to, before.files)
        if before == Stamp(state, there):
            return False
        files = rendered(options, runs)
        write(files, to)
        for name in there.keys() - files.keys():
            Path(to, name).unlink(missing_ok=True)
        write({stamp.name: msgspec.json.encode(Stamp(state, _hashes(to, files)))}, stamp.parent)
        return True


def state_of(options: Report, runs: StudyRuns) -> str:
    """Hash of all that shapes a report: the runs, with their tags and numbers, the arguments, the audit, and the code."""
    asked = {name: value for name, value in vars(options).items() if name not in ("uri", "to", "output", "audit")}
    stated = msgspec.to_builtins([asked, runs.runs], str_keys=True)  # launches have numbers as keys
    parts = [msgspec.json.encode(stated, order="sorted")]
    parts += [paths.read(options.audit, paths.LARGEST_RECORD)] if options.audit else []
    parts += [path.read_bytes() for folder in CODE for path in sorted(folder.rglob("*.py"))]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Name -> hash of the content, of those that are there."""
    files = {name: folder / name for name in names if name == Path(name).name}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.is_file()}


def _read(stamp: Path) -> Stamp:
    """The last stamp; an empty one where it is missing or corrupt."""
    try:
        return msgspec.json.decode(stamp.read_bytes(), type=Stamp)
    except (OSError, msgspec.MsgspecError):
        return Stamp("", {})


def main() -> int:
    """Returns 0; 2, with one line on stderr, for what `python -m reports` refuses."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep decides when Ctrl-C is pressed
    request = json.load(sys.stdin)
    try:
        print(json.dumps("written" if update(request["arguments"], Path(request["stamp"])) else "current"))
        return 0
    except InputError as error:
        return refused(error)


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    processes.leave(main())
