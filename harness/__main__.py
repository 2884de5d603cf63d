"""The command line: `python -m harness [COMMAND] [argument ...]`, without a command `run`."""

import contextlib
import difflib
import logging
import os
import re
import signal
import sys
from typing import Any, cast

import harness
from harness import command, extensions, grammar, paths, redact
from harness.commands import COMPLETION, Command, commands, find, imported, is_command
from harness.config.help import first_page, further_pages, meant
from harness.errors import InputError, unknown
from harness.terminal import Inert, listed, live_line


def main(arguments: list[str] | None = None, called: bool | None = None) -> int:
    """The exit code of the command, as `command.exit_code` has it; words are those of the command line by default."""
    words = [paths.at_home(word) for word in (sys.argv[1:] if arguments is None else arguments)]
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
    if not set(grammar.HELP).isdisjoint(words):
        topics = [word for word in words if word not in grammar.HELP]
        imported("harness.terminal.pager:show")(_help(topics if name == "run" else name.split()))
        return 0
    with contextlib.redirect_stdout(sys.stdout if chosen.is_live else Inert(sys.stdout)):
        if not COMPLETION.isdisjoint(words):
            return find("run").function()(words)
        if words and re.fullmatch(r"\w[\w-]*", words[0]) and name in ("run", "report"):
            before = "report " if name == "report" else ""
            near = meant(words[0], commands()) or ([f"python -m harness report study={words[0]}"] if before else [])
            names = [each.removeprefix(before) for each in commands() if each.startswith(before)]
            one_word = [each for each in names if " " not in each]
            call = f"python -m harness {before}".rstrip()
            raise unknown("command", words[0], one_word, call, near, f"{call} --help{' commands' * (not before)}")
        if name != "run":
            return _call(name, chosen, words)
        if "--version" in words:
            print(f"harness {harness.__version__}")
            return 0
        return chosen.function()(words)


def _call(name: str, chosen: Command, words: list[str]) -> int:
    options = imported(chosen.options)
    of_command = grammar.Grammar(options, f"python -m harness {name}")
    if issubclass(options, grammar.Composed):
        words = imported("harness.config.command_line:settings")(words, of_command.keys)
    values = of_command.values(words)
    if issubclass(options, grammar.Composed):
        imported("harness.config.command_line:refuse_misspelt")(of_command, values["choices"])
    parsed = options(**values)
    if not isinstance(parsed, grammar.Composed):
        return chosen.function()(parsed)
    compose = imported("harness.config.compose:main")  # Hydra takes 0.3 s, which --help does not need
    overrides = parsed.overrides()
    parsed.begin()

    def run(configs: list[Any]) -> int:
        parsed.refuse(configs)
        with live_line("loading torch"):  # a wrong key is refused before
            function = chosen.function()
        return function(parsed, configs)

    return cast(int, compose(overrides, run, reads_as_runs=parsed.reads_as_runs, replicates=parsed.replicates))


def _help(topics: list[str]) -> str:
    """The first page of help, or that of commands, groups, a command, a group or a key."""
    descriptions = {name: each.help for name, each in commands().items()}
    name = " ".join(topics)
    name = f"report {name}" if f"report {name}" in descriptions else name
    if is_command(name) and name != "run":
        below = {each: text for each, text in descriptions.items() if each.startswith(f"{name} ")}
        parts = [
            grammar.page(imported(find(name).options), f"python -m harness {name}{' [COMMAND]' if below else ''}"),
            listed("Commands", below),
        ]
        return "\n\n".join(filter(None, parts))
    topics = [topic for topic in topics if not topic.startswith("-")]
    if not topics:
        return first_page(descriptions)
    page_of = imported("harness.config.keys:page_of")  # the schema, which the first page does without
    pages = further_pages(descriptions)
    try:
        return "\n\n".join(pages[topic] if topic in pages else page_of(topic) for topic in topics)
    except InputError:
        if near := difflib.get_close_matches(" ".join(topics), descriptions, n=1, cutoff=0.8):
            raise unknown("command", " ".join(topics), descriptions, "python -m harness", near) from None
        raise


if __name__ == "__main__":
    command.leave_out_working_directory()
    code = main()
    if code == command.INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C while Python ends would change the exit code
        imported("harness.processes:leave")(code)  # on a busy machine Python frees its objects in seconds
    sys.exit(code)
