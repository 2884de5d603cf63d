"""The workers of runs: their module, and the process that they are forked from."""

from harness import processes

MODULE = "harness.study.worker"


def prepare() -> None:
    """Starts importing what workers need, in a process of its own; this one is never forked. Again it does nothing.

    Nearly all workers import these modules later: optimisers the compiler of torch, even if nothing is compiled.
    """
    processes.serve(MODULE, "pyarrow.dataset", "torch._dynamo", "sklearn.metrics")


def prepare_passive() -> None:
    """The same for workers whose threads sleep while they wait for each other."""
    processes.serve_passive(MODULE)
