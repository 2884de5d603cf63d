"""Figures of several sides that are measured side by side, in interleaved rounds."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Side = Callable[[int], float]
"""`side(round)`: one value of this side, measured now."""

TIMES = "x"
"""Unit of a ratio: how many times as fast ours is as the other side."""


def interleaved(sides: dict[str, Side], rounds: int) -> dict[str, list[float]]:
    """The values of each side, one a round. The side that begins changes from round to round."""
    names, values = list(sides), {name: [] for name in sides}
    for number in range(rounds):
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            values[name].append(sides[name](number))
            print(f"round {number + 1}: {name}: {values[name][-1]:,.4g}", file=sys.stderr, flush=True)
    return values


def row(name: str, values: Sequence[float], unit: str) -> dict[str, Any]:
    """One figure: the median over the rounds, and their range."""
    return {
        "name": name,
        "value": statistics.median(values),
        "unit": unit,
        "low": min(values),
        "high": max(values),
        "rounds": len(values),
    }


def rates(values: dict[str, list[float]], unit: str) -> list[dict[str, Any]]:
    """The figure of each side alone; the machine decides it."""
    return [row(name, one, unit) for name, one in values.items()]


def times_as_fast(ours: Sequence[float], theirs: Sequence[float], name: str) -> dict[str, Any]:
    """The ratio of two rates, each pair of the same round; of two durations with theirs first."""
    return row(name, [one / other for one, other in zip(ours, theirs, strict=True)], TIMES)


def per_second(count: int, call: Callable[[], Any]) -> Side:
    """How many things a second the call does, which does so many."""

    def side(number: int) -> float:
        started = time.perf_counter()
        call()
        return count / (time.perf_counter() - started)

    return side


def tokens_per_s(training: Any, steps: int, first: int) -> Side:
    """Real tokens per second of a training of `ours` or `peers` after step `first`."""

    def side(number: int) -> float:
        trained = training.run(steps, first, number)
        return getattr(trained, "tokens_per_s", trained)

    return side
