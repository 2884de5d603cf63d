"""`python -m reports`: from the tracking store to `report.md`, `report.html`, pictures and `summary.csv`."""

import gc
import importlib
import os
import sys
from pathlib import Path

from reports.commands import COMMANDS
from reports.errors import ReportError, unknown
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
    from harness import command, errors, redact  # a folder `harness` beside would be imported at the beginning

    words = sys.argv[1:] if arguments is None else arguments
    command.open_streams()
    redact.learn(words, os.environ)
    redact.redact_logs()
    return command.exit_code(
        "python -m reports", words, lambda: run(words), called=arguments is not None, wrong=(ReportError, errors.InputError)
    )


def leave_out_working_directory() -> None:
    """`python -m` searches the working directory first, where a folder `harness` would be imported for ours."""
    root = str(Path(__file__).resolve().parent.parent)
    if not sys.flags.safe_path:
        sys.path[:1] = [] if root in sys.path[1:] else [root]


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    leave_out_working_directory()
    sys.exit(main())
