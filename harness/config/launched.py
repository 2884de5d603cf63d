"""A job of a launcher plugin (joblib, submitit): one run of a sweep, in a process or on a machine of its own."""

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import InputError

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

SWEEP, JOB = "HARNESS_SWEEP", "HARNESS_JOB"
"""Environment variables with the sweep that a job belongs to, and with its number: `3/12`."""


@dataclass(frozen=True)
class Ended:
    """What a job gives back to the command: what it ran with which exit code, or what could not be composed."""

    runs: "list[RunConfig]"
    code: int
    error: InputError | None = None


@dataclass
class Jobs:
    """The jobs of one command."""

    sweep: str = field(default_factory=lambda: uuid.uuid4().hex)
    count: int = 0
    ended: list[Ended] = field(default_factory=list)

    @contextlib.contextmanager
    def job(self, overrides: list[str], number: int) -> Iterator[None]:
        """While the job runs: the command line is that of the sweep, whatever started the process."""
        before = sys.argv[1:]
        sys.argv[1:], os.environ[SWEEP], os.environ[JOB] = overrides, self.sweep, f"{number}/{self.count}"
        try:
            yield
        finally:
            sys.argv[1:] = before
            del os.environ[SWEEP], os.environ[JOB]


def sweep() -> str | None:
    """Name of the sweep that this process runs a job of; None where it runs all of a command."""
    return os.environ.get(SWEEP)


def place(number: int, count: int) -> str:
    """`3/12`: the place of a run among those of the command; of a job with several runs `3/12: 1/2`."""
    job = os.environ.get(JOB)
    return ": ".join(filter(None, [job, f"{number}/{count}" if job is None or count > 1 else None]))
