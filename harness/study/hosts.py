"""Runs on the processes of an outer launcher, such as torchrun on several hosts: the same command is started once a process.

The command with RANK 0 plans, runs and tracks as ever. Its workers are the first ranks of their runs: they announce each run in
the launcher's key-value store. The other commands follow: they start the other ranks of each announced run, and end with the
first command. All read and write one folder of results, on a file system that the hosts share.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from torch import distributed
from torch.distributed import PrefixStore, Store, TCPStore

from harness import processes
from harness.config import resolve
from harness.hardware import facts
from harness.study import launch
from harness.study.execute import execute
from harness.training.distributed import LONGEST_WAIT, join, leave

POLL_S = 0.5
"""Seconds between two looks at the store."""

SOON_S = 10.0
"""Seconds in which the end of a rank is reported after the others have noticed it."""

RUNS, END = "harness/runs", "harness/end"
"""Keys: the number of runs that were announced, and that the first command has ended."""


def _run(number: int) -> str:
    return f"harness/run/{number}"


def _ended(number: int) -> str:
    return f"harness/ended/{number}"


def _store(is_host: bool = False) -> Store:
    """That of the launcher; where it has none, the first command keeps it."""
    own = is_host and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(address, port, is_master=own, wait_for_workers=False, timeout=LONGEST_WAIT)


def lead(command: Callable[[], int]) -> int:
    """The first command: the others follow until it ends. Returns its exit code."""
    launch.quieten()
    store = _store(is_host=True)
    try:
        return command()
    finally:
        store.set(END, "1")
        time.sleep(2 * POLL_S)  # those that follow read it before the store may end with this process


def follow() -> int:
    """One of the other commands: executes its rank of every run that is announced; 0 at the end of the first command."""
    launch.quieten()
    store, number = _store(), 1
    while True:
        if store.check([_run(number)]):
            working_directory, folder = json.loads(store.get(_run(number)))
            os.chdir(working_directory)
            _follow_run(store, number, Path(folder))
            number += 1
        elif store.check([END]):
            return 0
        else:
            time.sleep(POLL_S)


def _follow_run(store: Store, number: int, folder: Path) -> None:
    """Executes this rank of the run until it ends, or the first command has gone on."""
    hardware = resolve.load(folder / "config.yaml").hardware
    worker = processes.start(launch.RANK, [str(folder), str(number)], facts.threads(hardware), sys.stderr)
    try:
        while worker.poll() is None and not (store.check([END]) or store.check([_run(number + 1)])):
            time.sleep(POLL_S)
    finally:
        over = worker.poll() is None
        processes.end(worker)
    if worker.returncode and not over:
        end = {"rank": int(os.environ["RANK"]), "host": socket.gethostname(), "code": worker.returncode}
        store.set(_ended(number), json.dumps(end))


def execute_first(folder: Path) -> None:
    """Announces the run of the folder, and executes it as its first rank; where another rank fails, this one ends like it."""
    store = _store()
    number = store.add(RUNS, 1)
    store.set(_run(number), json.dumps([os.getcwd(), str(folder)]))
    threading.Thread(target=_end_with_others, args=(number,), daemon=True).start()
    try:
        execute(folder, join(resolve.load(folder / "config.yaml").hardware, meeting_point(number)))
        leave()
    except RuntimeError as error:
        if "gloo" in str(error) or isinstance(
            error, distributed.DistError
        ):  # another rank has ended, which is said by its host
            time.sleep(SOON_S)
        raise


def _end_with_others(number: int) -> None:
    """Ends this process where another rank of the run has failed: not all libraries notice that."""
    store = _store()
    while not store.check([_ended(number)]):
        time.sleep(POLL_S)
    end = json.loads(store.get(_ended(number)))
    launch.end_like(
        f"rank {end['rank']} of {os.environ['WORLD_SIZE']} on {end['host']}", end["code"], "see the output of its host"
    )


def meeting_point(number: int) -> Store:
    """The store in which the ranks of this run find each other."""
    return PrefixStore(f"harness/ranks/{number}", _store())
