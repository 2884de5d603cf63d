"""`python -m reports`: from the tracking store to `report.md`, `report.html`, pictures and `summary.csv`."""

import gc
import importlib
import os
import sys
import traceback
from pathlib import Path

from reports.commands import COMMANDS
from reports.errors import ReportError, refused, unknown
from reports.options import GC_THRESHOLDS, parse


def run(arguments: list[str]) -> int:
    """The exit code of the command that the first argument names, or of a report."""
    if arguments and not arguments[0].startswith(("-", "output=")):
        name, *rest = arguments
        if name not in COMMANDS:
            from harness.errors import meant  # of ours: by now a folder `harness` of the working directory is left out

            raise unknown("command", name, COMMANDS, meant(name) or [f"python -m reports --study {name}"])
        return importlib.import_module(COMMANDS[name][0]).main(rest)
    options = parse(arguments)
    from harness.terminal import still_line

    with still_line("writing the report: some seconds, a minute for hundreds of runs"):
        from reports.report import report  # scipy, pandas and matplotlib take seconds, which --help does without

        path = report(options)
    print(path)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The command's exit code, for a report 0 and its path on stdout; 2 and one line on stderr for a wrong input."""
    from harness import errors, redact  # a folder `harness` beside would be imported at the beginning

    words = sys.argv[1:] if arguments is None else arguments
    redact.learn(words, os.environ)
    redact.redact_logs()
    try:
        with errors.refused_paths(words):
            errors.refuse_other_bytes(words)
            return run(words)
    except (ReportError, errors.InputError) as error:
        return refused(error)
    except Exception as error:
        if errors.is_disk_full(error):
            refused(f"{error}: free some, and type the same command again")
            return 1
        if arguments is not None or isinstance(error, BrokenPipeError):  # called by Python code, or without a reader
            raise
        print(redact.redacted(traceback.format_exc()), end="", file=sys.stderr)
        return 1


def leave_out_working_directory() -> None:
    """`python -m` searches the working directory first, where a folder `harness` would be imported for ours."""
    root = str(Path(__file__).resolve().parent.parent)
    if sys.path[0] == os.getcwd() != root:
        sys.path[:1] = [] if root in sys.path[1:] else [root]


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    leave_out_working_directory()
    from harness.terminal import ends_with_its_reader  # a folder `harness` would be imported before

    sys.exit(ends_with_its_reader(main)())
