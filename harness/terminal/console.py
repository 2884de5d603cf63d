"""What a command says, line by line: on the console, and in the log of each study that it runs.

A quiet command shows results and problems alone. Its log has every line, also those that a live display replaces.
"""

import contextlib
import logging
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

LOG = "sweep.log"
"""In the folder of a study: the lines of all its commands, with time, machine and process."""

REPLACED, PLAIN, RESULT, PROBLEM = logging.DEBUG, logging.INFO, 25, logging.WARNING
"""Kinds of lines, from the least to the most important: replaced by a live display, any, where results are, problems."""


CLEAR = "\r\x1b[K"
"""Control characters: to the start of the line, and remove what is there."""


class _Console(logging.Handler):
    """Prints: a live screen or line shows lines above itself, and a reader that has ended is an error as everywhere."""

    line = ""  # what a live line shows now
    heading = ""  # printed above the first line

    def emit(self, record: logging.LogRecord) -> None:
        if self.line:
            print(CLEAR, end="", file=sys.stderr, flush=True)
        if self.heading and not is_quiet():
            print(self.heading)
        self.heading = ""
        print(record.getMessage(), flush=True)
        if self.line:
            print(self.line, end="", file=sys.stderr, flush=True)


class _Log(logging.Handler):
    """The log of a study. If it cannot be written, such as a link, one warning says so and the runs continue."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        form = f"%(asctime)s {os.uname().nodename}:%(process)d %(message)s"
        self.setFormatter(logging.Formatter(form, "%Y-%m-%d %H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            number = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
            with open(number, "a", encoding="utf-8") as file:
                file.write(f"{self.format(record)}\n")
        except OSError as error:
            _LINES.removeHandler(self)
            problem(f"{os.path.relpath(self.path)} cannot be written ({error}): lines are on the console alone")


_LINES, _CONSOLE = logging.Logger(__name__, REPLACED), _Console(PLAIN)
"""A logger of its own: libraries that configure logging disable the registered ones."""
_LINES.addHandler(_CONSOLE)


def plain(text: str, replaced: bool = False) -> None:
    """Prints a line on progress; with `replaced`, a live display has it already, and only the log gets it."""
    _LINES.log(REPLACED if replaced else PLAIN, text)


def result(text: str) -> None:
    """Prints a line with a result or its place."""
    _LINES.log(RESULT, text)


def problem(text: str) -> None:
    """Prints a line on a problem."""
    _LINES.log(PROBLEM, text)


def live_line(text: str) -> None:
    """Replaces the last line of the terminal, which stays below what is printed; an empty text removes it."""
    _CONSOLE.acquire()
    try:
        _CONSOLE.line = text
        print(f"{CLEAR}{text}", end="", file=sys.stderr, flush=True)
    finally:
        _CONSOLE.release()


@contextlib.contextmanager
def quiet(enabled: bool) -> Iterator[None]:
    """Shows only results and problems meanwhile, if `enabled`."""
    before = _CONSOLE.level
    _CONSOLE.setLevel(RESULT if enabled else before)
    try:
        yield
    finally:
        _CONSOLE.setLevel(before)


@contextlib.contextmanager
def headed(text: str) -> Iterator[None]:
    """Prints the text above the first line meanwhile; not where a command is refused before it has one."""
    _CONSOLE.heading = text
    try:
        yield
    finally:
        _CONSOLE.heading = ""


def is_quiet() -> bool:
    """Whether only results and problems are shown."""
    return _CONSOLE.level > PLAIN


def is_live(*streams: TextIO) -> bool:
    """Whether there may be a live display on these streams, by default on the error stream."""
    return not is_quiet() and all(stream.isatty() for stream in streams or (sys.stderr,))


def show_cursor() -> None:
    """Shows the cursor, which a live screen hides, in a process that ends at once."""
    for number in (1, 2):
        if os.isatty(number):
            os.write(number, b"\x1b[?25h")


def leave_lost_terminal() -> None:
    """What is printed from now on goes nowhere if the terminal was closed: to write there would be an error."""
    with open(os.devnull, "w") as sink:
        for number in (1, 2):
            if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
                os.dup2(sink.fileno(), number)


@contextlib.contextmanager
def logged(folders: Iterable[Path]) -> Iterator[None]:
    """Adds all lines meanwhile to the logs in these folders, which are made with the first line."""
    logs = [_Log(folder / LOG) for folder in sorted(folders)]
    for log in logs:
        log.path.parent.mkdir(parents=True, exist_ok=True)
        _LINES.addHandler(log)
    try:
        yield
    finally:
        for log in logs:
            _LINES.removeHandler(log)
