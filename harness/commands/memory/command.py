"""What a training step holds in memory: `python -m harness memory model=albert scale=base batch_sizes=[1,4,8] [fits=2GB]`.

Prints weights, gradients, optimiser state and activations of each batch size, measured and by formula, beside the peak of the
process; what activation checkpointing saves and costs; and the largest batch that fits. Each batch size has its own process.
"""

from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, compose_and_run, with_a_task
from harness.commands.memory.request import KEYS, Request, request_of

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


def parse(arguments: list[str]) -> tuple[Request, list[str]]:
    """The request, and what is left for Hydra; InputError for a value that cannot be used."""
    parser = Parser(
        "memory",
        "Shows what a training step holds in memory, measured and by formula.",
        "Everything else chooses model and machine: model=albert scale=base hardware.threads=2 ...",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments)
    length = [f"measure.length={own['length']}"] if "length" in own else []
    return request_of(own), [*with_a_task(choices), *length]


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be composed or measured."""
    request, choices = parse(arguments)
    return compose_and_run(choices, lambda configs: _measure(configs, request))


def _measure(configs: "list[RunConfig]", request: Request) -> int:
    from harness.commands.memory import tables  # torch: a wrong key is refused before it is loaded

    resolved = map(tables.as_run, configs)
    for config in {(config.label, config.scale_name): config for config in resolved}.values():
        for part in tables.measured(request, config):
            print(part, flush=True)
    return 0
