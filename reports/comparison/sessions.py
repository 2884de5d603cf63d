"""Which launches belong together: the series of launches of every session, their A/A replicates, and changes judged by them."""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness import metrics
from harness.paired import Replicate, Spread, geometric_mean, spread
from reports.comparison import launches
from reports.comparison.launches import History, Ratio
from reports.comparison.remembered import remembered
from reports.reading.store import Run

MEMORY_OF_LAUNCHES = metrics.LENGTHS + "peak_memory_bytes"
"""Of the longest texts of a launch: the only memory that an A/A replicate measures."""


class Place(NamedTuple):
    """Which section it is."""

    task: str
    conditions: str  # short hash


@dataclass(frozen=True)
class Series:
    """The launches of one arm in one session and section; all of its seeds were timed by these."""

    session: str
    place: Place
    label: str
    run: Run

    @property
    def history(self) -> History:
        return self.run.launches

    @property
    def is_aa_replicate(self) -> bool:
        return self.run.is_aa_replicate


@dataclass(frozen=True)
class Pair:
    """One arm timed twice in a session; `corrected`: the metrics of a launch that are divided by the reference workload."""

    first: Series
    second: Series
    corrected: frozenset[str] = frozenset()

    def ratio(self, launch: str) -> Ratio | None:
        """Second over first, of one metric of a launch."""
        return launches.compared(launch, self.first.history, self.second.history, launch in self.corrected)

    def floor(self, launch: str) -> float | None:
        """As a log ratio; None where fewer than two rounds are paired."""
        return launches.noise_floor(self.ratio(launch))


@dataclass(frozen=True)
class Sessions:
    """Every series of launches of a study, oldest first, A/A replicates and superseded runs among them."""

    series: tuple[Series, ...] = ()
    owners: dict[str, tuple[Place, str]] = field(default_factory=dict)  # run id -> section and label of its arm

    @property
    def names(self) -> list[str]:
        """Each session once, oldest first."""
        return list(self._by_session)

    def of(self, session: str) -> list[Series]:
        """All that was launched in one session."""
        return self._by_session.get(session, [])

    def replicates(self, session: str, place: Place, label: str) -> list[Run]:
        """The A/A replicates of an arm in a session."""
        return self._replicates.get((session, place, label), [])

    def launched(self, session: str) -> list[list[Series]]:
        """The same by launches: an arm with one shape on several tasks was launched once for all of them."""
        found: dict[object, list[Series]] = {}
        for one in self.of(session):
            # latencies of every round to the last digit: whatever the throughput was measured on
            times = frozenset(one.history.get(launches.LATENCY, {}).items())
            found.setdefault(times or id(one), []).append(one)
        return list(found.values())

    @remembered
    def pairs(self, session: str) -> list[Pair]:
        """What was timed twice in this session: an arm and its A/A replicate, or else two A/A replicates."""
        found: dict[tuple[Place, str], list[Series]] = {}
        for one in self.of(session):
            found.setdefault((one.place, one.label), []).append(one)
        ordered = [sorted(group, key=lambda one: one.is_aa_replicate) for group in found.values()]
        both = [(group[0], group[-1]) for group in ordered if len(group) > 1 and group[-1].is_aa_replicate]
        histories = [(first.history, again.history) for first, again in both]
        corrected = frozenset(launch for launch in launches.DRIFT if launches.reference_helps(launch, histories))
        return [Pair(first, again, corrected) for first, again in both]

    @remembered
    def typical_reference(self, session: str, launch: str) -> float | None:
        """Log time of the reference workload that values of this session are shown for; None where they are as measured."""
        helps = any(launch in pair.corrected for pair in self.pairs(session))
        return launches.typical_reference(launch, (one.history for one in self.of(session))) if helps else None

    def history(self, run: Run) -> History:
        """The launches of a run; of an arm with an A/A replicate the mean of both in every round."""
        again = self.replicates(run.session, *self.owners[run.run_id])
        return launches.merged([run.launches, *(one.launches for one in again if one.launches != run.launches)])

    def levels(self, run: Run, launch: str) -> dict[int, float]:
        """Round -> value, on the basis on which this session is compared."""
        return launches.levels(launch, self.history(run), self.typical_reference(run.session, launch))

    @remembered
    def memory_floor_of(self, session: str) -> float | None:
        """Largest log ratio of the memory of an arm and its A/A replicate; None where it was not measured twice."""
        peaks = [[one.run.metrics.get(MEMORY_OF_LAUNCHES) for one in (pair.first, pair.second)] for pair in self.pairs(session)]
        return max((abs(math.log(again / first)) for first, again in peaks if first and again), default=None)

    def floor(self, session: str, place: Place, launch: str) -> float | None:
        """Noise floor of a session: of the A/A replicate in the same section, else the highest; None without any."""
        known = self._floors(session, launch)
        own = [floor for where, floor in known if where == place]
        return max(own or [floor for _, floor in known], default=None)

    def gating_floor(self, sides: Iterable["Rows"]) -> float | None:
        """What a training must exceed: the highest floor of the sessions of these runs, None unless each has one.

        Floors of time and throughput count alike: both say how long the same training took.
        """
        each = [[self.floor(name, side.place, launch) for name in side.sessions for launch in launches.DRIFT] for side in sides]
        return None if any(not floors or None in floors for floors in each) else max(map(max, each))

    def memory_floor(self, sides: Iterable["Rows"]) -> float | None:
        """The highest floor of the sessions of these runs, None where none is known."""
        floors = (self.memory_floor_of(name) for side in sides for name in side.sessions)
        return max((floor for floor in floors if floor is not None), default=None)

    @remembered
    def _floors(self, session: str, launch: str) -> list[tuple[Place, float]]:
        """Those that are known, and the sections of their arms."""
        floors = [(pair.first.place, pair.floor(launch)) for pair in self.pairs(session)]
        return [(where, floor) for where, floor in floors if floor is not None]

    @functools.cached_property
    def _by_session(self) -> dict[str, list[Series]]:
        found: dict[str, list[Series]] = {}
        for one in self.series:
            found.setdefault(one.session, []).append(one)
        return found

    @functools.cached_property
    def _replicates(self) -> dict[tuple[str, Place, str], list[Run]]:
        """(session, place, label) -> its A/A replicates."""
        found: dict[tuple[str, Place, str], list[Run]] = {}
        for one in self.series:
            if one.is_aa_replicate:
                found.setdefault((one.session, one.place, one.label), []).append(one.run)
        return found


