"""Forks the workers of a module from this process, which has imported it and done nothing else.

python -m harness.processes.fork_server SOCKET PARENT MODULE [IMPORT ...]

SOCKET is the number of a file descriptor, PARENT the process id of the caller.

In place of multiprocessing's fork server: with that a worker ends 0.5 s later, its first garbage collection copies 105 MB of
imported modules, which would count as its memory, and one process has one server, so that all workers wait alike.

A request comes with the worker's log and a socket, to which process id and exit code are sent. A worker calls `main(FOLDER)` of
the module. Ends at the end of the socket; its workers end with it.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import re
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from harness import processes

LARGEST = 1 << 20
"""Bytes of a request, which has the environment."""

MADV_POPULATE_READ = 22
"""Number of that advice in linux/mman.h."""

PRESENT = 0x80
"""In the last byte of a page's entry in /proc/self/pagemap."""


def main(requests: socket.socket, parent: int, module: str, imports: list[str]) -> None:
    """Serves until the end of the socket; in a forked process, runs the worker."""
    processes.end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when Ctrl-C is pressed
    os.chdir("/")  # the caller's folder may be gone before the imports end; workers are told theirs
    worker = importlib.import_module(module)
    gc.disable()  # collections take a sixth of the time of imports
    for name in imports:
        importlib.import_module(name)
    gc.enable()
    if len(os.listdir("/proc/self/task")) > 1:  # a fork would lose them
        sys.exit(f"importing {module} started a thread: its workers start as new processes, which takes longer")
    gc.collect()
    gc.freeze()  # or the first collection in a worker would copy all memory that the server has filled
    try:
        pages = _pages_in_use()
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        sys.exit(f"this system forks no workers ({error}): they start as new processes, which takes longer")
    request = _serve(requests)
    if request is None:
        os._exit(0)  # without the seconds that an orderly end may take
    _map_pages(pages)
    sys.argv[1:], code = request["arguments"], 0
    try:
        worker.main(Path(request["arguments"][0]))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 the interpreter ends here
        traceback.print_exc()
        code = 1
    processes.leave(code)  # freeing every object would copy all memory that the server has filled


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """None at the end of the socket; in each forked process the request for it."""
    running: dict[int, tuple[int, socket.socket]] = {}  # pidfd -> process id and where its end is reported
    while True:
        for ready in select.select([requests.fileno(), *running], [], [])[0]:
            if ready in running:
                pid, reports = running.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with reports, contextlib.suppress(BrokenPipeError):  # the parent has dropped the worker
                    reports.send(str(code).encode())
                os.close(ready)
                continue
            message, handles, _, _ = socket.recv_fds(requests, LARGEST, 2)
            if not message:
                return None
            log, reports = handles[0], socket.socket(fileno=handles[1])
            server, pid = os.getpid(), os.fork()
            if pid == 0:
                for held in (requests, reports, *(other for _, other in running.values())):
                    held.close()
                request: dict[str, Any] = json.loads(message)
                _become_worker(request, log, server)
                return request
            os.close(log)
            handle = os.pidfd_open(pid)
            running[handle] = pid, reports
            try:
                socket.send_fds(reports, [str(pid).encode()], [handle])
            except BrokenPipeError:  # the parent was interrupted while it waited
                os.kill(pid, signal.SIGKILL)


def _pages_in_use() -> list[tuple[int, int]]:
    """Address and length of the parts of files, of libraries above all, that this process has in memory."""
    page, parts = os.sysconf("SC_PAGE_SIZE"), []
    with open("/proc/self/maps") as areas, open("/proc/self/pagemap", "rb") as flags:
        for area in areas:
            bounds, access, _, _, _, *path = area.split()
            if path and path[0].startswith("/") and access.startswith("r-"):
                first, end = (int(bound, 16) // page for bound in bounds.split("-"))
                flags.seek(8 * first)
                present = bytes(flag & PRESENT for flag in flags.read(8 * (end - first))[7::8])
                parts += [((first + run.start()) * page, len(run[0]) * page) for run in re.finditer(rb"\x80+", present)]
    return parts


def _map_pages(parts: list[tuple[int, int]]) -> None:
    """A fork has to map these again, which would be counted as memory of whatever uses a library first.

    They are shared, so this takes no memory. Linux before 5.14 cannot do it; there peaks are some MB higher.
    """
    advise = ctypes.CDLL(None).madvise
    for address, length in parts:
        advise(ctypes.c_void_p(address), ctypes.c_size_t(length), MADV_POPULATE_READ)


def _become_worker(request: dict[str, Any], log: int, server: int) -> None:
    """Signals, output, environment and folder of a process that was started by itself."""
    processes.end_with_parent(server)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
