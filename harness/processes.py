"""Workers: fresh processes that are ended when the one that started them is."""

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
    """Starts `python -m MODULE` with all that it says in the log; its libraries are told how many CPU threads to use."""
    told = str(threads)
    environment = os.environ | {"OMP_NUM_THREADS": told, "MKL_NUM_THREADS": told, "TOKENIZERS_PARALLELISM": "false"}
    root = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", module, *arguments]  # -P: no module of the working directory in place of ours
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment)


def run(module: str, arguments: list[str], threads: int, log: Path) -> int:
    """Exit code of a worker that runs to its end, or is ended when this is interrupted."""
    with log.open("w") as file:
        worker = start(module, arguments, threads, file)
        try:
            return worker.wait()
        finally:
            end(worker)


def end(worker: subprocess.Popen) -> None:
    """Asks it to end, and kills it when it does not within 10 s."""
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(10)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def last_line(log: Path) -> str:
    """What a worker said last."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the worker said nothing"


def end_with_parent() -> None:
    """Asks the kernel, where it can be asked, to end this process when its supervisor is gone, however that ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
