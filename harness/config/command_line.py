"""The words of a command: options, settings, and the names, addresses and folders in them; and its jobs elsewhere."""

import contextlib
import difflib
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from harness import paths
from harness.config.help import GROUPS
from harness.config.keys import known_keys, meant_keys, unknown_key
from harness.config.schema import key_of, stated_keys
from harness.errors import InputError, unknown
from harness.grammar import HELP, Grammar, group_of

VALUED = (
    "--config-dir",
    "-cd",
    "--config-path",
    "-cp",
    "--config-name",
    "-cn",
    "--cfg",
    "-c",
    "--package",
    "-p",
    "--info",
    "-i",
)
FLAGS = ("--multirun", "-m", "--run", "-r", "--resolve", "--shell-completion", "-sc")
"""Options of Hydra that users need: those with a value, and those without."""

LONG = {short: name for name, short in itertools.pairwise((*VALUED, *FLAGS)) if not short.startswith("--")}
"""Short form of an option -> its name."""

QUIET, QUIET_KEY = ("--quiet", "-q"), "sweep.quiet=true"
"""Options of a run, and the setting that they stand for."""

EXAMPLES = {"--cfg": "job", "--info": "all"}
"""Option -> a value that it may have; every other option takes a folder."""


@dataclass(frozen=True)
class CommandLine:
    """What a user typed, as Hydra reads it."""

    options: dict[str, str]  # by name; empty for an option without a value
    overrides: list[str]
    words: list[str]  # options first, because Hydra's parser refuses keys on both sides of an option


def read(arguments: list[str]) -> CommandLine:
    """The options and settings of a command; InputError for an unknown option, and for an argument that is not a setting."""
    arguments = settings(arguments)
    options, words, overrides, rest = {}, [], [], iter(arguments)
    for before, argument in itertools.pairwise(["", *arguments]):
        for mark in ",=":
            apart = before.endswith(mark) and not re.match(r"[-+~]|[\w.]+=", argument)
            if apart or (before and argument.startswith(mark)):
                joined = f"{before}{argument}".removesuffix("=")
                expected = joined if "=" in joined else f"{joined}=VALUE"
                raise InputError(
                    f"unexpected {argument!r} after {before!r}: is there a space next to {mark!r}? Expected {expected}"
                )
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in QUIET:
            overrides.append(QUIET_KEY)
            continue
        if not argument.startswith("-"):
            overrides.append(_override(argument))
            continue
        if name not in (*VALUED, *FLAGS):
            raise _unknown_option(argument, next(rest, "VALUE"))
        words.append(argument)
        if name in VALUED and not equals:
            following = next(rest, None)
            if following is None:
                raise InputError(f"{name} needs a value, such as {name} {EXAMPLES.get(LONG.get(name, name), 'FOLDER')}")
            words.append(value := following)
        options[LONG.get(name, name)] = value
    if "--cfg" not in options and (alone := {"--package", "--resolve"} & options.keys()):
        raise InputError(f"{min(alone)} has no effect without --cfg: add --cfg job")
    return CommandLine(options, overrides, [*words, *overrides])


def settings(words: Iterable[str], own: Container[str] = ()) -> list[str]:
    """The words, with `study=NAME` for `--study NAME`: of keys and groups of a run which the command does not have itself."""
    changed, rest = [], iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if not word.startswith("--") or key in own or key not in (*GROUPS, *known_keys()):
            changed.append(word)
        elif equals:
            changed.append(f"{key}={value}")
        else:
            is_switch = key in stated_keys() and stated_keys()[key].hint is bool
            changed.append(f"{key}={'true' if is_switch else next(rest, '')}")
    return changed


def refuse_misspelt(options: Grammar, choices: Iterable[str]) -> None:
    """InputError for a key that neither the command nor a run has."""
    of_runs = {key.partition(".")[0] for key in (*known_keys(), *GROUPS, "hydra")}
    for choice in choices:
        if re.match(r"\w[^=]*=", choice) and (key := group_of(choice)) not in of_runs:
            near = difflib.get_close_matches(key, [*options.keys, *of_runs], n=1)
            raise unknown("key", key, options.keys, options.call, near) if {*near} & {*options.keys} else unknown_key(key)


def _unknown_option(argument: str, following: str) -> InputError:
    """The error for it, with the setting that is meant where its name is near that of one."""
    name, equals, value = argument.lstrip("-").partition("=")
    every = (*VALUED, *FLAGS, *QUIET, *HELP, "--version")
    is_option = not argument.startswith("--") or difflib.get_close_matches(argument, every, cutoff=0.8)
    meant = [] if is_option else meant_keys(name.replace("-", "_"))
    if not meant:
        return unknown("option", argument, every, "")
    suggested = " or ".join(f"{key}={value if equals else following}" for key in meant)
    return InputError(f"unknown option {argument!r}: did you mean {suggested}?")


