"""The command line: `python -m harness [COMMAND] [argument ...]`, without a command `run`."""

import contextlib
import importlib
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import harness
from harness import redact
from harness.commands import COMMANDS
from harness.errors import (
    InputError,
    SeveralMistakesError,
    is_disk_full,
    meant,
    on_one_line,
    refuse_other_bytes,
    refused_paths,
    unknown,
)
from harness.redact import redacted
from harness.terminal import Inert, console, ends_with_its_reader, live_line

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended: 128 + 2."""

DISPLAYS = ("run", "tour")
"""Commands that move on the terminal themselves; all others print text alone."""

LONGEST_LINE = 5000
"""Characters of a mistake: the name of one may be of a stranger."""

HELP = {"-h", "--help"}
COMPLETION = {"-sc", "--shell-completion"}


@ends_with_its_reader
def main(arguments: list[str] | None = None) -> int:
    """0; 1 when something failed; 2 for a wrong input, with one line on stderr; 130 when interrupted; 141 without a reader."""
    name, rest = "run", sys.argv[1:] if arguments is None else list(arguments)
    redact.learn(rest, os.environ)
    redact.redact_logs()
    if rest and rest[0] in COMMANDS:
        name, rest = rest[0], rest[1:]
    label = "harness" if name == "run" else f"harness {name}"
    verbose = any(re.fullmatch(r"\+{0,2}hydra\.verbose=(?!false$).*", argument, re.IGNORECASE) for argument in rest)
    if verbose:
        logging.basicConfig(format="[%(asctime)s][%(name)s][%(levelname)s] %(message)s")  # Hydra sets the level
    stdout = sys.stdout if name in DISPLAYS else Inert(sys.stdout)
    try:
        with _second_interrupt_ends_at_once(), refused_paths(rest), contextlib.redirect_stdout(stdout):
            refuse_other_bytes(rest)
            return _run(name, rest)
    except InputError as error:
        if verbose or os.environ.get("HYDRA_FULL_ERROR") == "1":
            print(redacted("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        several = [f"{len(error.lines):,} mistakes:", *error.shown] if isinstance(error, SeveralMistakesError) else [str(error)]
        lines = [f"{label}: {several[0]}", *several[1:]]
        print(redacted("\n  ".join(on_one_line(line, LONGEST_LINE) for line in lines)), file=sys.stderr)
        return 2
    except Exception as error:
        if not is_disk_full(error):
            if arguments is not None or isinstance(error, BrokenPipeError):  # called by Python code, or without a reader
                raise
            print(redacted(traceback.format_exc()), end="", file=sys.stderr)
            return 1
        print(f"{label}: {' '.join(redacted(str(error)).split())}: free some, and the same command continues", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{label}: interrupted", file=sys.stderr)
        return INTERRUPTED


@contextlib.contextmanager
def _second_interrupt_ends_at_once() -> Iterator[None]:
    """The first Ctrl-C ends a command in order, which may take seconds; workers end with this process in any case."""

    def first(number: int, frame: object) -> NoReturn:
        signal.signal(signal.SIGINT, at_once)
        raise KeyboardInterrupt

    def at_once(number: int, frame: object) -> NoReturn:
        console.show_cursor()
        os._exit(INTERRUPTED)

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as where a script starts it in the background
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(name: str, arguments: list[str]) -> int:
    if name == "run" and HELP & set(arguments):
        return _help([word for word in arguments if word not in HELP])
    if name == "run" and "--version" in arguments:
        print(f"harness {harness.__version__}")
        return 0
    if COMPLETION & set(arguments):
        from harness.commands import run  # Hydra

        return run.complete(arguments, list(COMMANDS))
    if name == "run" and arguments and re.fullmatch(r"\w[\w-]*", arguments[0]):
        raise unknown("command", arguments[0], COMMANDS, "python -m harness", meant(arguments[0], COMMANDS))
    module = f"harness.commands.{name}"
    if name == "run":
        return importlib.import_module(module).main(arguments)
    from harness.commands import grammar, options  # the options of all commands, which a run does not need

    parsed = grammar.parse(arguments, options.OPTIONS[name], name)
    if not isinstance(parsed, grammar.Composed):
        return importlib.import_module(module).main(parsed)
    from harness.config import compose, mistakes  # Hydra takes 0.3 s, which --help does not need

    overrides = parsed.overrides()
    parsed.refuse_misspelt({key.partition(".")[0] for key in mistakes.known_keys()} | {*mistakes.groups(), "hydra"})
    parsed.begin()

    def run(configs: list) -> int:
        with live_line("loading torch"):  # a wrong key is refused before
            command = importlib.import_module(module)
        return command.main(parsed, configs)

    return compose.main(overrides, run, reads_as_runs=parsed.reads_as_runs)


def _help(topics: list[str]) -> int:
    """The help page, or that of a command, a group or a key."""
    if topics and topics[0] in COMMANDS and topics[0] != "run":
        return _run(topics[0], ["--help"])
    from harness.config.help import page, page_of  # the parser of Python, which no run needs

    pages = [page_of(topic) for topic in topics if not topic.startswith("-") and topic != "run"]
    print("\n\n".join(pages) if pages else page(COMMANDS))
    return 0


def leave_out_working_directory() -> None:
    """`python -m` searches the working directory first, where a folder `models` would hide our package."""
    root = str(Path(__file__).resolve().parent.parent)
    if sys.path[0] == os.getcwd() != root:
        sys.path[:1] = [] if root in sys.path[1:] else [root]


if __name__ == "__main__":
    leave_out_working_directory()
    code = main()
    if code == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C while Python ends would change the exit code
    sys.exit(code)
