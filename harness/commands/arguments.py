"""The command lines of all commands: own options, own keys, and the keys and choices that Hydra composes."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from harness.errors import InputError, on_one_line, unknown
from harness.terminal import wrapped
from models.ranges import MOST, Range

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

OF_MODEL = ("model", "scale", "enhancement")
"""Groups of choices that say which model is meant."""

SWEEP = ("-m", "--multirun")
"""Options that any command passes to Hydra."""


class Parser(argparse.ArgumentParser):
    """Of one command; a wrong option is an InputError and so one line."""

    def __init__(self, command: str, description: str, epilog: str = "", keys: dict[str, str] | None = None) -> None:
        """`keys` says of each of the command's own keys what it means."""
        width = max(map(len, keys or {}), default=0) + 1
        listed = "".join(f"{wrapped(meaning, width + 3, f'  {key}=')}\n" for key, meaning in (keys or {}).items())
        below = "\n".join(wrapped(line, 0) for line in epilog.splitlines())
        super().__init__(
            prog=f"python -m harness {command}",
            description=wrapped(description, 0),
            epilog=f"keys:\n{listed}\n{below}" if keys else below,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._keys = keys or {}

    def error(self, message: str) -> NoReturn:
        """One line in place of the usage."""
        raise InputError(on_one_line(message))

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Takes `output=DIR` for `--output DIR`, as keys are written."""
        valued = {option for action in self._actions if action.nargs != 0 for option in action.option_strings}
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args(
            [f"--{word}" if f"--{word.partition('=')[0]}" in valued and "=" in word else word for word in given], namespace
        )

    def parse_composed(
        self, arguments: list[str], groups: Sequence[str] = ()
    ) -> tuple[argparse.Namespace, dict[str, str], list[str]]:
        """Options, the command's own keys, and the rest for Hydra.

        InputError for an option that nobody knows and, where the command reads some groups alone, for a key of another one.
        """
        self.add_argument("--config-dir", "-cd", metavar="DIR", help="adds your own conf/ files")
        options, rest = self.parse_known_args(arguments)
        for option in rest:
            if option.startswith("-") and option not in SWEEP:
                known = [name for action in self._actions for name in action.option_strings]
                key = option.lstrip("-").partition("=")[0]
                raise unknown("option", option, [*known, *SWEEP], self.prog, [f"{key}="] if key in self._keys else None)
        own = {key: value for key, _, value in (word.partition("=") for word in rest) if key in self._keys}
        choices = [word for word in rest if word.partition("=")[0] not in self._keys]
        for choice in choices:
            if groups and not choice.startswith("-") and group_of(choice) not in groups:
                raise unknown("key", group_of(choice), (*self._keys, *groups), "the command line")
        return options, own, [*([f"--config-dir={options.config_dir}"] if options.config_dir else []), *choices]


def folder_of_runs(output: str) -> Path:
    """The folder of `--output`; InputError where it is none. An empty text would be the working directory."""
    if not output or not Path(output).is_dir():
        raise InputError(f"--output={output!r} is not a folder")
    return Path(output)


def whole_number(key: str, text: str, least: int = 1, limit: float = MOST) -> int:
    """The number that is typed for a key; InputError for anything but a whole one of this range."""
    allowed = Range(at_least=least, limit=limit)
    number = int(text) if re.fullmatch(r"\d{1,400}", text) else least - 1
    if not allowed.has(number):
        raise InputError(f"{key}={on_one_line(text)!r} must be a whole number of {allowed.expected(number)}")
    return number


def group_of(choice: str) -> str:
    """`model` of `model=albert`, `+model.hidden_size=8` and the like."""
    return re.split(r"[.=@]", choice.lstrip("+~"))[0]


def with_a_task(choices: list[str]) -> list[str]:
    """The choices with a task: the default is a set of tasks, which would compose the same model for each of them."""
    return choices if any(choice.startswith("task=") for choice in choices) else [*choices, "task=bag"]


def compose_and_run(choices: list[str], run: "Callable[[list[RunConfig]], int]", resizes: bool = False) -> int:
    """The exit code of `run` for the configs that Hydra composes of the choices; InputError for what cannot be composed.

    Without `resizes`, also for `match`, which would have no effect.
    """
    for choice in choices:
        if not resizes and group_of(choice) == "match":
            raise InputError(f"{choice} has no effect here: expected it with a run, plan or profile")
    from harness.config import compose  # Hydra takes 0.3 s, which --help does not need

    return compose.main(choices, run)
