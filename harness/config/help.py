"""The first pages of `--help`, from the comments of the files in `conf/`; nothing of Python's schema is imported for it."""

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from harness.paths import conf_directory
from harness.terminal import listed, wrapped

PAGE: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GROUPS: dict[str, str] = PAGE["groups"]

PROGRAM = "python -m harness"


def first_page(commands: dict[str, str]) -> str:
    """One screen of help, wrapped to the terminal; `commands` is name -> description."""
    examples = (f"  {PROGRAM}{words}\n{wrapped(text, 6)}" for words, text in PAGE["examples"].items())
    parts = [
        wrapped("Train and compare BERT-like encoders under equal conditions, and track every number in MLflow."),
        f"Usage: {PROGRAM} [COMMAND] [-m] [GROUP=CHOICE ...] [KEY=VALUE ...]",
        listed("Commands", {name: commands[name] for name in PAGE["commands"]["names"]}),
        "\n".join(["Examples", *examples]),
        listed("More", {f"--help {topic}": text for topic, text in PAGE["more"].items()}),
    ]
    return "\n\n".join(parts)


def further_pages(commands: dict[str, str]) -> dict[str, str]:
    """The pages that the first one names, but for those of single commands, groups and keys."""
    choices = {group: f"{meaning} ({', '.join(names(group))})" for group, meaning in GROUPS.items()}
    options = listed("Options of run, and of commands that compose a run", PAGE["options"])
    return {
        "commands": f"{listed('Commands', commands)}\n\n{options}",
        "groups": listed("Groups and their choices", choices),
        "run": f"{wrapped(commands['run'])}\n\n{options}",
    }


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(path.stem for path in Path(conf_directory(), group).glob("*.yaml"))


def choices_of(group: str) -> list[str]:
    """A line for each choice, the default one marked."""
    default, lines = default_choices().get(group, ""), []
    width = max(map(len, names(group))) + 6
    for name in names(group):
        text = Path(conf_directory(), group, f"{name}.yaml").read_text()
        comment = re.search(r"^# (?!.*@package)(.*)", text, re.MULTILINE)
        mark = f"  {'*' if name in ([default] if isinstance(default, str) else default) else ' '} {name}"
        lines.append(wrapped(comment[1] if comment else "", width, mark) or mark)
    return lines


@cache
def default_choices() -> dict[str, str | list[str]]:
    """Group -> its choice, a list for a group that takes several: `model: base`, `tracking: [mlflow]`."""
    pairs = re.findall(r"^  - (\w+): (.+)$", Path(conf_directory(), "config.yaml").read_text(), re.MULTILINE)
    return {group: re.findall(r"[\w-]+", choice) if choice.startswith("[") else choice for group, choice in pairs}


def listed_groups() -> set[str]:
    """Groups that take a list of choices: those whose default is one."""
    return {group for group, choice in default_choices().items() if isinstance(choice, list)}


@cache
def synonyms() -> dict[str, Any]:
    """What unknown `commands`, `keys` and `choices` may stand for: name -> words for it."""
    return tomllib.loads(Path(__file__).with_name("synonyms.toml").read_text())


def meant(word: str, commands: Iterable[str]) -> list[str]:
    """Commands, or a choice of a group, that an unknown word may mean, by synonym or spelling; empty without a match."""
    words = {alias: command for command, aliases in synonyms()["commands"].items() for alias in aliases.split()}
    words |= {name.split()[-1]: f"harness {name}" for name in commands}
    words |= {group: f"harness {group}=NAME" for group in GROUPS if group not in words}
    near = [word.lower()] if word.lower() in words else difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.8)
    return [f"python -m {words[name]}" for name in near]
