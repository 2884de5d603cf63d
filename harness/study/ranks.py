"""The processes of a run on several devices: ranks that the worker starts here, or those of an outer launcher on several hosts.

python -m harness.study.ranks FOLDER [NUMBER]     executes one rank; NUMBER: that of the run under an outer launcher

An outer launcher, such as torchrun on several hosts, starts the same command once a process. The command with RANK 0 plans,
runs and tracks as ever. Its workers are the first ranks of their runs: they announce each run in the launcher's key-value
store. The other commands follow: they start the other ranks of each announced run, and end with the first command. All read
and write one folder of results, on a file system that the hosts share.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from torch.distributed import DistError, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from harness import processes
from harness.config import resolve
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.processes.ending import INVALID
from harness.study.execute import execute
from harness.training.distributed import LONGEST_WAIT, join, leave

RANK = "harness.study.ranks"

LIBRARIES = ("gloo", "NCCL")
"""Communication libraries, named in the errors of ranks that have lost another one."""

MONITORED_S = 0.1
"""Seconds between two looks at the processes."""

POLL_S = 0.5
"""Seconds between two looks at the store."""

SOON_S = 10.0
"""Seconds in which the end of a rank is reported after the others have noticed it."""

RUNS, END = "harness/runs", "harness/end"
"""Keys: the number of runs that were announced, and that the first command has ended."""


def start_ranks(folder: Path, devices: int) -> None:
    """Executes the run of the folder in so many processes. Where one fails, the others are ended, and this one ends like it."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # its reports are of many lines
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a machine whose name has no address has this one
    quieten()
    program, *command = processes.new_worker(RANK, [str(folder)])
    with tempfile.TemporaryDirectory(prefix="harness-ranks-") as errors:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=devices,
            run_id=folder.name,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,
            monitor_interval=MONITORED_S,
            logs_specs=DefaultLogsSpecs(log_dir=errors),
        )
        try:
            elastic_launch(config, program)(*command)
            return
        except ChildFailedError as error:
            rank, failure = cause(error.failures)
    if failure.exitcode == INVALID:  # it has said why
        sys.exit(INVALID)
    end_like(f"rank {rank} of {devices}", failure.exitcode, message_of(failure))


def cause(failures: dict[int, ProcessFailure]) -> tuple[int, ProcessFailure]:
    """The rank that ended the others: by a signal, or the first with an error that is not the lost connection to it."""

    def order(failed: tuple[int, ProcessFailure]) -> tuple[bool, bool, int]:
        _, failure = failed
        return failure.exitcode >= 0, any(library in message_of(failure) for library in LIBRARIES), failure.timestamp

    return min(failures.items(), key=order)


def message_of(failure: ProcessFailure) -> str:
    """One line: the exception, or the signal."""
    message = failure.message if isinstance(failure.message, str) else failure.message["message"]
    return " ".join(message.split())


def quieten() -> None:
    """The processes that this one starts do not warn of every model whose parameters are all trained."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def end_like(rank: str, code: int, reason: str) -> NoReturn:
    """Ends this process by the signal or exit code of a rank, with the reason as the last line."""
    print(f"{rank}: {reason}", flush=True)
    if code < 0:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler, and other threads set none
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.stderr.flush()
    os._exit(code)  # from any thread


def _run_key(number: int) -> str:
    return f"harness/run/{number}"


def _ended_key(number: int) -> str:
    return f"harness/ended/{number}"


def _store(is_host: bool = False) -> Store:
    """The launcher's key-value store; where it has none, the first command keeps one."""
    own = is_host and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(address, port, is_master=own, wait_for_workers=False, timeout=LONGEST_WAIT)


def lead(command: Callable[[], int]) -> int:
    """The first command: the others follow until it ends. Returns its exit code."""
    quieten()
    store = _store(is_host=True)
    try:
        return command()
    finally:
        store.set(END, "1")
        time.sleep(2 * POLL_S)  # those that follow read it before the store may end with this process


def follow() -> int:
    """One of the other commands: executes its rank of every run that is announced; 0 at the end of the first command."""
    quieten()
    store, number = _store(), 1
    while True:
        if not store.check([_run_key(number)]):
            if store.check([END]):
                return 0
            time.sleep(POLL_S)
            continue
        working_directory, folder = json.loads(store.get(_run_key(number)))
        os.chdir(working_directory)
        hardware = resolve.load(Path(folder, "config.yaml")).hardware
        worker = processes.start(RANK, [folder, str(number)], facts.threads(hardware), sys.stderr)
        try:  # until it ends, or the first command has gone on
            while worker.poll() is None and not (store.check([END]) or store.check([_run_key(number + 1)])):
                time.sleep(POLL_S)
        finally:
            over = worker.poll() is None
            processes.end(worker)
        if worker.returncode and not over:
            end = {"rank": int(os.environ["RANK"]), "host": socket.gethostname(), "code": worker.returncode}
            store.set(_ended_key(number), json.dumps(end))
        number += 1


def execute_first(folder: Path, config: RunConfig) -> None:
    """Announces the run of the folder, and executes it as its first rank; where another rank fails, this one ends like it."""
    store = _store()
    number = store.add(RUNS, 1)
    store.set(_run_key(number), json.dumps([os.getcwd(), str(folder)]))
    threading.Thread(target=_end_with_others, args=(number,), daemon=True).start()
    try:
        execute(folder, config, join(config.hardware, meeting_point(number)))
        leave()
    except RuntimeError as error:
        if "gloo" in str(error) or isinstance(error, DistError):  # another rank has ended, which is said by its host
            time.sleep(SOON_S)
        raise


def _end_with_others(number: int) -> None:
    """Ends this process where another rank of the run has failed: not all libraries notice that."""
    store = _store()
    while not store.check([_ended_key(number)]):
        time.sleep(POLL_S)
    end = json.loads(store.get(_ended_key(number)))
    end_like(f"rank {end['rank']} of {os.environ['WORLD_SIZE']} on {end['host']}", end["code"], "see the output of its host")


def meeting_point(number: int) -> Store:
    """The store in which the ranks of this run find each other."""
    return PrefixStore(f"harness/ranks/{number}", _store())


@record  # leaves the exception to the launcher
def execute_rank(folder: Path, number: int | None = None) -> None:
    """Executes the run as one of its ranks; only the first one prints."""
    store = None if number is None else meeting_point(number)
    config = resolve.load(folder / "config.yaml")
    ranks = join(config.hardware, store)
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(sys.stdout if ranks.first else nothing):
        execute(folder, config, ranks)
    leave()


if __name__ == "__main__":
    execute_rank(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the interpreter's end aborts the process where a thread of the communication is still at work
