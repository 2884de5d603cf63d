"""Timings of interleaved launches, paired by round: what a session stops by, and what reports, profile and audit compare.

In every round each arm was launched once, in a new order, and a reference workload ran in between its calls. A change is the
mean over rounds of log(after / before). Device time is always divided by that of the reference workload, which a neighbour on
the same core slows down alike; the wall clock where that lowers the scatter of the A/A replicates. The baseline is timed twice
in a session, and its time in a round is the mean of both.
"""

import math
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, geometric_mean
from typing import TypeVar

from harness.comparison.paired import Difference, of_differences, variance
from harness.metrics import DEVICE_LATENCY, DEVICE_THROUGHPUT, DEVICE_TIME, DEVICE_TRAINING, LATENCY, THROUGHPUT, TRAINING

DRIFT = {LATENCY: -1, THROUGHPUT: 1, TRAINING: 1, DEVICE_LATENCY: -1, DEVICE_THROUGHPUT: 1, DEVICE_TRAINING: 1}
"""Measured in every launch -> power of the reference time to multiply it by: -1 for a time, 1 for a rate."""

REFERENCE = "timing/reference_ms"

REFERENCES = {
    LATENCY: (REFERENCE,),
    THROUGHPUT: ("timing/throughput_reference_ms", REFERENCE),
    TRAINING: ("timing/train_reference_ms",),
    DEVICE_LATENCY: ("timing/reference_device_ms",),
    DEVICE_THROUGHPUT: ("timing/throughput_reference_device_ms",),
    DEVICE_TRAINING: ("timing/train_reference_device_ms",),
}
"""Metric of every launch -> its reference workload, the first recorded one."""

Key = TypeVar("Key", bound=Hashable)
History = dict[str, dict[int, float]]
"""Metric of a launch -> round -> value."""


def percent(log: float) -> float:
    """The change in percent that a log ratio is."""
    return 100 * math.expm1(log)


def percent_text(log: float) -> str:
    """A floor or margin that is a log ratio, as people read it: `4.7 %`, `239 %`."""
    return f"{percent(log):.2g} %" if percent(log) < 99.5 else f"{percent(log):,.0f} %"


def corrected(history: History, metric: str) -> dict[int, float]:
    """Round -> log of the measured value, divided by its reference workload; only rounds that have both."""
    reference = reference_of(history, metric)
    return {
        step: value + DRIFT[metric] * reference[step] for step, value in logs_of(history, metric).items() if step in reference
    }


def history_of(rounds: Iterable[tuple[int, Mapping[str, float]]]) -> History:
    """The history of launches, from the number and the values of each round."""
    history: History = {}
    for number, values in rounds:
        for name, value in values.items():
            history.setdefault(name, {})[number] = value
    return history


def logs_of(history: History, metric: str) -> dict[int, float]:
    """Round -> log of the measured value."""
    values = history.get(metric, {})
    return {step: math.log(values[step]) for step in sorted(values) if values[step] > 0}


def reference_of(history: History, metric: str) -> dict[int, float]:
    """Round -> log of the time of this metric's reference workload."""
    times = next((history[name] for name in REFERENCES[metric] if name in history), {})
    return {step: math.log(time) for step, time in times.items() if time > 0}


def merged(histories: Sequence[History]) -> History:
    """One history of the geometric means over all, of the rounds that all have; the first one where they share none."""
    first, *others = histories
    if not others:
        return first
    mean = dict(first)
    for name in {*DRIFT, *(reference for names in REFERENCES.values() for reference in names)} & set(first):
        each = [history.get(name, {}) for history in histories]
        shared = [step for step in first[name] if all(values.get(step, 0.0) > 0 for values in each)]
        if shared:
            mean[name] = {step: geometric_mean([values[step] for values in each]) for step in shared}
    return mean


