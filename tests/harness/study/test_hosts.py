"""Runs on the processes of torchrun: one command leads, the others follow."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from child_processes import wait_for

from harness import tags
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware import device, facts
from harness.study import ranks
from harness.tracking import run_log

TEXT = [
    *("scale=tiny", "corpus.documents=120", "tokenizer.vocab_size=300", "pretrain=mlm", "pretrain.length=32"),
    *("pretrain.batch_size=8", "pretrain.eval_sequences=16", "pretrain.evaluations=1", "pretrain.steps=60", "task=none"),
    *("hardware.threads=1", "hardware.devices=2", "tracking=none", "report=false"),
]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def first_of_two(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of the first of two processes, whose launcher keeps no store."""
    variables = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    for name, value in (variables | {"MASTER_PORT": str(free_port())}).items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.long
def test_the_other_commands_end_with_the_first_one(first_of_two: pytest.MonkeyPatch):
    with ThreadPoolExecutor(1) as beside:
        following = []

        def command() -> int:
            following.append(beside.submit(ranks.follow))
            time.sleep(2 * ranks.POLL_S)
            return 3 if following[0].running() else 0

        assert ranks.lead(command) == 3
        assert following[0].result() == 0


@pytest.mark.long
def test_another_number_of_devices_than_processes_is_one_line(
    first_of_two: pytest.MonkeyPatch, run_harness: Callable, output: Path
):
    done = run_harness("scale=tiny", "task=bag", f"output={output}")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "torchrun has started 2 processes (WORLD_SIZE), but hardware.devices=1: set hardware.devices=2" in line


def test_threads_and_gpus_are_those_of_the_own_host(first_of_two: pytest.MonkeyPatch):
    hardware = HardwareConfig(device=device.Device.cuda, devices=2)
    assert facts.threads(hardware) == facts.cores()
    first_of_two.setattr("torch.cuda.device_count", lambda: 1)
    device.refuse_missing(hardware)
    first_of_two.setenv("LOCAL_WORLD_SIZE", "2")
    assert facts.threads(hardware) == max(1, facts.cores() // 2)
    with pytest.raises(InputError, match="this machine has 1 GPU"):
        device.refuse_missing(hardware)


def states(output: Path) -> list[str]:
    """How the pretrainings ended, in the order of their seeds; an empty text for one that has not."""
    records = [json.loads(path.read_text()) for path in sorted(output.glob(f"pretrained/*/{run_log.RECORD}"))]
    return [record.get(tags.END, {}).get("state", "") for record in records]


def steps(output: Path) -> int:
    entries = (entry for path in output.glob("pretrained/*") for entry in run_log.Reader(path).new_entries())
    return max((entry["step"] for entry in entries if entry.get("key") == "pretrain/loss"), default=0)


def rank_of(process: subprocess.Popen) -> psutil.Process:
    """The rank that a command which follows has started."""
    (found,) = (one for one in psutil.Process(process.pid).children(recursive=True) if "harness.study.ranks" in one.cmdline())
    return found


@pytest.mark.slow
def test_two_hosts_run_a_sweep_and_go_on_after_a_rank_has_died(start_process: Callable, output: Path, monkeypatch):
    """The first run loses the rank of the second host, the next one finishes; torchrun ends with the code of the command."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    group = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    command = ["-m", "harness", "-m", *TEXT, "pretrain.seed=1,2", f"output={output}"]
    run = [sys.executable, "-m", "torch.distributed.run"]
    first, second = (start_process(*run[1:], *group, f"--node-rank={node}", *command) for node in range(2))
    wait_for(lambda: steps(output) > 5, first)
    rank_of(second).kill()
    wait_for(lambda: first.poll() is not None)
    assert first.returncode == 1, first.communicate()
    assert states(output) == ["killed", "finished"]
    (record,) = (json.loads(path.read_text()) for path in output.glob(f"pretrained/*-1-*/{run_log.RECORD}"))
    assert "rank 1 of 2 on " in record[tags.END]["reason"]
    wait_for(lambda: second.poll() is not None)
