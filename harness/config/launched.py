"""A job of a launcher plugin (joblib, submitit): one run of a sweep, in a process or on a machine of its own."""

import contextlib
import os
import sys
from collections.abc import Iterator

SWEEP = "HARNESS_SWEEP"
"""Environment variable with the sweep that a job belongs to."""


class JobFailedError(Exception):
    """A run of a job did not finish, which the job has said."""


@contextlib.contextmanager
def job(overrides: list[str], sweep: str) -> Iterator[None]:
    """While the job runs: the command line is that of the sweep, whatever started the process."""
    before = sys.argv[1:]
    sys.argv[1:], os.environ[SWEEP] = overrides, sweep
    try:
        yield
    finally:
        sys.argv[1:] = before
        del os.environ[SWEEP]


def sweep() -> str | None:
    """Name of the sweep that this process runs a job of; None where it runs all of a command."""
    return os.environ.get(SWEEP)
