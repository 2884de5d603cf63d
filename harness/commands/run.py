"""`python -m harness run`: trains and measures every run that the command line composes."""

import gc
from types import ModuleType
from typing import TYPE_CHECKING

from harness import study
from harness.config import command_line, compose, names
from harness.terminal import console, live_line

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


def main(arguments: list[str]) -> int:
    """0 when every run finished, 1 when one failed; InputError for a wrong input."""
    study.prepare_workers()  # takes seconds, beside the composition
    with console.quiet(not set(arguments).isdisjoint(command_line.QUIET)):
        return compose.main(arguments, _run_study, _conclude)


def _run_study(configs: "list[RunConfig]") -> int:
    for output in {config.output for config in configs}:
        names.refuse_output(output)
    study.prepare_workers()  # a launcher plugin calls this in a process of its own
    return _supervisor().run_study(configs)


def _conclude(configs: "list[RunConfig]") -> int:
    return _supervisor().conclude(configs)


def _supervisor() -> ModuleType:
    gc.disable()  # collections take a sixth of the time of imports
    with live_line("loading torch and MLflow"):
        from harness.study import supervisor  # torch: a wrong key is refused before it is loaded
    gc.enable()
    gc.freeze()  # what was imported stays; otherwise the collections at the exit take a second
    return supervisor
