"""How a command of the harness or of the reports ends: its exit code, and one line for what it refuses."""

import codecs
import contextlib
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from harness.errors import (
    InputError,
    SeveralMistakesError,
    has_half_characters,
    is_disk_full,
    on_one_line,
    refused_paths,
    says_no_memory,
)
from harness.redact import redacted
from harness.terminal import console

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended: 128 + 2."""

READER_ENDED = 141
"""Exit code of a command that a shell reports as ended by SIGPIPE: 128 + 13."""

LONGEST_LINE = 4000
"""Characters of a mistake: a part of one may be of a stranger."""

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Sent by a batch system or `kill`, by a terminal that is closed, and by Ctrl-\\."""


def exit_code(
    label: str,
    words: list[str],
    call: Callable[[], int],
    called: bool = False,
    verbose: bool = False,
) -> int:
    """What `call` returns; 1 when something failed; 2 for a wrong input, with one line on stderr; 130 when interrupted; 141
    when nobody reads the output any more.

    `called`: by Python code, which gets the exception of what failed. `verbose`: a wrong input has its traceback, too.
    """
    try:
        try:
            with _printable(), ended_in_order(), refused_paths(words):
                for word in filter(has_half_characters, words):
                    raise InputError(f"{on_one_line(word)} is not UTF-8: expected text")
                refuse_removed_directory()
                return call()
        finally:
            sys.stdout.flush()  # at the exit of Python it would fail beyond any handler
    except InputError as error:
        if verbose:
            _print(traceback.format_exception(error))
        several = [f"{len(error.lines):,} mistakes:", *error.shown] if isinstance(error, SeveralMistakesError) else [str(error)]
        lines = (on_one_line(" ".join(echoed(line, words).split()), LONGEST_LINE) for line in several)
        _print([f"{label}: ", "\n  ".join(lines), "\n"])
        return 2
    except BrokenPipeError:
        poll = select.poll()
        poll.register(sys.stdout, 0)
        if not any(event & select.POLLERR for _, event in poll.poll(0)):  # somebody can read it: a pipe to another process
            raise
        with open(os.devnull, "w") as sink:
            os.dup2(sink.fileno(), sys.stdout.fileno())  # Python writes what is left at its exit
        return READER_ENDED
    except KeyboardInterrupt:
        _print([f"{label}: interrupted\n"])
        return INTERRUPTED
    except Exception as error:
        cures = [
            (is_disk_full(error), f"{error}: free some, and the same command continues"),
            (
                says_no_memory(f"{type(error).__name__}: {error}"),
                f"out of memory ({str(error) or type(error).__name__}): free some memory, or run on a larger machine",
            ),
        ]
        line = next((cure for applies, cure in cures if applies), None)
        if line is None and called:
            raise
        _print([traceback.format_exc()] if line is None else [f"{label}: {' '.join(line.split())}\n"])
        return 1


def echoed(line: str, words: Iterable[str]) -> str:
    """The line with numbers as they were typed: -1, not the -1.0 that was read."""
    for key, _, values in (word.partition("=") for word in words):
        for value in values.split(","):
            with contextlib.suppress(ValueError):
                line = line.replace(f"{key}={float(value)} ", f"{key}={value} ")
    return line


def refused(error: object) -> int:
    """Prints a wrong input on one line of stderr; returns its exit code."""
    _print([f"python -m reports: {on_one_line(' '.join(str(error).split()), LONGEST_LINE)}\n"])
    return 2


def refuse_removed_directory() -> None:
    """InputError where the working directory is no longer there: relative paths lead nowhere."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError("the working directory was removed: cd to another one") from error


def _print(parts: Iterable[str]) -> None:
    print(redacted("".join(parts)), end="", file=sys.stderr)


@contextlib.contextmanager
def _printable() -> Iterator[None]:
    """A character that the terminal does not know is written as one like it, or as Python writes it."""
    os.environ.pop("PYTHONIOENCODING", None)  # the logs of workers are UTF-8
    codecs.register_error(_in_ascii.__name__, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_in_ascii.__name__)
    yield


ASCII = {"▲": "^", "▼": "v", "↑": "^", "↓": "v", "≈": "=", "±": "+-", "−": "-", "–": "-", "×": "x", "†": "*", "…": "..."}
"""Signs of tables -> what stands for them on a terminal without them."""


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """A handler of `codecs`: what cannot be encoded, as far as ASCII has it, and the place after it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    if not all(sign in ASCII for sign in signs):
        return codecs.backslashreplace_errors(error)
    return "".join(map(ASCII.__getitem__, signs)), error.end


def open_streams() -> None:
    """A stream that the process was started without leads nowhere; otherwise the next file that is opened takes its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115 - as long as the process


AGAIN_S = 0.1
"""Seconds after which a signal comes again that a destructor has swallowed."""


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """What ends a command raises KeyboardInterrupt in the block, which removes what is half written; workers end in any case.

    A second Ctrl-C ends the process at once. A signal that is ignored, as SIGHUP under `nohup`, stays so. One that comes in a
    destructor, whose exceptions Python ignores, comes again.
    """

    def ignored(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not KeyboardInterrupt or threading.current_thread() is not threading.main_thread():
            hook(unraisable)
            return
        for one in signals:
            signal.signal(one, first)
        again = threading.Timer(AGAIN_S, os.kill, [os.getpid(), signals[0]])
        again.daemon = True
        again.start()

    def first(number: int, frame: object) -> NoReturn:
        if number == signal.SIGINT:
            signal.signal(number, at_once)
        else:
            console.leave_lost_terminal()
        raise KeyboardInterrupt

    def at_once(number: int, frame: object) -> NoReturn:
        console.show_cursor()
        os._exit(INTERRUPTED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = [one for one in (signal.SIGINT, *ENDING) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, first) for one in signals}
    hook, sys.unraisablehook = sys.unraisablehook, ignored
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for one, handler in before.items():
            signal.signal(one, handler)


def leave_out_working_directory() -> None:
    """`python -m` searches the working directory first, where a folder `models` would hide our package."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path:
        sys.path[:1] = [] if root in sys.path[1:] else [root]
