"""The command line: `python -m harness [COMMAND] [argument ...]`, without a command `run`."""

import contextlib
import logging
import os
import re
import signal
import sys
from typing import Any, cast

import harness
from harness import command, extensions, grammar, redact
from harness.commands import COMPLETION, Command, commands, find, imported, is_command
from harness.config.help import GROUPS, meant, page
from harness.errors import unknown
from harness.terminal import Inert, live_line


def main(arguments: list[str] | None = None, called: bool | None = None) -> int:
    """The exit code of the command, as `command.exit_code` has it; words are those of the command line by default."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    command.open_streams()
    redact.learn(os.environ)
    redact.redact_logs()
    names = (" ".join(words[:count]) for count in (2, 1) if len(words) >= count)
    name = next(filter(is_command, names), "")
    rest = words[len(name.split()) :]
    verbose = any(re.fullmatch(r"\+{0,2}hydra\.verbose=(?!false$).*", argument, re.IGNORECASE) for argument in rest)
    if verbose:
        logging.basicConfig(format="[%(asctime)s][%(name)s][%(levelname)s] %(message)s")  # Hydra sets the level
    verbose |= os.environ.get("HYDRA_FULL_ERROR") == "1"
    label = " ".join(filter(None, ["harness", "" if name == "run" else name]))
    called = arguments is not None if called is None else called
    return command.exit_code(label, rest, lambda: _run(name or "run", rest), called=called, verbose=verbose)


def _run(name: str, words: list[str]) -> int:
    chosen, words = find(name), extensions.without_allowed(words)
    with contextlib.redirect_stdout(sys.stdout if chosen.is_live else Inert(sys.stdout)):
        if not COMPLETION.isdisjoint(words):
            return find("run").function()(words)
        if words and re.fullmatch(r"\w[\w-]*", words[0]) and name in ("run", "report"):
            before = "report " if name == "report" else ""
            near = meant(words[0], commands()) or ([f"python -m harness report study={words[0]}"] if before else [])
            names = [each.removeprefix(before) for each in commands() if each.startswith(before)]
            one_word = [each for each in names if " " not in each]
            raise unknown("command", words[0], one_word, f"python -m harness {before}".rstrip(), near)
        if name != "run":
            return _call(name, chosen, words)
        if not set(grammar.HELP).isdisjoint(words):
            return _help([word for word in words if word not in grammar.HELP])
        if "--version" in words:
            print(f"harness {harness.__version__}")
            return 0
        return chosen.function()(words)


def _call(name: str, chosen: Command, words: list[str]) -> int:
    options, call = imported(chosen.options), f"python -m harness {name}"
    if not set(grammar.HELP).isdisjoint(words):
        below = {each: of.help for each, of in commands().items() if each.startswith(f"{name} ")}
        parts = [grammar.page(options, call), grammar.listed("commands, each with a --help", below)]
        print("\n\n".join(filter(None, parts)))
        return 0
    parsed = grammar.parse(words, options, call)
    if not isinstance(parsed, grammar.Composed):
        return chosen.function()(parsed)
    compose = imported("harness.config.compose:main")  # Hydra takes 0.3 s, which --help does not need
    overrides, known_keys = parsed.overrides(), imported("harness.config.keys:known_keys")
    parsed.refuse_misspelt({key.partition(".")[0] for key in (*known_keys(), *GROUPS, "hydra")})
    parsed.begin()

    def run(configs: list[Any]) -> int:
        with live_line("loading torch"):  # a wrong key is refused before
            function = chosen.function()
        return function(parsed, configs)

    return cast(int, compose(overrides, run, reads_as_runs=parsed.reads_as_runs, replicates=parsed.replicates))


def _help(topics: list[str]) -> int:
    """The help page, or that of a command, a group or a key."""
    if is_command(name := " ".join(topics)) and name != "run":
        return _call(name, find(name), ["--help"])
    topics = [topic for topic in topics if not topic.startswith("-") and topic != "run"]
    if topics:
        from harness.config.keys import page_of  # the schema, which the first page does without

        print("\n\n".join(map(page_of, topics)))
    else:
        print(page({name: each.help for name, each in commands().items()}))
    return 0


if __name__ == "__main__":
    command.leave_out_working_directory()
    code = main()
    if code == command.INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C while Python ends would change the exit code
    sys.exit(code)
