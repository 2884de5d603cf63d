"""Timings of interleaved launches: changes paired by round, the noise floor of their session, and the verdict.

In every round of a session each arm was launched once, in a new order, and a reference workload ran in between its calls.
A change is the mean over rounds of log(after / before), each side first divided by its reference where that lowers the scatter
of the session's A/A replicates: what slows the whole machine down slows both down. The baseline is timed twice in a session,
and its time in a round is the mean of both. How far its A/A replicate may differ from it is the noise floor: one above
HIGHEST_FLOOR supports no verdict. All else is decided by a t test over the rounds.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness import metrics
from harness.metrics import Compared, Metric
from harness.paired import Difference, geometric_mean, mean_interval, spread, t_quantile
from reports.comparison.statistics import CLOCK, Evidence, margin_of, scattered

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

SHARED = (*JUDGED, *SHOWN)
"""Timings of launches, which seeds share."""

GATED = metrics.compared(Compared.ABOVE_FLOOR)
"""Timing of a training -> whose noise floor it must exceed. Trainings are paired by seed and are not interleaved."""

TIMINGS = (*SHARED, *GATED)

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
    def difference(self) -> Difference:
        """Of the logarithms."""
        error = None
        if self.interval is not None:
            error = (self.interval[1] - self.interval[0]) / 2 / t_quantile(self.rounds - 1)
        return Difference(self.rounds, self.log, error, freedom=self.rounds - 1, independent=self.rounds)

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
    reference = _reference(history, metric)
    return {
        step: value + DRIFT[metric] * reference[step] for step, value in _logs(history, metric).items() if step in reference
    }


def _logs(history: History, metric: str) -> dict[int, float]:
    values = history.get(metric, {})
    return {step: math.log(values[step]) for step in sorted(values) if values[step] > 0}


def _reference(history: History, metric: str) -> dict[int, float]:
    """Round -> log of the time of the reference workload beside this metric."""
    found = next((history[name] for name in BESIDE[metric] if name in history), {})
    return {step: math.log(time) for step, time in found.items() if time > 0}


def merged(histories: Sequence[History]) -> History:
    """One history of the geometric means over all, of the rounds that all have; the first one where they share none."""
    first, *others = histories
    if not others:
        return first
    found = dict(first)
    for name in {*DRIFT, *(reference for names in BESIDE.values() for reference in names)} & set(first):
        each = [history.get(name, {}) for history in histories]
        shared = [step for step in first[name] if all(values.get(step, 0.0) > 0 for values in each)]
        if shared:
            found[name] = {step: geometric_mean([values[step] for values in each]) for step in shared}
    return found


def differences(metric: str, before: History, after: History, with_reference: bool) -> dict[int, float]:
    """Round -> log(after / before), of the rounds that both have."""
    earlier, later = (corrected(history, metric) if with_reference else _logs(history, metric) for history in (before, after))
    return {step: later[step] - earlier[step] for step in later if step in earlier}


def compared(metric: str, before: History, after: History, with_reference: bool = True) -> Ratio | None:
    """Paired by round, with Student's t interval; None where no round has both."""
    logs = list(differences(metric, before, after, with_reference).values())
    return Ratio(len(logs), *mean_interval(logs)) if logs else None


def over_sessions(by_session: Iterable[list[dict[int, float]]]) -> Difference | None:
    """Log ratios by round, averaged over the launches of each session; sessions are independent of one another."""
    parts = []
    for each in by_session:
        if common := set.intersection(*map(set, each)):
            logs = [math.fsum(one[step] for one in each) / len(each) for step in sorted(common)]
            parts.append(Ratio(len(logs), *mean_interval(logs)).difference)
    if len(parts) < 2:
        return parts[0] if parts else None
    mean, rounds = math.fsum(part.mean for part in parts) / len(parts), sum(part.n for part in parts)
    if any(not part.error for part in parts):
        return Difference(rounds, mean, None)
    squares = [(part.error / len(parts)) ** 2 for part in parts]
    freedom = sum(squares) ** 2 / sum(square**2 / part.freedom for square, part in zip(squares, parts, strict=True))
    return Difference(rounds, mean, math.sqrt(sum(squares)), None, freedom=freedom, independent=rounds)


def reference_helps(metric: str, pairs: Iterable[tuple[History, History]]) -> bool:
    """Whether dividing by the reference workload lowers the scatter of A/A replicates; not so where none has two rounds."""
    scatter = {True: 0.0, False: 0.0}
    for first, again in pairs:
        both = {use: list(differences(metric, first, again, use).values()) for use in scatter}
        if min(map(len, both.values())) < 2 or len(both[True]) != len(both[False]):
            continue
        for use, logs in both.items():
            scatter[use] += spread(logs).sd ** 2
    return scatter[True] < scatter[False]


def levels(metric: str, history: History, typical: float | None) -> dict[int, float]:
    """Round -> value as it is compared: as measured, or as if the reference had always taken its `typical` log time."""
    if typical is None:
        return {step: math.exp(value) for step, value in _logs(history, metric).items()}
    return {step: math.exp(value - DRIFT[metric] * typical) for step, value in corrected(history, metric).items()}


def typical_reference(metric: str, histories: Iterable[History]) -> float | None:
    """Mean log time of the reference workload over all launches; None where it never ran."""
    logs = [time for history in histories for time in _reference(history, metric).values()]
    return math.fsum(logs) / len(logs) if logs else None


def noise_floor(pair: Ratio | None) -> float | None:
    """Largest log ratio in the interval of an A/A replicate; None where it has no interval."""
    return max(abs(end) for end in pair.interval) if pair and pair.interval else None


def evidence(metric: Metric, found: Difference, floor: float | None) -> Evidence:
    """What is known of a timing by launch, from its log ratios."""
    margin = margin_of(metric.margin, 1.0, True)
    return Evidence(metric.direction, scattered(found, CLOCK), margin, floor, ratio=True, timing=True, by_round=True)


def disturbed(history: History) -> list[int]:
    """Rounds that were measured beside other work."""
    return [step for step, cpus in sorted(history.get(FOREIGN_CPUS, {}).items()) if cpus > FOREIGN_LIMIT]


def drift_percent(histories: Iterable[History]) -> float | None:
    """Percent by which the longest time of the reference workload exceeds the shortest; None where it never ran."""
    times = [time for history in histories for time in history.get(REFERENCE, {}).values() if time > 0]
    return 100 * (max(times) / min(times) - 1) if times else None
