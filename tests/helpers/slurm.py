"""A SLURM of one machine on loopback, from the system's packages (Debian: slurm-wlm, munge); root alone can start it."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from child_processes import started, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why no SLURM can be started here; None where one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"SLURM is not installed: {', '.join(missing)}"
    return None if os.geteuid() == 0 else "SLURM's daemons are started by root"


@contextlib.contextmanager
def running(folder: Path, cpus: int) -> Iterator[dict[str, str]]:
    """The environment in which `sbatch` and the like find it; its daemons end with the block."""
    munge = folder / "munge"
    for one in (munge, folder / "state", folder / "spool"):
        one.mkdir(parents=True)
    munge.chmod(0o700)
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o600)
    config = folder / "slurm.conf"
    config.write_text(
        CONFIG.format(folder=folder, host=socket.gethostname().partition(".")[0], ports=_free_ports(2), cpus=cpus)
    )
    environment = os.environ | {"SLURM_CONF": str(config)}
    files = {name: munge / name for name in ("socket", "pid", "log", "seed")}
    daemons = [
        [
            *("munged", "--foreground", "--force", f"--key-file={munge / 'key'}", f"--socket={files['socket']}"),
            *(f"--pid-file={files['pid']}", f"--log-file={files['log']}", f"--seed-file={files['seed']}"),
        ],
        ["slurmctld", "-D"],
        ["slurmd", "-D"],
    ]
    ready = [files["socket"].exists, lambda: _told("ping", environment, "UP"), lambda: _told("node", environment, "idle")]
    with contextlib.ExitStack() as stack:
        for command, is_ready in zip(daemons, ready, strict=True):
            log = stack.enter_context((folder / f"{command[0]}.log").open("w"))
            daemon = stack.enter_context(started(command, env=environment, stdout=log, stderr=log))
            wait_for(is_ready, daemon)
        yield environment


def _told(what: str, environment: dict[str, str], expected: str) -> bool:
    command = {"ping": ["scontrol", "ping"], "node": ["sinfo", "--noheader", "--format=%T"]}[what]
    return expected in subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
