"""The commands of `python -m reports`, each a module with `main(arguments) -> int`, the exit code."""

import argparse
from typing import NoReturn

from harness.reports.errors import ReportError, unknown
from harness.reports.reading import default_uri

COMMANDS = {
    "archive": (
        "harness.reports.archive",
        "a folder with all that the report of a study reads, and the report, to be kept and shared",
    ),
    "verify": ("harness.reports.verify", "recomputes the report of an archive; exit code 1 where a number is another one"),
    "compare": ("harness.reports.commands.compare", "what differs between two runs: settings, environment, numbers"),
    "gate": ("harness.reports.commands.gate", "exit code 1 where an arm is not shown to be at most so much worse, for CI"),
    "pick": ("harness.reports.commands.pick", "the arms that satisfy limits on size, speed, memory and score"),
}
"""Name of a command: its module and one line of help."""


class Parser(argparse.ArgumentParser):
    """The options of the report (no name) or of a command; a wrong one is a ReportError in place of the usage."""

    def __init__(self, command: str, description: str, epilog: str | None = None) -> None:
        prog = f"python -m reports {command}".rstrip()
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)
        self.add_argument("--output", metavar="DIR", default="multirun", help="folder of the runs (default: %(default)s)")
        self.add_argument("--uri", help="tracking store, or the folder of an archive (default: mlflow.db of --output)")

    def add_list(self, option: str, metavar: str, text: str) -> None:
        """An option that may be given several times."""
        self.add_argument(option, metavar=metavar, action="append", default=[], help=text)

    def error(self, message: str) -> NoReturn:
        """One line."""
        raise ReportError(f"{message}; {self.prog} --help lists the options")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The options, `uri` being that of the store that is read; `output=DIR` and `to=DIR` are written as keys."""
        given = [f"--{word}" if word.startswith(("output=", "to=")) else word for word in arguments]
        options, rest = self.parse_known_args(given)
        if rest:
            raise unknown("option", rest[0], [name for action in self._actions for name in action.option_strings])
        if options.uri is None:
            options.uri = default_uri(options.output)
        return options


def add_where(parser: Parser) -> None:
    """Options that say which runs are compared with which, as those of the report."""
    parser.add_argument("--where", metavar="FILTER", help="which runs, as MLflow filters them: \"tags.task = 'sst2'\"")
    of_along = "setting that arms may differ in, such as hardware.dtype or a group such as hardware; may be repeated"
    parser.add_list("--along", "KEY", of_along)
