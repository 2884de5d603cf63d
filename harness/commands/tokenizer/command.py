"""How tokenizers cut a text: `python -m harness tokenizer task=sst2 [kinds=wordpiece,bpe] [tokenizer.vocab_size=4096]`.

Trains each kind on the same text to the same size, and shows pieces a word, unknown ones, lengths and the words that are split
most, on held-out text. `run=RUN`, `tokenizer.file=FILE` or `tokenizer.vocab_file=FILE` shows a tokenizer that exists.
"""

from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, compose_and_run, group_of, with_a_task
from harness.commands.tokenizer.request import KEYS, Request, request_of
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


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


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    request, choices = parse(arguments)
    return compose_and_run(choices, lambda configs: _show(request, configs))


def _show(request: Request, configs: "list[RunConfig]") -> int:
    from harness.commands.tokenizer import page  # matplotlib and data sets: a wrong key is refused before they are loaded

    print(page.show(request, configs))
    return 0
