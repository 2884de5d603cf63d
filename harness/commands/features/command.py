"""Vectors of every token as data: `python -m harness features run=RUN input=text.txt output=features.jsonl`.

One text a line, two texts of a pair separated by ` ||| `. The model is a run of ours or a checkpoint, ours or a published one.
"""

from typing import TYPE_CHECKING

from harness.commands.arguments import OF_MODEL, Parser, compose_and_run, group_of
from harness.commands.features.request import KEYS, Request, request_of

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

GROUPS = (*OF_MODEL, "tokenizer", "hardware", "tracking")
"""Groups that Hydra composes beside them: which model is expected, the hardware, the store in which an id is looked up."""


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Own keys, and what is left for Hydra; InputError for an unknown key."""
    parser = Parser(
        "features",
        "Writes the vectors of every token of every line of a text file.",
        "model=, scale= and enhancement= say which model is expected; hardware= on what it runs.",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments, GROUPS)
    return own, choices


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    own, choices = parse(arguments)
    request, named = request_of(own), any(group_of(choice) in OF_MODEL for choice in choices)
    runs_folder = own.get("runs", "multirun")
    return compose_and_run([*choices, "task=bag"], lambda configs: _extract(request, configs[0], runs_folder, named))


def _extract(request: Request, config: "RunConfig", runs_folder: str, named: bool) -> int:
    from harness.commands.features import extract  # torch: a wrong key is refused before it is loaded

    print(extract.extract(request, config, runs_folder, named))
    return 0
