"""Worker processes, which end when the process that started them ends.

On Linux the workers of a module for which `serve` was called are forked from a process that has imported it, which saves
seconds each. All others, and all with HARNESS_FORK=0 in the environment, are started as new processes, which bind themselves
to this one before they import anything: `harness.processes.new_worker`. Start both from the main thread: the kernel ends them
with the thread that started them.
"""

import atexit
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, NoReturn, TextIO

PR_SET_PDEATHSIG = 1
"""PR_SET_PDEATHSIG in linux/prctl.h."""

ENDS_S = 2.0
"""Seconds that a worker has to end after a signal: Ctrl-C ends a command within five."""

FORK = "HARNESS_FORK"
"""Environment variable; with the value 0 no worker is forked."""


SECRET = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD", "WANDB_API_KEY")
"""Environment variables of trackers, which workers do not get."""


class Forked:
    """A worker that the server has forked, with the interface of subprocess.Popen."""

    def __init__(self, pid: int, handle: int, reports: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle, self._reports = handle, reports  # a pidfd: it never means another process; the server reports the end

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, below zero for a signal; subprocess.TimeoutExpired if it runs longer."""
        if self.returncode is None:
            if timeout is not None and not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            report = self._reports.recv(16)
            self.returncode = int(report) if report else -signal.SIGKILL  # the server was killed, and the worker with it
            self._reports.close()
            os.close(self._handle)
        return self.returncode

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)


Worker = subprocess.Popen[bytes] | Forked


class Server:
    """A process that has imported a module, and forks its workers: `harness.processes.fork_server`."""

    def __init__(self, module: str, imports: tuple[str, ...], passive: bool) -> None:
        self._passive = passive
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid()), module, *imports]
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it starts so: Ctrl-C is for its parent
            try:
                self._process = subprocess.Popen(
                    _python("harness.processes.fork_server", arguments),
                    env=_environment(1, passive),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._errors = threading.Thread(target=_pass_on, args=[self._process.stderr], name=f"errors of {module}", daemon=True)
        self._errors.start()

    def start(self, arguments: list[str], threads: int, log: TextIO) -> Forked | None:
        """A worker; None if the server has ended."""
        request = {"arguments": arguments, "environment": _environment(threads, self._passive), "folder": os.getcwd()}
        reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.suppress(BrokenPipeError):
            socket.send_fds(self._requests, [json.dumps(request).encode()], [log.fileno(), theirs.fileno()])
        pid, handles, _, _ = socket.recv_fds(reports, 16, 1)
        if not pid:
            reports.close()
            self._errors.join()
            return None
        return Forked(int(pid), handles[0], reports)

    def close(self) -> None:
        """Ends the server, and the kernel its workers."""
        self._requests.close()
        self._process.kill()
        self._process.wait()
        self._errors.join()


def _pass_on(errors: IO[bytes]) -> None:
    """What it says, by the error stream of Python: written past that, it would break the lines of a live screen."""
    with errors:
        for line in errors:
            print(line.decode(errors="replace"), end="", file=sys.stderr, flush=True)


_imports: dict[str, tuple[str, ...]] = {}
_servers: dict[tuple[str, bool], Server] = {}
"""Fork servers by module and thread mode: the library reads how threads wait when it is loaded."""


def serve(module: str, *imports: str) -> None:
    """From now on workers of this module are forked where that is possible, with these modules imported as well."""
    if module not in _imports:
        _imports[module] = imports
        server(module, passive=False)


def server(module: str, passive: bool) -> Server | None:
    """What forks workers of this module, started now if it was not yet; None where they start as new processes."""
    if sys.platform != "linux" or module not in _imports or os.environ.get(FORK) == "0":
        return None
    if (module, passive) not in _servers:
        _servers[module, passive] = Server(module, _imports[module], passive)
        atexit.register(_servers[module, passive].close)
    return _servers[module, passive]


def start(module: str, arguments: list[str], threads: int, log: TextIO, passive: bool = False) -> Worker:
    """Starts a worker with its output in the log and this many CPU threads for its libraries.

    Passive threads sleep while they wait for each other. Others spin, which is faster, except on a machine that takes
    a CPU away from one of them.
    """
    forks = server(module, passive)
    worker = None if forks is None else forks.start(arguments, threads, log)
    if worker is not None:
        return worker
    return subprocess.Popen(
        new_worker(module, arguments),
        env=_environment(threads, passive),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def new_worker(module: str, arguments: list[str]) -> list[str]:
    """The command that runs a module in a new process, which ends with this one."""
    return _python("harness.processes.new_worker", [str(os.getpid()), module, *arguments])


def importable() -> dict[str, str]:
    """The variable by which a new process finds this package, wherever it is called."""
    root = str(Path(__file__).resolve().parents[2])
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}


def _python(module: str, arguments: list[str]) -> list[str]:
    return [sys.executable, "-P", "-m", module, *arguments]  # -P: do not import modules of the working directory


def _environment(threads: int, passive: bool) -> dict[str, str]:
    """One thread for numpy's matrix library, and none for the memory of pyarrow, which would start when they are imported."""
    count = str(threads)
    waiting = {"OMP_WAIT_POLICY": "PASSIVE"} if passive else {}
    inherited = {name: value for name, value in os.environ.items() if name not in SECRET}
    return (
        waiting
        | inherited
        | importable()
        | {
            "OMP_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": "1",
            "JE_ARROW_MALLOC_CONF": "background_thread:false",
            "TOKENIZERS_PARALLELISM": "false",
        }
    )


def run(module: str, arguments: list[str], threads: int, log: Path) -> int:
    """Runs a worker to its end and returns its exit code; ends it if this process is interrupted."""
    with log.open("w") as file:
        worker = start(module, arguments, threads, file)
        try:
            return worker.wait()
        finally:
            end(worker)


def end(worker: Worker) -> None:
    """Terminates a worker, and kills it if it has not ended within ENDS_S."""
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def end_with_parent(parent: int | None = None) -> None:
    """On Linux, makes the kernel end this process when the one that started it ends, for whatever reason.

    `parent` is the process id of that one. SystemExit where it has ended already, which the kernel would not report any more.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # SIGTERM may be ignored, which processes inherit
    if parent is not None and os.getppid() != parent:
        sys.exit(f"process {parent}, which started this one, has ended")


def leave(code: int) -> NoReturn:
    """Ends this process as Python does, but frees nothing: that takes time, and aborts where a library's thread still runs."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
