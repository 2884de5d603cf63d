"""Attempts at runs: the processes that make them, and their folders."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
from filelock import FileLock

from harness import paths
from harness.tracking import run_log


@contextlib.contextmanager
def adding(folder: Path | None) -> Iterator[None]:
    """No other process adds the run of this folder meanwhile. One that cannot be written to has none that do."""
    with contextlib.ExitStack() as stack:
        if folder is not None:
            with contextlib.suppress(OSError):
                stack.enter_context(FileLock(folder / paths.TRACKING_LOCK))
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
