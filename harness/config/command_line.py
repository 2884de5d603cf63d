"""Rewrites a command line to the order and form that Hydra expects."""

import re

from harness import redact
from harness.errors import InputError, unknown

VALUED = ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn", "--cfg", "-c", "--package", "-p")
FLAGS = ("--multirun", "-m", "--run", "-r", "--resolve", "--shell-completion", "-sc", "--hydra-help", "--info", "-i")
"""Options of Hydra that users need: those with a value, and those without."""

QUIET, QUIET_KEY = ("--quiet", "-q"), "sweep.quiet=true"
"""Options of a run, and the setting that they stand for."""


def for_hydra(arguments: list[str]) -> list[str]:
    """Options first, because Hydra's parser refuses keys on both sides of an option; InputError for an unknown option."""
    options, overrides, rest = [], [], iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if argument in QUIET:
            overrides.append(QUIET_KEY)
            continue
        if not argument.startswith("-"):
            overrides.append(_override(argument))
            continue
        if name not in (*VALUED, *FLAGS):
            raise unknown("option", argument, (*VALUED, *FLAGS, *QUIET), "the command line")
        options.append(argument)
        if name in VALUED and not equals:
            value = next(rest, None)
            if value is None:
                raise InputError(f"{name} needs a value, such as {name} FOLDER")
            options.append(value)
    return [*options, *overrides]


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
