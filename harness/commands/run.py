"""`python -m harness run`: trains and measures every run that the command line composes."""

from typing import TYPE_CHECKING

from harness.config import compose

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


def main(arguments: list[str]) -> int:
    """0 when every run finished, 1 when one failed; InputError for a wrong input."""
    return compose.main(arguments, _run_study)


def _run_study(configs: "list[RunConfig]") -> int:
    from harness.study import supervisor  # torch: a wrong key is refused before it is loaded

    return supervisor.run_study(configs)
