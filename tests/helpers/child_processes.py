"""Processes that tests start: they end with the test, and no wait for them is bounded by the clock of a quiet machine."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import psutil

PATIENCE_S = 600
"""Ten times the longest wait that was ever seen, which was on a busy machine."""


@contextlib.contextmanager
def started(command: list[str], **options: object) -> Iterator[subprocess.Popen]:
    """The process of this command, in a group of its own; what is left of it in the end is killed, and pipes are closed."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object], process: subprocess.Popen | None = None) -> object:
    """What the condition gives once it holds; fails when the process ends before, or after PATIENCE_S."""
    ends = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.02)
    return found


def workers(pid: int, module: str = "harness.study.worker") -> list[psutil.Process]:
    """The workers that run now, those of runs unless others are named: children of this supervisor, or of its fork server."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            command, parent = child.cmdline(), child.parent()
            is_forked = "harness.processes.fork_server" in command
            if module in command and parent is not None and pid == (parent.ppid() if is_forked else parent.pid):
                found.append(child)
        except psutil.Error:
            continue
    return found
