"""What each topic of `python -m harness describe` prints."""

import argparse
from collections.abc import Iterator

from harness.commands.describe import activations, scales, tables
from harness.config.schema import RunConfig


def texts(configs: list[RunConfig], options: argparse.Namespace, choices: list[str]) -> Iterator[str]:
    """One after the other; InputError for what cannot be shown or written."""
    if options.topic == "scales":
        yield scales.show(configs, choices, options.config_dir)
    elif options.topic == "activations":
        yield activations.show(options.out)
    else:
        yield from tables.describe_all(configs, options.config_dir, options.out)
