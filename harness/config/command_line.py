"""The words of a command line in the order and form that Hydra takes."""

import re

from harness.errors import InputError, unknown

VALUED = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn", "--cfg", "-c", "--package", "-p")
FLAGS = ("--multirun", "-m", "--run", "-r", "--resolve", "--shell-completion", "-sc", "--hydra-help", "--info", "-i")
"""Options of Hydra that users need: those with a value, and those without."""


def for_hydra(arguments: list[str]) -> list[str]:
    """Options first, for Hydra's parser refuses keys on both sides of an option; InputError for one that it does not know."""
    options, overrides, rest = [], [], iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if not argument.startswith("-"):
            overrides.append(_override(argument))
            continue
        if name not in (*VALUED, *FLAGS):
            raise unknown("option", argument, (*VALUED, *FLAGS), "the command line")
        options.append(argument)
        if name in VALUED and not equals:
            value = next(rest, None)
            if value is None:
                raise InputError(f"{name} needs a value, such as {name} FOLDER")
            options.append(value)
    return [*options, *overrides]


def _override(argument: str) -> str:
    """With the names and quotes that Python and Hydra need."""
    if not re.match(r"[^=]*=|~", argument):
        raise InputError(f"{argument!r} is no setting: expected KEY=VALUE, and a command only as the first word")
    argument = re.sub(r"^pretrain\.from=", "pretrain.checkpoint=", argument)  # `from` is no name in Python
    return re.sub(r"^(task\.\w+_split=)(\w+\[.*\].*)$", r"\1'\2'", argument)  # a part of a split is no list
