"""What one variant is: `python -m harness describe model=albert scale=base [--out DIR]`.

Prints its difference from base and its parameters beside base's, those of the heads that its pretraining trains too, and draws
its architecture; no data is read.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, compose_and_run, with_a_task

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Own options, and what is left for Hydra."""
    parser = Parser(
        "describe",
        "Prints how a variant differs from base, counts its parameters and draws it.",
        "Everything else chooses the variant: model=albert scale=base 'enhancement=[swiglu]' model.KEY=VALUE",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("multirun", "describe"), help="folder of the pictures")
    options, _, choices = parser.parse_composed(arguments)
    return options, with_a_task(choices)


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be composed or written."""
    options, choices = parse(arguments)
    return compose_and_run(choices, lambda configs: _describe(configs, options))


def _describe(configs: "list[RunConfig]", options: argparse.Namespace) -> int:
    from harness.commands.describe import tables  # torch and matplotlib: a wrong key is refused before they are loaded

    for text in tables.describe_all(configs, options.config_dir, options.out):
        print(text)
    return 0
