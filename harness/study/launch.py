"""The processes of a run on several devices of this machine, started and watched by torch's elastic launcher."""

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

RANK = "harness.study.rank"

POLL_S = 0.1
"""Seconds between two looks at the processes."""


def start_ranks(folder: Path, devices: int) -> None:
    """Executes the run of the folder in so many processes. Where one fails, the others are ended, and this one ends like it."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # its reports are of many lines
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a machine whose name has no address has this one
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a warning at every model whose parameters are all trained
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
            rank, failure = error.get_first_failure()
    _end_like(rank, devices, failure)


def _end_like(rank: int, devices: int, failure: ProcessFailure) -> NoReturn:
    """Ends by the same signal or exit code, with the reason as the last line."""
    reason = failure.message.strip().splitlines()
    print(f"rank {rank} of {devices}: {reason[-1] if reason else 'it printed nothing'}", flush=True)
    if failure.exitcode < 0:
        signal.signal(-failure.exitcode, signal.SIG_DFL) if -failure.exitcode != signal.SIGKILL else None
        os.kill(os.getpid(), -failure.exitcode)
    sys.exit(failure.exitcode)
