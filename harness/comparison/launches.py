"""The sessions of timing of a study (`by_launch.py`): their series of launches, noise floors, and verdicts on changes.

How far the A/A replicate may differ from the baseline is the noise floor of the session: one above HIGHEST_FLOOR supports no
verdict. All else is decided by a t test over the rounds, at one interim analysis's share of the level: after several numbers of
rounds the session could have ended.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean
from typing import NamedTuple

from harness import metrics, tags
from harness.comparison import cached_method
from harness.comparison.by_launch import (
    DRIFT,
    REFERENCE,
    History,
    compared,
    corrects,
    independent,
    levels,
    merged,
    noise_floor,
    of_rounds,
    reference_of,
)
from harness.comparison.paired import (
    CLOCK,
    MOST_PAIRS,
    Difference,
    Spread,
    grouped,
    holm,
    scattered,
    spread,
)
from harness.comparison.runs import Run
from harness.comparison.verdicts import Evidence, Verdict, margin_of
from harness.metrics import Compared, Metric

FOREIGN_CPUS = metrics.LAUNCHES + "foreign_cpus"
LATENCY = metrics.LATENCY

JUDGED = metrics.COMPARED_BY
"""Timing of a run -> the same timing of every launch; only these are compared by launch."""

SHOWN = tuple(name for name, metric in metrics.METRICS.items() if metric.compared is Compared.SHOWN)
"""Timings of a run that are not recorded by launch: shown, never judged. Seeds share launches, so they are no replicates."""

SHARED = (*JUDGED, *SHOWN)
"""Timings of launches, which seeds share."""

OF_SEEDS = ("eval/", "model/")
"""Phases of what every seed has its own value of, whether or not a verdict is given on it."""

FOREIGN_LIMIT = 0.5
"""CPUs that others kept busy, above which the machine counts as busy."""


def over_sessions(by_session: Iterable[list[dict[int, float]]]) -> Difference | None:
    """Log ratios by round, averaged over the launches of each session; sessions are independent of one another."""
    parts = []
    for each in by_session:
        common = sorted(set.intersection(*map(set, each)))
        if part := of_rounds([fmean(launches[step] for launches in each) for step in common]):
            parts.append(part)
    if len(parts) < 2:
        return parts[0] if parts else None
    mean, rounds = fmean(part.mean for part in parts), sum(part.n for part in parts)
    squares = [(part.error / len(parts)) ** 2 for part in parts if part.error]
    if len(squares) < len(parts):
        return Difference(rounds, mean, None)
    freedom = sum(squares) ** 2 / sum(square**2 / part.freedom for square, part in zip(squares, parts, strict=True))
    return Difference(rounds, mean, math.sqrt(sum(squares)), None, freedom=freedom, independent=rounds)


def evidence(metric: Metric, difference: Difference, floor: float | None, looks: int = 1) -> Evidence:
    """The evidence on a timing by launch, from its log ratios."""
    margin, found = margin_of(metric.margin, 1.0, True), scattered(difference, CLOCK)
    return Evidence(metric.direction, found, margin, floor, ratio=True, timing=True, by_round=True, looks=independent(looks))


@dataclass(frozen=True)
class Table:
    """The comparisons of one session in one metric of a launch: a baseline that was timed twice, and other arms."""

    metric: str
    first: History
    again: History
    arms: tuple[History, ...]

    @property
    def floor(self) -> float | None:
        """The noise floor, as a log ratio; None for fewer than two rounds."""
        return noise_floor(self._compared(self.first, self.again))

    def undecided(self, number: int) -> list[int]:
        """Rounds that each comparison needs that is inconclusive after `number` interim analyses.

        The interim analyses share the level, which is their joint error. p is corrected for the arms of a
        table by Holm.
        """
        both, metric = merged([self.first, self.again]), metrics.get(self.metric)
        changes = [self._compared(both, arm) for arm in self.arms]
        tested = [evidence(metric, change, 0.0, number) for change in changes if change and change.interval]
        factors = holm([one.found.t_test_p() for one in tested])
        judged = [(one.verdict(factor), one.needed(factor)) for one, factor in zip(tested, factors, strict=True)]
        needed = [rounds or MOST_PAIRS + 1 for verdict, rounds in judged if verdict is Verdict.INCONCLUSIVE]
        return needed + [MOST_PAIRS + 1] * (len(self.arms) - len(tested))

    def _compared(self, before: History, after: History) -> Difference | None:
        return compared(self.metric, before, after, corrects(self.metric, [(self.first, self.again)]))


def disturbed(history: History) -> list[int]:
    """Rounds that were measured on a busy machine."""
    return [step for step, cpus in sorted(history.get(FOREIGN_CPUS, {}).items()) if cpus > FOREIGN_LIMIT]


def drift_percent(histories: Iterable[History]) -> float | None:
    """Percent by which the longest time of the reference workload exceeds the shortest; None where it never ran."""
    times = [time for history in histories for time in history.get(REFERENCE, {}).values() if time > 0]
    return 100 * (max(times) / min(times) - 1) if times else None


MEMORY_OF_LAUNCHES = metrics.LENGTHS + "peak_memory_bytes"
"""Memory of the longest texts of a launch: the only one that an A/A replicate measures."""


LAUNCH_SECONDS = "timing/launch_s"
"""Wall clock of every launch, with its process."""


class SectionKey(NamedTuple):
    """Task and conditions, which identify a section."""

    task: str
    conditions: str  # short hash


@dataclass(frozen=True)
class Pair:
    """One arm timed twice in a session; `corrected`: the metrics of a launch that are divided by the reference workload."""

    first: Run
    second: Run
    corrected: frozenset[str] = frozenset()

    def ratio(self, launch: str) -> Difference | None:
        """The ratio of the second timing to the first, of one metric of a launch."""
        return compared(launch, self.first.launches, self.second.launches, launch in self.corrected)

    def floor(self, launch: str) -> float | None:
        """The noise floor as a log ratio; None if fewer than two rounds are paired."""
        return noise_floor(self.ratio(launch))


@dataclass(frozen=True)
class Sessions:
    """Every series of launches of a study, oldest first, A/A replicates and superseded runs among them.

    Each is of one arm in one session and section: a run stands for all of its seeds, which were timed by the same launches.
    """

    runs: tuple[Run, ...] = ()
    owners: dict[str, tuple[SectionKey, str]] = field(default_factory=dict)  # run id -> section and label of its arm

    @property
    def names(self) -> list[str]:
        """Each session once, oldest first."""
        return list(self._by_session)

    def of(self, session: str) -> list[Run]:
        """All that was launched in one session."""
        return self._by_session.get(session, [])

    def replicates(self, session: str, place: SectionKey, label: str) -> list[Run]:
        """The A/A replicates of an arm in a session."""
        return [run for run in self.of(session) if run.is_aa_replicate and self.owners[run.run_id] == (place, label)]

    def launched(self, session: str) -> list[list[Run]]:
        """The runs of a session by launches: an arm with one shape on several tasks was launched once for all of them."""
        return list(grouped((_latencies(run) or run.run_id, run) for run in self.of(session)).values())

    @cached_method
    def pairs(self, session: str) -> list[Pair]:
        """What was timed twice in this session: an arm and its A/A replicate, or else two A/A replicates."""
        groups = grouped((self.owners[run.run_id], run) for run in self.of(session)).values()
        ordered = [sorted(group, key=lambda run: run.is_aa_replicate) for group in groups]
        both = [(group[0], group[-1]) for group in ordered if len(group) > 1 and group[-1].is_aa_replicate]
        corrected = frozenset(
            launch for launch in DRIFT if corrects(launch, [(one.launches, two.launches) for one, two in both])
        )
        return [Pair(first, again, corrected) for first, again in both]

    @cached_method
    def typical_reference(self, session: str, launch: str) -> float | None:
        """Mean log time of the reference workload, which values of this session are shown for; None where as measured."""
        helps = launch in metrics.DEVICE_TIME.values() or any(launch in pair.corrected for pair in self.pairs(session))
        logs = [time for run in self.of(session) for time in reference_of(run.launches, launch).values()] if helps else []
        return fmean(logs) if logs else None

    def history(self, run: Run) -> History:
        """The launches of a run; for an arm with an A/A replicate, the mean of both in every round."""
        again = self._again.get((run.session, self.owners[run.run_id][0], _latencies(run)), [])
        return merged([run.launches, *(replicate.launches for replicate in again if replicate.launches != run.launches)])

    def levels(self, run: Run, launch: str) -> dict[int, float]:
        """Round -> value as this session is compared: as measured, or as if the reference had always taken its typical time."""
        history, typical = self.history(run), self.typical_reference(run.session, launch)
        if tags.OF_SESSION in run.tags:
            of_run = next(name for name, of_launch in JUDGED.items() if of_launch == launch)
            return levels(launch, history, typical is not None, run.metrics.get(of_run))
        shift = math.exp(-DRIFT[launch] * (typical or 0.0))
        return {step: shift * value for step, value in levels(launch, history, typical is not None).items()}

    @cached_method
    def floor(self, session: str, place: SectionKey, launch: str) -> float | None:
        """Noise floor of a session: that of the A/A replicate in the same section, else the highest; None without any."""
        every = [(self.owners[pair.first.run_id][0], pair.floor(launch)) for pair in self.pairs(session)]
        known = [(where, floor) for where, floor in every if floor is not None]
        return max([floor for where, floor in known if where == place] or [floor for _, floor in known], default=None)

    def memory_floor(self, runs: Iterable[Run]) -> float | None:
        """Largest log ratio of the memory of an arm and its A/A replicate in these sessions; None if not measured twice."""
        pairs = [pair for session in {run.session for run in runs if run.session} for pair in self.pairs(session)]
        peaks = [[run.metrics.get(MEMORY_OF_LAUNCHES) for run in (pair.first, pair.second)] for pair in pairs]
        return max((abs(math.log(again / first)) for first, again in peaks if first and again), default=None)

    @functools.cached_property
    def _again(self) -> dict[tuple[str, SectionKey, frozenset[tuple[int, float]]], list[Run]]:
        """Session, section and latencies of an arm -> its A/A replicates: arms of one shape share their launches."""
        return {
            (run.session, self.owners[run.run_id][0], _latencies(run)): again
            for run in self.runs
            if (again := self.replicates(run.session, *self.owners[run.run_id]))
        }

    @functools.cached_property
    def _by_session(self) -> dict[str, list[Run]]:
        return grouped((run.session, run) for run in self.runs)


def _latencies(run: Run) -> frozenset[tuple[int, float]]:
    """Values of every round to the last digit: equal for the same launches, whatever the throughput was measured on."""
    return frozenset(run.launches.get(LATENCY, {}).items())


def gather(runs: list[Run], labels: dict[str, str], places: dict[str, SectionKey]) -> Sessions:
    """The series of runs, oldest first; seeds that were timed by the same launches give one. Labels, places: by run id."""
    owners = {run.run_id: (places[run.run_id], labels[run.run_id]) for run in runs}
    every: list[Run] = []
    series: dict[tuple[object, ...], list[History]] = {}
    for run in runs:
        others = series.setdefault((run.session, *owners[run.run_id], run.is_aa_replicate), [])
        if run.session and run.launches and run.launches not in others:
            every.append(run)
            others.append(run.launches)
    return Sessions(tuple(every), owners)


def timed_spread(sessions: Sessions, runs: Iterable[Run], metric: str) -> Spread | None:
    """The spread over launches, which seeds share, or over sessions for timings without values by launch.

    The mean is geometric, of values as they are compared. None for a metric that is not timed by launches, whose spread is
    over seeds.
    """
    timed = {run.session: run for run in runs if run.session and run.launches and metric in run.metrics}
    if not timed or metric not in SHARED or metric.startswith(OF_SEEDS):
        return None
    if metric in SHOWN:
        return spread([run.metrics[metric] for run in timed.values()])
    each = [sessions.levels(run, JUDGED[metric]) for run in timed.values()]
    by_session = [list(values.values()) or [run.metrics[metric]] for values, run in zip(each, timed.values(), strict=True)]
    over = spread([value for values in by_session for value in values])
    return replace(over, mean=geometric_mean([geometric_mean(values) for values in by_session]))