def _override(argument: str) -> str:
    """The override with the key names and quotes that Python and Hydra need."""
    if not re.match(r"(\+\+?|~)?[^=+~]+=|~[^=]", argument):
        section, dot, name = argument.partition(".")
        if dot and section in GROUPS:
            meant = f"{argument}=VALUE" if argument in known_keys() else f"{section}={name}"
            raise InputError(f"unexpected {argument!r}: did you mean {meant}?")
        raise InputError(
            f"unexpected {argument!r}: is there a space after a comma? Expected KEY=VALUE; a command is the first word"
        )
    argument = re.sub(r"^(pretrain|finetune)\.from=", "pretrain.checkpoint=", argument)  # `from` is no name in Python
    argument = re.sub(r"^\+*model\.options\.", "++model.options.", argument)  # keys that no schema lists
    part_of_split = r"^(\+*task\.(?:\w+_split|more_validation\.\w+|languages\.\w+)=)([\w.:-]+\[.*\].*)$"
    if found := re.fullmatch(r"(\+*hypothesis=)([^'\"].*)", argument, re.DOTALL):
        argument = found[1] + "'" + found[2].replace("'", r"\'") + "'"  # a text, whatever it holds
    stated = stated_keys().get(key_of(argument))
    if stated and str in (stated.hint, *get_args(stated.hint)) and not re.search(r"['\"(]", argument):
        argument = re.sub(NUMBER, r"\1'\2'", argument)
    return re.sub(part_of_split, r"\1'\2'", argument)  # quoted, or Hydra would read a list


NUMBER = r"(?<=[=,[])( *)(?!\d+ *(?:[],]|$))([-+.]*\d[-+.\deE_]*)(?= *(?:[],]|$))"
"""A number that Hydra would write in another way: 20261128 of 2026_11_28, 1.1 of 1.10; in a text it stays as it is typed."""

LONGEST = 120
"""Most bytes of the name of a study: file systems take 255, with what is added to it."""

UNUSABLE = "%?#"
"""Characters with a meaning in the address of a SQLite store."""


def refuse_study(study: str) -> None:
    """InputError for a name that cannot be a folder of its own in `output`."""
    if not study or any(character in study for character in "/\\\0"):
        raise InputError(f"study={study!r} must be a name without slashes: it becomes a folder")
    if not study.isprintable() or study != study.strip():
        raise InputError(f"study={study!r} must be a name on one line, without spaces around it: it becomes a folder")
    if study.startswith(".") or study.lower() in paths.RESERVED:
        taken = ", ".join(sorted(paths.RESERVED))
        raise InputError(f"study={study!r} must not begin with a dot or be one of {taken}")
    if len(study.encode()) > LONGEST:
        raise InputError(f"study={study[:20]!r}... has {len(study.encode())} bytes: it must be at most {LONGEST}")


def refuse_output(output: str) -> None:
    """InputError for a folder of results that cannot be made or written to; nothing is written."""
    if not output or not output.isprintable() or any(character in output for character in UNUSABLE):
        raise InputError(f"output={output!r} must be a folder without {' '.join(UNUSABLE)} and line breaks in its path")
    folder = Path(output).absolute()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folder.lstat()  # raises for a name that is too long
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise InputError(f"output={output!r} must be a folder: {existing} is not one")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"output={output!r} must be a writable folder: {existing} is not writable")
    try:
        with tempfile.TemporaryFile(dir=existing, buffering=0) as file:
            file.write(b"0")  # permissions say nothing of a full disk or a special file system
    except OSError as error:
        raise InputError(f"output={output!r} must be a writable folder: {existing}: {error.strerror}") from error


SWEEP, JOB = "HARNESS_SWEEP", "HARNESS_JOB"
"""Environment variables with the sweep that a job belongs to, and with its number: `3/12`."""


@contextlib.contextmanager
def job(overrides: list[str], sweep: str, place: str) -> Iterator[None]:
    """While a job of the sweep runs: the command line is that of the sweep, whatever started the process."""
    before = sys.argv[1:]
    sys.argv[1:], os.environ[SWEEP], os.environ[JOB] = overrides, sweep, place
    try:
        yield
    finally:
        sys.argv[1:] = before
        del os.environ[SWEEP], os.environ[JOB]


def sweep() -> str | None:
    """Name of the sweep that this process runs a job of; None where it runs all of a command."""
    return os.environ.get(SWEEP)


def place(number: int, count: int) -> str:
    """`3/12`: the place of a run among those of the command; for a job with several runs `3/12: 1/2`."""
    job = os.environ.get(JOB)
    return ": ".join(filter(None, [job, f"{number}/{count}" if job is None or count > 1 else None]))
