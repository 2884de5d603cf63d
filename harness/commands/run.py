"""`python -m harness run`: trains and measures every run that the command line composes."""

import gc
from typing import TYPE_CHECKING

from harness import processes
from harness.config import compose
from harness.live_line import live_line

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


def main(arguments: list[str]) -> int:
    """0 when every run finished, 1 when one failed; InputError for a wrong input."""
    prepare_workers()  # takes seconds, beside the composition
    return compose.main(arguments, _run_study)


def _run_study(configs: "list[RunConfig]") -> int:
    prepare_workers()  # a launcher plugin calls this in a process of its own
    gc.disable()  # collections take a sixth of the time of imports
    with live_line("loading torch and MLflow"):
        from harness.study import supervisor  # torch: a wrong key is refused before it is loaded
    gc.enable()
    gc.freeze()  # what was imported stays; otherwise the collections at the exit take a second

    return supervisor.run_study(configs)


def prepare_workers() -> None:
    """Nearly all import these later: optimisers the compiler of torch, even if nothing is compiled."""
    processes.serve("harness.study.worker", "pyarrow.dataset", "torch._dynamo", "sklearn.metrics")
