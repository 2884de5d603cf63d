"""Attempts at runs: the processes that make them, and their folders."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
from filelock import FileLock

from harness.tracking import run_log

LOCK = ".tracking.lock"
"""In the folder of a study: held while a process looks for an attempt in a tracker and adds it."""


@contextlib.contextmanager
def adding(output: str, study: str) -> Iterator[None]:
    """No other process on this folder adds a run meanwhile. A folder that cannot be written to has none that do."""
    lock = FileLock(Path(output) / study / LOCK)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock)
        yield


def folders(output: str) -> dict[str, Path]:
    """Attempt -> folder of every run below `output`."""
    return {record.get("attempt", ""): folder for folder, record in run_log.records(output).items()}


def this_process() -> str:
    """Host, process id and its start time: process ids are reused, start times are not."""
    process = psutil.Process()
    return f"{os.uname().nodename}:{process.pid}:{process.create_time():.0f}"


def is_gone(process: str | None) -> bool:
    """Whether a process of this machine, named like that, no longer exists; False where it is not known."""
    if process is None:
        return False
    host, pid, started = process.rsplit(":", 2)
    if host != os.uname().nodename:
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.0f}" != started
    except psutil.NoSuchProcess:
        return True