def gather(runs: list[Run], labels: dict[str, str], places: dict[str, Place]) -> Sessions:
    """The series of runs, oldest first; seeds that were timed by the same launches give one. Labels, places: by run id."""
    found: list[Series] = []
    alike: dict[tuple[str, Place, str, bool], list[Series]] = {}
    for run in runs:
        if run.session is None or not run.launches:
            continue
        one = Series(run.session, places[run.run_id], labels[run.run_id], run)
        others = alike.setdefault((one.session, one.place, one.label, one.is_aa_replicate), [])
        if not any(one.history == other.history for other in others):
            found.append(one)
            others.append(one)
    return Sessions(tuple(found), {run.run_id: (places[run.run_id], labels[run.run_id]) for run in runs})


@dataclass(frozen=True)
class Rows:
    """Two rows whose timings are compared: the baseline's and an arm's runs, by replicate, and their section."""

    place: Place
    baseline: str
    before: dict[Replicate, Run]
    after: dict[Replicate, Run]

    @functools.cached_property
    def sessions(self) -> list[str]:
        """Each session of these runs once."""
        return list(dict.fromkeys(run.session for run in (*self.before.values(), *self.after.values()) if run.session))


def side_by_side(sessions: Sessions, rows: Rows) -> tuple[Run, Run] | None:
    """Baseline and arm of the latest session that launched both; its A/A replicate is taken for a baseline timed elsewhere."""
    latest_first = [name for name in reversed(sessions.names) if any(run.session == name for run in rows.after.values())]
    for session in latest_first:
        after = [run for run in rows.after.values() if run.session == session and run.launches]
        before = [run for run in rows.before.values() if run.session == session and run.launches]
        before += sessions.replicates(session, rows.place, rows.baseline)
        if before and after:
            return before[0], after[0]
    return None


def timed_spread(sessions: Sessions, runs: Iterable[Run], metric: str) -> Spread | None:
    """Over launches where these were recorded, for seeds repeat them; of other timings one value a session.

    The mean is geometric, of values on the basis of the comparison. None where the metric is no timing by launches, so that
    seeds are what it spreads over.
    """
    timed = {run.session: run for run in runs if run.session is not None and run.launches and metric in run.metrics}
    if not timed or metric not in launches.SHARED:
        return None
    if metric in launches.SHOWN:
        return spread([run.metrics[metric] for run in timed.values()])
    each = [sessions.levels(run, launches.JUDGED[metric]) for run in timed.values()]
    by_session = [list(values.values()) or [run.metrics[metric]] for values, run in zip(each, timed.values(), strict=True)]
    over = spread([value for values in by_session for value in values])
    return replace(over, mean=geometric_mean([geometric_mean(values) for values in by_session]))
