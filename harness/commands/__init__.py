"""The commands of `python -m harness`: those of this package, and those that plug-ins add."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from harness import extensions
from harness.errors import InputError

GROUP = "harness.commands"

COMPLETION = {"-sc", "--shell-completion"}
"""Words with which a shell asks `run` what the command line may become."""


@dataclass(frozen=True)
class Command:
    """A command, imported when it is called, which keeps `--help` fast."""

    help: str  # one line
    options: str  # `module:dataclass`, keys, words and switches as `grammar` has them; empty for `run`, which Hydra reads
    call: str  # `module:function`, from the options, and from the runs of `Composed` ones, to the exit code
    is_live: bool = False  # moves on the terminal itself; all others print text alone

    def function(self) -> Callable[..., int]:
        """What is called."""
        return cast(Callable[..., int], imported(self.call))


def imported(where: str) -> Any:
    """The `module:object`; InputError where it cannot be imported."""
    module, _, name = where.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        ours = module.startswith("harness.") and isinstance(error, ModuleNotFoundError)
        cure = "pip install 'encoder-variant-harness[run]'" if ours else "fix or uninstall the package that adds the command"
        raise InputError(f"{where} cannot be imported ({error}): {cure}") from error


BUILT_IN = {
    "run": Command("Pretrain, fine-tune and measure models (the default command)", "", "harness.commands.run:main", True),
    "report": Command(
        "Write the report of a study: every arm against the baseline",
        "harness.reports.options:Report",
        "harness.reports.report:main",
    ),
}
"""Name -> command of this package."""


def is_command(word: str) -> bool:
    """Whether a command has this name; nothing of it is imported."""
    return word in BUILT_IN or (re.fullmatch(r"(report )?\w[\w-]*", word) is not None and word in extensions.names(GROUP))


def find(name: str) -> Command:
    """The command of this name; InputError for one whose package cannot be imported."""
    return BUILT_IN[name] if name in BUILT_IN else extensions.load(extensions.declared(GROUP)[name], Command)


@cache
def commands() -> dict[str, Command]:
    """Name -> command, those of plug-ins last; InputError for a plug-in that has the name of another command."""
    added = extensions.declared(GROUP)
    for name in added.keys() & BUILT_IN.keys():
        package = extensions.package_of(added[name])
        raise InputError(f"{GROUP}: {package} adds {name!r}, which is already a command: expected another name")
    return BUILT_IN | {name: extensions.load(point, Command) for name, point in added.items()}
