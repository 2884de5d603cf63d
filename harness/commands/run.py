"""`python -m harness run`: trains and measures every run that the command line composes; and completion in the shell."""

import contextlib
import gc
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import hardware, paths, study
from harness.commands import COMPLETION, commands
from harness.config import command_line, compose
from harness.config.choices import DERIVED
from harness.hardware import outer_launcher
from harness.terminal import console, live_line

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

UNTYPED = ("hydra", "claims", "reference")
"""Keys of Hydra itself, and groups of files that a run does not choose from."""

LINE = "COMP_LINE"
"""Variable in which a shell passes the command line so far."""


def main(arguments: list[str]) -> int:
    """0 when every run finished, 1 when one failed; InputError for a wrong input.

    Where torchrun has started the command in several processes, the first one leads; the others follow and return 0.
    """
    if not COMPLETION.isdisjoint(arguments):
        return _complete(arguments)
    if outer_launcher.processes() == 1:
        return _main(arguments)
    from harness.study import ranks  # torch

    return ranks.lead(lambda: _main(arguments)) if outer_launcher.number() == 0 else ranks.follow()


def _main(arguments: list[str]) -> int:
    study.prepare_workers()  # takes seconds, beside the composition
    with console.quiet(not set(arguments).isdisjoint(command_line.QUIET)):
        return compose.main(arguments, _run_study, lambda configs: int(_supervisor().conclude(configs)), replicates=True)


def _run_study(configs: "list[RunConfig]") -> int:
    if command_line.sweep() is None:  # else the job of a sweep fails alone
        hardware.refuse_without_driver(configs)
    with contextlib.ExitStack() as stack:
        for output in {config.output for config in configs}:
            command_line.refuse_output(output)
            stack.enter_context(paths.begun(Path(output)))
        study.prepare_workers()  # a launcher plugin calls this in a process of its own
        return int(_supervisor().run_study(configs))


def _supervisor() -> Any:
    gc.disable()  # collections take a sixth of the time of imports
    with live_line("loading torch and MLflow"):
        from harness.study import supervisor  # torch: a wrong key is refused before it is loaded
    gc.enable()
    gc.freeze()  # what was imported stays; otherwise the collections at the exit take a second
    return supervisor


def _complete(arguments: list[str]) -> int:
    """Prints what the last word of the shell's command line may become: a command, or by Hydra a key or choice; 0.

    Keys that composition sets, and those of Hydra itself, are left out.
    """
    line = os.environ.get(LINE, "")
    _, _, rest = line.partition(" ")
    first, space, others = rest.lstrip().partition(" ")
    if space and first in commands():  # Hydra does not know commands
        os.environ[LINE] = f"harness {others}"
    elif line and not space:
        for name in commands():
            if name.startswith(first):
                print(name)
    found = io.StringIO()
    with contextlib.redirect_stdout(found):
        code = compose.main(arguments, lambda runs: 0)
    if not any(argument.startswith("query=") for argument in arguments):  # a script for the shell
        print(found.getvalue(), end="")
        return code
    print(*(word for word in found.getvalue().split() if re.split(r"[.=]", word)[0] not in (*DERIVED, *UNTYPED)))
    return code
