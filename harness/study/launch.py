"""The processes of a run on several devices of this machine, started and watched by torch's elastic launcher."""

import contextlib
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from harness.processes.ending import INVALID

RANK = "harness.study.rank"

LIBRARIES = ("gloo", "NCCL")
"""Of communication: named in the errors of ranks that have lost another one."""

POLL_S = 0.1
"""Seconds between two looks at the processes."""


def start_ranks(folder: Path, devices: int) -> None:
    """Executes the run of the folder in so many processes. Where one fails, the others are ended, and this one ends like it."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # its reports are of many lines
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a machine whose name has no address has this one
    quieten()
    command = ["-P", "-m", "harness.processes.new_worker", str(os.getpid()), RANK, str(folder)]
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
            monitor_interval=POLL_S,
            logs_specs=DefaultLogsSpecs(log_dir=errors),
        )
        try:
            elastic_launch(config, sys.executable)(*command)
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