def levels(metric: str, history: History, with_reference: bool, mean: float | None = None) -> dict[int, float]:
    """Round -> value; divided by its reference workload, and then such that the geometric mean of all is `mean`."""
    logs = corrected(history, metric) if with_reference else logs_of(history, metric)
    shift = math.log(mean) - fmean(logs.values()) if mean and logs else 0.0
    return {step: math.exp(value + shift) for step, value in logs.items()}


def summed_up(
    histories: Mapping[Key, History], pairs: Sequence[tuple[History, History]] = (), launched: Sequence[History] = ()
) -> dict[Key, dict[str, float]]:
    """Key of each history of a session -> metric of a launch -> its value, which every table and page shows.

    The geometric mean over rounds of what is compared: as measured, or as if the reference workload, where values are divided
    by it, had always taken the time that it took on average over all launches of the session (`launched`, by default those of
    the histories).
    """
    values: dict[Key, dict[str, float]] = {name: {} for name in histories}
    for metric in DRIFT:
        times = [time for history in launched or histories.values() for time in reference_of(history, metric).values()]
        with_reference = bool(times) and corrects(metric, pairs)
        typical = math.exp(-DRIFT[metric] * fmean(times)) if with_reference else 1.0
        for name, history in histories.items():
            if rounds := levels(metric, history, with_reference):
                values[name][metric] = typical * geometric_mean([*rounds.values()])
    return values


def differences(metric: str, before: History, after: History, with_reference: bool) -> dict[int, float]:
    """Round -> log(after / before), of shared rounds."""
    earlier, later = (corrected(history, metric) if with_reference else logs_of(history, metric) for history in (before, after))
    return {step: later[step] - earlier[step] for step in later if step in earlier}


def compared(metric: str, before: History, after: History, with_reference: bool = True) -> Difference | None:
    """The mean log(after / before) over shared rounds, judged by the t test alone; None without a shared round."""
    return of_rounds([*differences(metric, before, after, with_reference).values()])


def of_rounds(logs: Sequence[float]) -> Difference | None:
    """The mean of the log ratios of rounds; None without any."""
    return replace(of_differences(logs), p=None) if logs else None


def corrects(metric: str, pairs: Iterable[tuple[History, History]]) -> bool:
    """Whether a session's values of this metric are divided by the reference workload: of the wall clock where that lowers the
    scatter of its A/A replicates; not so where none has two rounds.
    """
    if metric in DEVICE_TIME.values():
        return True
    scatter = {True: 0.0, False: 0.0}
    for first, again in pairs:
        both = {use: list(differences(metric, first, again, use).values()) for use in scatter}
        if min(map(len, both.values())) < 2 or len(both[True]) != len(both[False]):
            continue
        for use, logs in both.items():
            scatter[use] += variance(logs)
    return scatter[True] < scatter[False]


def noise_floor(pair: Difference | None) -> float | None:
    """Largest log ratio in the interval of an A/A replicate; None where it has no interval."""
    return max(abs(end) for end in pair.interval) if pair and pair.interval else None


GROWTH = 1.5
"""Ratio of rounds between successive interim analyses."""


def looks(fewest: int, most: int) -> tuple[int, ...]:
    """The numbers of rounds after which a session may end: they are fixed before it begins."""
    numbers = [min(fewest, most)]
    while numbers[-1] < most:
        following = math.ceil(GROWTH * numbers[-1])
        numbers.append(following if GROWTH * following <= GROWTH**0.5 * most else most)
    return tuple(numbers)


def independent(number: int) -> float:
    """Effective number of independent interim analyses, all at the same level (Pocock, Biometrika 64, 1977).

    The values of a normal process after GROWTH times as many rounds have much in common: fitted to simulated boundaries of 2 to
    9 analyses, within 3 %.
    """
    return 1 + 0.57 * (number - 1)


def headlines(history: Container[str]) -> list[str]:
    """The metrics of a launch that verdicts are about: device time where there is one, else the wall clock."""
    return [name for wall, device in DEVICE_TIME.items() if (name := device if device in history else wall) in history]
