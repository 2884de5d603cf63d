"""The command line: `python -m harness [COMMAND] [argument ...]`, without a command `run`."""

import contextlib
import importlib
import logging
import os
import re
import signal
import sys

import harness
from harness import command, redact
from harness.commands import Command, commands, find, is_command
from harness.errors import meant, unknown
from harness.terminal import Inert, live_line

HELP = {"-h", "--help"}
COMPLETION = {"-sc", "--shell-completion"}


def main(arguments: list[str] | None = None) -> int:
    """The exit code of the command, as `command.exit_code` has it; words are those of the command line by default."""
    name, rest = "run", sys.argv[1:] if arguments is None else list(arguments)
    if rest[:1] == ["report"]:
        return importlib.import_module("harness.reports.__main__").main(rest[1:], called=arguments is not None)
    command.open_streams()
    redact.learn(rest, os.environ)
    redact.redact_logs()
    if rest and is_command(rest[0]):
        name, rest = rest[0], rest[1:]
    label = "harness" if name == "run" else f"harness {name}"
    verbose = any(re.fullmatch(r"\+{0,2}hydra\.verbose=(?!false$).*", argument, re.IGNORECASE) for argument in rest)
    if verbose:
        logging.basicConfig(format="[%(asctime)s][%(name)s][%(levelname)s] %(message)s")  # Hydra sets the level
    verbose |= os.environ.get("HYDRA_FULL_ERROR") == "1"
    return command.exit_code(label, rest, lambda: _run(name, rest), called=arguments is not None, verbose=verbose)


def _run(name: str, arguments: list[str]) -> int:
    chosen = find(name)
    with contextlib.redirect_stdout(sys.stdout if chosen.is_live else Inert(sys.stdout)):
        return _begin(arguments) if name == "run" else _call(name, chosen, arguments)


def _begin(arguments: list[str]) -> int:
    """A run, or what is asked of the command line as a whole."""
    if HELP & set(arguments):
        return _help([word for word in arguments if word not in HELP])
    if "--version" in arguments:
        print(f"harness {harness.__version__}")
        return 0
    from harness.commands import run  # Hydra

    if COMPLETION & set(arguments):
        return run.complete(arguments, list(commands()))
    if arguments and re.fullmatch(r"\w[\w-]*", arguments[0]):
        raise unknown("command", arguments[0], commands(), "python -m harness", meant(arguments[0], commands()))
    return run.main(arguments)


def _call(name: str, chosen: Command, arguments: list[str]) -> int:
    if COMPLETION & set(arguments):
        from harness.commands import run  # Hydra

        return run.complete(arguments, list(commands()))
    from harness.commands import grammar  # which a run does not need

    parsed = grammar.parse(arguments, chosen.options_class(), name)
    if not isinstance(parsed, grammar.Composed):
        return chosen.function()(parsed)
    from harness.config import compose, mistakes  # Hydra takes 0.3 s, which --help does not need

    overrides = parsed.overrides()
    parsed.refuse_misspelt({key.partition(".")[0] for key in mistakes.known_keys()} | {*mistakes.groups(), "hydra"})
    parsed.begin()

    def run(configs: list) -> int:
        with live_line("loading torch"):  # a wrong key is refused before
            function = chosen.function()
        return function(parsed, configs)

    return compose.main(overrides, run, reads_as_runs=parsed.reads_as_runs, replicates=parsed.replicates)


def _help(topics: list[str]) -> int:
    """The help page, or that of a command, a group or a key."""
    if topics and topics[0] != "run" and is_command(topics[0]):
        return _run(topics[0], ["--help"])
    from harness.config.help import page, page_of  # the parser of Python, which no run needs

    pages = [page_of(topic) for topic in topics if not topic.startswith("-") and topic != "run"]
    print("\n\n".join(pages) if pages else page({name: one.help for name, one in commands().items()}))
    return 0


if __name__ == "__main__":
    command.leave_out_working_directory()
    code = main()
    if code == command.INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C while Python ends would change the exit code
    sys.exit(code)
