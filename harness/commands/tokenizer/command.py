"""How tokenizers cut a text: `python -m harness tokenizer task=sst2 [kinds=wordpiece,bpe] [tokenizer.vocab_size=4096]`.

Trains each kind on the same text to the same size, and shows pieces a word, unknown ones, lengths and the words that are split
most, on held-out text. `run=RUN`, `tokenizer.file=FILE` or `tokenizer.vocab_file=FILE` shows a tokenizer that exists.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, compose_and_run, group_of, with_a_task
from harness.errors import InputError, unknown

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

KINDS = ("wordpiece", "bpe", "unigram", "words")
"""What is compared; `words` has the most frequent words as its pieces, all others are unknown."""

KEYS = {
    "kinds": f"what is trained and compared ({','.join(KINDS)})",
    "run": "folder, name or id of a run of ours: its tokenizer",
    "characters": "of held-out text that is counted, at most (1000000)",
    "out": "folder of the picture (multirun/tokenizer)",
    "runs": "folder of the runs, to find a name or id in (multirun)",
}


@dataclass(frozen=True)
class Request:
    """The command line; `kinds` is empty where only a tokenizer that exists is shown."""

    kinds: tuple[str, ...]
    named: bool  # the kinds are typed
    run: str | None
    characters: int
    out: Path
    runs: str
    is_corpus: bool  # the text is that of the corpus, not of the task


def parse(arguments: list[str]) -> tuple[Request, list[str]]:
    """The request, and what is left for Hydra; InputError without a text, and for a value that cannot be used."""
    parser = Parser(
        "tokenizer",
        "Shows how tokenizers cut a text: trained on it to the same size, or one that exists.",
        "Everything else chooses text and training: task=sst2 data=local, or corpus=wikitext; tokenizer.vocab_size=4096",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments)
    groups = {group_of(choice) for choice in choices if "." not in choice.partition("=")[0]}
    if len(groups & {"task", "corpus"}) != 1:
        problem = "both name a text" if groups & {"task", "corpus"} else "are missing"
        raise InputError(f"task= and corpus= {problem}: expected one of them, such as task=sst2 or corpus=wikitext")
    return request_of(own, "corpus" in groups), with_a_task(choices)


def request_of(values: dict[str, str], is_corpus: bool) -> Request:
    """InputError for a value that cannot be used."""
    kinds = tuple(kind.strip() for kind in values.get("kinds", ",".join(KINDS)).strip("[]").split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS, "kinds")
    characters = values.get("characters", "1000000")
    if not characters.isdecimal() or int(characters) < 1:
        raise InputError(f"characters={characters!r} must be a whole number of at least 1")
    return Request(
        kinds=tuple(dict.fromkeys(kinds)),
        named="kinds" in values,
        run=values.get("run"),
        characters=int(characters),
        out=Path(values.get("out") or Path("multirun", "tokenizer")),
        runs=values.get("runs", "multirun"),
        is_corpus=is_corpus,
    )


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    request, choices = parse(arguments)
    return compose_and_run(choices, lambda configs: _show(request, configs))


def _show(request: Request, configs: "list[RunConfig]") -> int:
    from harness.commands.tokenizer import page  # matplotlib and data sets: a wrong key is refused before they are loaded

    print(page.show(request, configs))
    return 0
