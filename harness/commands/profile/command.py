"""`python -m harness profile model=base,windowed scale=mini [--trace [DIR]] [--json FILE]`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import SWEEP, Parser, compose_and_run, whole_number, with_a_task

if TYPE_CHECKING:
    from harness.config.schema import RunConfig

TRACE = Path("multirun", "profile")
"""Folder of traces and pictures by default."""

EPILOG = """\
Everything else chooses the variants, as for `python -m harness`: model=base,windowed scale=mini 'enhancement=[swiglu]'
measure.length=256 measure.batch_size=8 finetune.batch_size=16 hardware.dtype=bf16 model.KEY=VALUE. Commas make columns."""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Own options, and what is left for Hydra."""
    description = "Parameters, FLOPs, latency and memory of variants side by side, without data and training."
    parser = Parser("profile", description, EPILOG)
    parser.add_argument("--trace", metavar="DIR", nargs="?", const=str(TRACE), help=f"time by component too ({TRACE})")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the raw values")
    parser.add_argument(
        "--rounds",
        metavar="N",
        help="launches of a variant (as many as fit into a minute, from 5 to 20; 1 of a single one)",
    )
    options, _, choices = parser.parse_composed(arguments)
    options.rounds = None if options.rounds is None else whole_number("--rounds", options.rounds)
    if options.trace and "=" in options.trace:  # what follows a bare --trace
        choices.insert(0, options.trace)
        options.trace = str(TRACE)
    return options, choices


def main(arguments: list[str]) -> int:
    """0; 1 when something could not be measured; InputError for what cannot be composed or written."""
    options, choices = parse(arguments)
    sweep = [] if set(SWEEP) & set(choices) else ["-m"]  # each column is a run of a sweep
    return compose_and_run([*sweep, *with_a_task(choices)], lambda configs: _profile(configs, options), resizes=True)


def _profile(configs: "list[RunConfig]", options: argparse.Namespace) -> int:
    from harness.commands.profile import compare  # torch: a wrong key is refused before it is loaded

    return compare.profile(compare.columns_of(configs), options.rounds, options.trace, options.json)
