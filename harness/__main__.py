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
from harness.commands import COMMANDS
from harness.errors import meant, unknown
from harness.terminal import Inert, live_line

DISPLAYS = ("run", "tour")
"""Commands that move on the terminal themselves; all others print text alone."""

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
    if rest and rest[0] in COMMANDS:
        name, rest = rest[0], rest[1:]
    label = "harness" if name == "run" else f"harness {name}"
    verbose = any(re.fullmatch(r"\+{0,2}hydra\.verbose=(?!false$).*", argument, re.IGNORECASE) for argument in rest)
    if verbose:
        logging.basicConfig(format="[%(asctime)s][%(name)s][%(levelname)s] %(message)s")  # Hydra sets the level
    verbose |= os.environ.get("HYDRA_FULL_ERROR") == "1"
    with contextlib.redirect_stdout(sys.stdout if name in DISPLAYS else Inert(sys.stdout)):
        return command.exit_code(label, rest, lambda: _run(name, rest), called=arguments is not None, verbose=verbose)


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
            loaded = importlib.import_module(module)
        return loaded.main(parsed, configs)

    return compose.main(overrides, run, reads_as_runs=parsed.reads_as_runs, replicates=parsed.replicates)


def _help(topics: list[str]) -> int:
    """The help page, or that of a command, a group or a key."""
    if topics and topics[0] in COMMANDS and topics[0] != "run":
        return _run(topics[0], ["--help"])
    from harness.config.help import page, page_of  # the parser of Python, which no run needs

    pages = [page_of(topic) for topic in topics if not topic.startswith("-") and topic != "run"]
    print("\n\n".join(pages) if pages else page(COMMANDS))
    return 0


if __name__ == "__main__":
    command.leave_out_working_directory()
    code = main()
    if code == command.INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C while Python ends would change the exit code
    sys.exit(code)
