"""A command that a signal ends: its terminal has its cursor back, none of its processes is left, and its runs have an end."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from child_processes import wait_for

from harness.terminal import console

HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")]


@pytest.fixture
def sweep(start_process: Callable, small: list[str], output: Path):
    """A sweep in a terminal, whose first run trains; its process, the other end of the terminal, and what it has shown."""
    for number in (signal.SIGQUIT, signal.SIGHUP):  # children inherit that they are ignored in the background or under nohup
        signal.signal(number, signal.SIG_DFL)
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    common = ["-m", *small, "finetune.max_steps=100000", "finetune.epochs=100000", "measure=none", "study=s"]
    process = start_process("-m", "harness", *common, "seed=1,2", f"output={output}", **streams, text=False)
    os.close(theirs)
    os.set_blocking(ours, False)
    shown = bytearray()

    def trains() -> bool:
        shown.extend(read(ours))
        return HIDDEN in shown and b"finetune step" in shown

    wait_for(trains, process)
    return process, ours, shown


def read(terminal: int) -> bytes:
    """What is there to be read."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nothing, or the last writer has ended
        return b""


def left(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def end_of_run(output: Path) -> str:
    (record,) = output.glob("s/*/run.json")
    return json.loads(record.read_text())["end"]["state"]


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_it_as_ctrl_c_does(number, sweep, output):
    process, terminal, shown = sweep
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)

    def ends() -> bool:
        shown.extend(read(terminal))
        return process.poll() is not None

    wait_for(ends)
    shown.extend(read(terminal))
    assert process.returncode == 130, shown.decode()
    assert shown.rindex(SHOWN) > shown.rindex(HIDDEN)
    assert b"0 of 2 runs have ended; run the same command again to continue; remaining runs: python -m harness status" in shown
    assert b"harness: interrupted" in shown
    wait_for(lambda: not left(children))
    assert end_of_run(output) == "killed"


def test_a_terminal_that_is_closed_ends_it_in_order(sweep, output):
    process, terminal, _ = sweep
    children = psutil.Process(process.pid).children(recursive=True)
    os.close(terminal)
    process.send_signal(signal.SIGHUP)  # as a shell passes it on
    assert process.wait() == 130
    wait_for(lambda: not left(children))
    assert end_of_run(output) == "killed"
    assert "run the same command again to continue" in (output / "s" / console.LOG).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_destructor_swallows_comes_again(number):
    """Python ignores what is raised in a destructor: a command went on as if nobody had interrupted it."""
    code = (
        "import os, time\nfrom harness import command\n"
        "class Interrupted:\n"
        f"    def __del__(self):\n        os.kill(os.getpid(), {int(number)})\n        time.sleep(0.01)\n"
        "with command.ended_in_order():\n"
        "    try:\n        Interrupted()\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_a_second_ctrl_c_ends_it_at_once_with_the_cursor_back():
    ours, theirs = pty.openpty()
    code = (
        "import os, signal\nfrom harness import command\n"
        "with command.ended_in_order():\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert (done.returncode, SHOWN in os.read(ours, 1 << 16)) == (130, True)
    os.close(ours)
