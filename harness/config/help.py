"""The page of `--help`, from the comments of the files in `conf/`; nothing of Python's schema is imported for it."""

import difflib
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from harness.paths import conf_directory
from harness.terminal import wrapped

PAGE: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GROUPS = PAGE["groups"]

HEAD = "harness: trains and measures variants of BERT-like encoders under equal conditions, and tracks every number in MLflow."
CALL = "  python -m harness"

TAIL = (
    "Any key can be set: model.attention_window=32 finetune.learning_rate=1e-4 seed=7 study=NAME. `--cfg job` prints them all.",
    "-q (--quiet) shows only problems and where the results are; every line is in sweep.log of the study.",
    "Arms that are compared have three seeds each (seed=0,1,2) where none is named; seed=0 runs one. A single run has seed=0.",
    "A run that is finished already is skipped; rerun=true runs it again. --config-dir FOLDER adds your own conf/ files.",
    "HYDRA_FULL_ERROR=1 or hydra.verbose=true adds the traceback to an error. --version prints the version.",
    'Tab completion, after installation: eval "$(harness -sc install=bash)"',
)


def page(commands: dict[str, str]) -> str:
    """The whole help page, wrapped to the terminal; `commands` is name -> description."""
    marked = {f"   {'*' if name == 'run' else ' '} {name}": text for name, text in commands.items()}
    lines = [wrapped(HEAD), f"\n{CALL} [COMMAND] [-m] [-q] [group=choice ...] [key=value ...]\n"]
    lines += ["Commands (each has a --help)", *(wrapped(text, 21, name) for name, text in marked.items())]
    lines += ["\nExamples", *(f"{CALL}{words}\n{wrapped(text, 8)}" for words, text in PAGE["examples"].items())]
    choices = "Groups and choices (* is the default); --help GROUP lists the keys of a group, --help KEY explains one"
    lines += [f"\n{wrapped(choices)}"]
    for group, meaning in GROUPS.items():
        lines += [f"\n{wrapped(f'{group}: {meaning}', 2)}", *choices_of(group)]
    return "\n".join([*lines, "", *map(wrapped, TAIL)])


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(path.stem for path in Path(conf_directory(), group).glob("*.yaml"))


def choices_of(group: str) -> list[str]:
    """A line for each choice, the default one marked."""
    default, lines = default_choices().get(group, ""), []
    for name in names(group):
        text = Path(conf_directory(), group, f"{name}.yaml").read_text()
        comment = re.search(r"^# (?!.*@package)(.*)", text, re.MULTILINE)
        mark = f"   {'*' if name in ([default] if isinstance(default, str) else default) else ' '} {name}"
        lines.append(wrapped(comment[1] if comment else "", 26, mark) or mark)
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
    """What a word that is no command stands for, by its meaning or nearly by its spelling; empty where nothing is near."""
    words = {alias: command for command, aliases in synonyms()["commands"].items() for alias in aliases.split()}
    words |= {name.split()[-1]: f"harness {name}" for name in commands}
    near = [word.lower()] if word.lower() in words else difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.8)
    return [f"python -m {words[name]}" for name in near]
