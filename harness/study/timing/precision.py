"""How precise a session is so far, by its A/A replicates alone: when it may end before its last round.

The rule never sees a difference between two arms. A rule that looked at them would stop where chance made one large, and at
their scatter, where chance made it small. That of an A/A replicate has no such difference; stopping where it scatters little
leaves the intervals of the arms as they are, and makes the floor a little low. `test_stopping.py` of the reports simulates it.
"""

import math
from collections.abc import Callable, Sequence
from statistics import median, stdev

from harness.measure.intervals import t_quantile
from harness.measure.records import Launch

QUANTITIES: dict[str, Callable[[Launch], tuple[float, float]]] = {
    "latency": lambda launch: (math.log(launch.latency.ms), -math.log(median(launch.latency.reference_ms))),
    "throughput": lambda launch: (math.log(launch.throughput.tokens_per_s), math.log(median(launch.throughput.reference_ms))),
}
"""Name -> log of what the report compares by launch, and what is added to it to correct for the reference workload."""


def interval(first: Sequence[Launch], again: Sequence[Launch], quantity: str) -> tuple[float, float] | None:
    """(low, high) of the mean log ratio of two series of launches, paired by round; None for fewer than two rounds.

    Corrected for the reference workload where that lowers the scatter, as in the report.
    """
    value, earlier = QUANTITIES[quantity], {launch.round: launch for launch in first}
    pairs = [(value(launch), value(earlier[launch.round])) for launch in again if launch.round in earlier]
    if len(pairs) < 2:
        return None
    measured = [one[0] - other[0] for one, other in pairs]
    logs = min(measured, [sum(one) - sum(other) for one, other in pairs], key=stdev)
    mean, half = math.fsum(logs) / len(logs), t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return mean - half, mean + half


def half_width(first: Sequence[Launch], again: Sequence[Launch]) -> float:
    """The larger one of the two quantities; infinite for fewer than two rounds."""
    intervals = [interval(first, again, quantity) for quantity in QUANTITIES]
    return math.inf if None in intervals else max((high - low) / 2 for low, high in intervals)
