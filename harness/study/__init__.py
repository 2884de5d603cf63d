"""The study of a command: what it plans, its runs, each in a worker of its own, and the timing of what has finished."""

from harness import processes

WORKER = "harness.study.worker"
"""Module of the worker of a run."""


def prepare_workers() -> None:
    """Starts importing what workers need, in a process of its own; this one is never forked. Again it does nothing.

    Nearly all workers import these modules later: optimizers the compiler of torch, even if nothing is compiled.
    """
    processes.serve(WORKER, "pyarrow.dataset", "torch._dynamo", "sklearn.metrics")
