"""`harness report`, in a checkout `python -m reports`: from the tracking store to a report, its pictures and a summary."""

import gc
import importlib
import os
import sys

from harness import command, redact
from harness.errors import InputError, meant
from harness.reports.commands import COMMANDS
from harness.reports.errors import ReportError, unknown
from harness.reports.options import GC_THRESHOLDS, parse


def run(arguments: list[str]) -> int:
    """The exit code of the command that the first argument names, or of a report."""
    if arguments and not arguments[0].startswith(("-", "output=")):
        name, *rest = arguments
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS, meant(name) or [f"python -m reports --study {name}"])
        return importlib.import_module(COMMANDS[name][0]).main(rest)
    options = parse(arguments)
    from harness.terminal import still_line

    with still_line("writing the report: some seconds, a minute for hundreds of runs"):
        from harness.reports.report import report  # scipy, pandas and matplotlib take seconds, which --help does without

        path = report(options)
    print(path)
    return 0


def main(arguments: list[str] | None = None, called: bool | None = None) -> int:
    """The command's exit code, for a report 0 and its path on stdout; 2 and one line on stderr for a wrong input."""
    words = sys.argv[1:] if arguments is None else arguments
    command.open_streams()
    redact.learn(words, os.environ)
    redact.redact_logs()
    return command.exit_code(
        "python -m reports",
        words,
        lambda: run(words),
        called=arguments is not None if called is None else called,
        wrong=(ReportError, InputError),
    )


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    sys.exit(main())
