"""What one variant is: `python -m harness describe [TOPIC] model=albert scale=base [--out DIR]`.

Without a topic: its difference from base, its parameters beside base's, the shapes of all tensors of a forward pass, what a
pretraining adds (pretrain=rtd), and a picture of its architecture. `scales`: parameters and FLOPs at every scale.
`activations`: the non-linearities that models know, and their derivatives. No data is read.
"""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, compose_and_run, with_a_task
from harness.errors import unknown

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

TOPICS = {
    "variant": "difference from base, parameters, shapes, a picture; the default",
    "scales": "parameters, FLOPs and memory of the variant at every scale, with factors",
    "activations": "a picture of all non-linearities and their derivatives",
}


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Own options with the topic, and what is left for Hydra; InputError for a topic that does not exist."""
    listed = "\n".join(f"  {topic:12} {meaning}" for topic, meaning in TOPICS.items())
    parser = Parser(
        "describe [TOPIC]",
        "Shows what a variant is.",
        f"topics:\n{listed}\n\n"
        "Everything else chooses the variant: model=albert scale=base 'enhancement=[swiglu]' pretrain=rtd model.KEY=VALUE",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("multirun", "describe"), help="folder of the pictures")
    is_word = bool(arguments) and re.fullmatch(r"\w+", arguments[0])
    if is_word and arguments[0] not in TOPICS:
        raise unknown("topic", arguments[0], TOPICS, "python -m harness describe")
    options, _, choices = parser.parse_composed(arguments[1:] if is_word else arguments)
    options.topic = arguments[0] if is_word else "variant"
    return options, with_a_task(choices)


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be composed or written."""
    options, choices = parse(arguments)
    return compose_and_run(choices, lambda configs: _describe(configs, options, choices))


def _describe(configs: "list[RunConfig]", options: argparse.Namespace, choices: list[str]) -> int:
    from harness.commands.describe import topics  # torch and matplotlib: a wrong key is refused before they are loaded

    for text in topics.texts(configs, options, choices):
        print(text)
    return 0
