"""Timings of interleaved launches: changes paired by round, the noise floor of their session, and the verdict.

In every round of a session each arm was launched once, in a new order, and a reference workload ran in between its calls.
A change is the mean over rounds of log(after / before), each side first divided by its reference: what slows the whole
machine down slows both down. The baseline is timed twice in a session: how far its A/A replicate may differ from it is the
noise floor, and a change below that is no evidence.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics
from harness.metrics import Compared, Direction
from harness.paired import mean_interval
from reports.statistics import Verdict, judge

REFERENCE = metrics.LAUNCHES + "reference_ms"
REFERENCE_OF_THROUGHPUT = metrics.LAUNCHES + "throughput_reference_ms"
FOREIGN_CPUS = metrics.LAUNCHES + "foreign_cpus"
LATENCY, THROUGHPUT = metrics.LATENCY, metrics.THROUGHPUT
DRIFT = {LATENCY: -1, THROUGHPUT: 1}
"""Measured in every launch -> power of the reference time to multiply it by: -1 for a time, 1 for a rate."""

BESIDE = {LATENCY: (REFERENCE,), THROUGHPUT: (REFERENCE_OF_THROUGHPUT, REFERENCE)}
"""Measured in every launch -> the reference workload beside it, the first that was recorded."""

JUDGED = metrics.compared(Compared.BY_LAUNCH)
"""Timing of a run -> the same timing of every launch; only these are compared by launch."""

SHOWN = tuple(metrics.compared(Compared.SHOWN))
"""Timings of a run that are not recorded by launch: shown, never judged. Seeds share launches, so they are no replicates."""

GATED = metrics.compared(Compared.ABOVE_FLOOR)
"""Timing of a training -> whose noise floor it must exceed. Trainings are paired by seed and are not interleaved."""

FOREIGN_LIMIT = 0.5
"""CPUs that others kept busy, above which a launch was measured beside other work."""

History = dict[str, dict[int, float]]
"""Metric of a launch -> round -> value."""


@dataclass(frozen=True)
class Ratio:
    """Mean of log(after / before) over `rounds`, and its interval: None for a single round."""

    rounds: int
    log: float
    interval: tuple[float, float] | None

    @property
    def percent(self) -> float:
        """Change in percent of the value before."""
        return percent(self.log)

    @property
    def percents(self) -> tuple[float, float] | None:
        """The interval's ends, in percent of the value before."""
        return None if self.interval is None else (percent(self.interval[0]), percent(self.interval[1]))


def percent(log: float) -> float:
    """Of a log ratio."""
    return 100 * math.expm1(log)


def corrected(history: History, metric: str) -> dict[int, float]:
    """Round -> log of the measured value, divided by its reference workload; only rounds that have both."""
    reference = next((history[name] for name in BESIDE[metric] if name in history), {})
    values = history.get(metric, {})
    return {
        step: math.log(values[step]) + DRIFT[metric] * math.log(reference[step])
        for step in sorted(values)
        if values[step] > 0 and reference.get(step, 0) > 0
    }


def compared(metric: str, before: History, after: History) -> Ratio | None:
    """Paired by round, with Student's t interval; None where no round has both."""
    earlier, later = corrected(before, metric), corrected(after, metric)
    logs = [later[step] - earlier[step] for step in later if step in earlier]
    return Ratio(len(logs), *mean_interval(logs)) if logs else None


def noise_floor(pair: Ratio | None) -> float | None:
    """Largest log ratio in the interval of an A/A replicate; None where it has no interval."""
    return max(abs(end) for end in pair.interval) if pair and pair.interval else None


def judged(direction: Direction, ratio: Ratio, floor: float | None) -> Verdict | None:
    """A difference only if its interval leaves 0 out and it exceeds the floor; OPEN where no floor is known."""
    if direction is Direction.NEITHER:
        return None
    if floor is None:
        return Verdict.OPEN
    sure = ratio.interval is not None
    if abs(ratio.log) <= floor or (sure and ratio.interval[0] <= 0 <= ratio.interval[1]):
        return Verdict.WITHIN_NOISE
    return judge(direction, ratio.log, sure)


def disturbed(history: History) -> list[int]:
    """Rounds that were measured beside other work."""
    return [step for step, cpus in sorted(history.get(FOREIGN_CPUS, {}).items()) if cpus > FOREIGN_LIMIT]


def drift_percent(histories: Iterable[History]) -> float | None:
    """Percent by which the longest time of the reference workload exceeds the shortest; None where it never ran."""
    times = [time for history in histories for time in history.get(REFERENCE, {}).values() if time > 0]
    return 100 * (max(times) / min(times) - 1) if times else None
