"""The words of a command, in the form that Hydra expects."""

import itertools
import re
from dataclasses import dataclass

from harness import redact
from harness.errors import InputError, unknown

VALUED = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn", "--cfg", "-c", "--package", "-p")
FLAGS = ("--multirun", "-m", "--run", "-r", "--resolve", "--shell-completion", "-sc", "--hydra-help", "--info", "-i")
"""Options of Hydra that users need: those with a value, and those without."""

LONG = {short: name for name, short in itertools.pairwise((*VALUED, *FLAGS)) if not short.startswith("--")}
"""Short form of an option -> its name."""

QUIET, QUIET_KEY = ("--quiet", "-q"), "sweep.quiet=true"
"""Options of a run, and the setting that they stand for."""


@dataclass(frozen=True)
class CommandLine:
    """What a user typed, as Hydra reads it."""

    options: dict[str, str]  # by name; empty for an option without a value
    overrides: list[str]
    words: list[str]  # options first, because Hydra's parser refuses keys on both sides of an option


def read(arguments: list[str]) -> CommandLine:
    """The options and settings of a command; InputError for an unknown option, and for what is no setting."""
    options, words, overrides, rest = {}, [], [], iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in QUIET:
            overrides.append(QUIET_KEY)
            continue
        if not argument.startswith("-"):
            overrides.append(_override(argument))
            continue
        if name not in (*VALUED, *FLAGS):
            raise unknown("option", argument, (*VALUED, *FLAGS, *QUIET), "the command line")
        words.append(argument)
        if name in VALUED and not equals:
            value = next(rest, None)
            if value is None:
                raise InputError(f"{name} needs a value, such as {name} FOLDER")
            words.append(value)
        options[LONG.get(name, name)] = value
    return CommandLine(options, overrides, [*words, *overrides])


def _override(argument: str) -> str:
    """The override with the key names and quotes that Python and Hydra need."""
    if not re.match(r"(\+\+?|~)?[^=+~]+=|~[^=]", argument):
        raise InputError(f"{argument!r} is not a setting: expected KEY=VALUE, and a command only as the first word")
    argument = re.sub(r"^pretrain\.from=", "pretrain.checkpoint=", argument)  # `from` is no name in Python
    part_of_split = r"^(\+*task\.(?:\w+_split|more_validation\.\w+|languages\.\w+)=)([\w.:-]+\[.*\].*)$"
    if found := re.fullmatch(r"(\+*tracking\.uri=)(.*)", argument, re.DOTALL):
        argument = found[1] + _hidden(found[2])
    return re.sub(part_of_split, r"\1'\2'", argument)  # quoted, or Hydra would read a list


def _hidden(value: str) -> str:
    """The address of a store as Hydra may read it, without its secrets; one that Hydra completes is hidden later."""
    if "${" in value:
        return value
    mark = value[0] if value[:1] in ("'", '"') and value.endswith(value[0]) else None
    escaped = rf"\\(\\*{mark})" if mark else r"\\([\\()\[\]{}:=, \t])"
    plain = [re.sub(escaped, r"\1", address) for address in redact.addresses(value)]
    shown = [redact.hide(address) for address in plain]
    return value if shown == plain else ",".join("'" + address.replace("'", r"\'") + "'" for address in shown)
