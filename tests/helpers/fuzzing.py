"""How often a fuzz test tries: a few fixed examples in the suite, all of them where it is marked slow."""

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

ALL = 2000
"""Examples of a slow test; FUZZ_EXAMPLES changes it."""


def tried(check: Callable, examples: int, *strategies: SearchStrategy, shrinks: bool = True) -> None:
    """Calls `check` with drawn values, the same in every run; a failure is made as small as possible."""
    phases = [Phase.generate, *([Phase.shrink] if shrinks else [])]
    quiet = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=phases,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    quiet(given(*strategies)(check))()
