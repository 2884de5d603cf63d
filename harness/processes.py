"""Worker processes, which end when the process that started them ends."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TextIO

PR_SET_PDEATHSIG = 1
"""Number of that request in linux/prctl.h."""


def start(module: str, arguments: list[str], threads: int, log: TextIO) -> subprocess.Popen:
    """Starts `python -m MODULE` with its output in the log and this many CPU threads for its libraries."""
    count = str(threads)
    environment = os.environ | {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "TOKENIZERS_PARALLELISM": "false"}
    root = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", module, *arguments]  # -P: do not import modules of the working directory
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment)


def run(module: str, arguments: list[str], threads: int, log: Path) -> int:
    """Runs a worker to its end and returns its exit code; ends it if this process is interrupted."""
    with log.open("w") as file:
        worker = start(module, arguments, threads, file)
        try:
            return worker.wait()
        finally:
            end(worker)


def end(worker: subprocess.Popen) -> None:
    """Terminates a worker, and kills it if it has not ended within 10 s."""
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(10)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def last_line(log: Path) -> str:
    """The last line that a worker printed."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the worker printed nothing"


def end_with_parent() -> None:
    """On Linux, makes the kernel end this process when its supervisor ends, for whatever reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
