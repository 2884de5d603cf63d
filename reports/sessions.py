"""Which launches belong together: the series of launches of every session, their A/A replicates, and changes judged by them."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness import metrics
from harness.metrics import Direction
from harness.paired import Replicate, Spread, spread
from reports import launches
from reports.launches import History, Ratio
from reports.statistics import Change, Verdict, change
from reports.store import Run


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
    """One arm timed twice in a session."""

    first: Series
    second: Series

    def ratio(self, launch: str) -> Ratio | None:
        """Second over first, of one metric of a launch."""
        return launches.compared(launch, self.first.history, self.second.history)

    def floor(self, launch: str) -> float | None:
        """As a log ratio; None where fewer than two rounds are paired."""
        return launches.noise_floor(self.ratio(launch))


@dataclass(frozen=True)
class Sessions:
    """Every series of launches of a study, oldest first, A/A replicates and superseded runs among them."""

    series: tuple[Series, ...] = ()

    @property
    def names(self) -> list[str]:
        """Each session once, oldest first."""
        return list(dict.fromkeys(one.session for one in self.series))

    def of(self, session: str) -> list[Series]:
        """All that was launched in one session."""
        return [one for one in self.series if one.session == session]

    def launched(self, session: str) -> list[list[Series]]:
        """The same by launches: an arm with one shape on several tasks was launched once for all of them."""
        found: list[list[Series]] = []
        for one in self.of(session):
            shared = next((group for group in found if _same_latency(one, group[0])), None)
            if shared is None:
                found.append([one])
            else:
                shared.append(one)
        return found

    def pairs(self, session: str) -> list[Pair]:
        """What was timed twice in this session: an arm and its A/A replicate, or else two A/A replicates."""
        found: dict[tuple[Place, str], list[Series]] = {}
        for one in self.of(session):
            found.setdefault((one.place, one.label), []).append(one)
        ordered = [sorted(group, key=lambda one: one.is_aa_replicate) for group in found.values()]
        return [Pair(group[0], group[-1]) for group in ordered if len(group) > 1 and group[-1].is_aa_replicate]

    def floor(self, session: str, place: Place, launch: str) -> float | None:
        """Noise floor of a session: of the A/A replicate in the same section, else the highest; None without any."""
        if (session, launch) not in self._floors:
            floors = [(pair.first.place, pair.floor(launch)) for pair in self.pairs(session)]
            self._floors[session, launch] = [(where, floor) for where, floor in floors if floor is not None]
        known = self._floors[session, launch]
        own = [floor for where, floor in known if where == place]
        return max(own or [floor for _, floor in known], default=None)

    @functools.cached_property
    def _floors(self) -> dict[tuple[str, str], list[tuple[Place, float]]]:
        """(session, metric of a launch) -> floors and their places, each computed when it is first read."""
        return {}


def gather(runs: Iterable[Run], labels: dict[str, str], places: dict[str, Place]) -> Sessions:
    """The series of runs, oldest first; seeds that were timed by the same launches give one. Labels, places: by run id."""
    found: list[Series] = []
    for run in runs:
        if run.session is None or not run.launches:
            continue
        one = Series(run.session, places[run.run_id], labels[run.run_id], run)
        if not any(_same_launches(one, other) for other in found):
            found.append(one)
    return Sessions(tuple(found))


def _same_latency(one: Series, other: Series) -> bool:
    """Of every round to the last digit: the launches are the same, whatever their throughput was measured on."""
    times = [series.history.get(launches.LATENCY, {}) for series in (one, other)]
    return bool(times[0]) and times[0] == times[1]


def _same_launches(one: Series, other: Series) -> bool:
    alike = (one.session, one.place, one.label, one.is_aa_replicate) == (
        other.session,
        other.place,
        other.label,
        other.is_aa_replicate,
    )
    return alike and one.history == other.history


@dataclass(frozen=True)
class Rows:
    """Two rows whose timings are compared: the baseline's and an arm's runs, by replicate, and their section."""

    place: Place
    baseline: str
    before: dict[Replicate, Run]
    after: dict[Replicate, Run]

    @property
    def measured(self) -> tuple[Place, str]:
        """What an A/A replicate must repeat to be taken for the baseline."""
        return self.place, self.baseline


def is_timing(metric: str) -> bool:
    """Whether this metric is a timing, which is judged by its session."""
    return metric in launches.JUDGED or metric in launches.SHOWN or metric in launches.GATED


def timed_change(sessions: Sessions, rows: Rows, metric: str) -> Change | None:
    """Of a timing; without launches side by side the number alone, None where there is none."""
    if metric in launches.GATED:
        return _gated(sessions, rows, metric)
    return (_judged(sessions, rows, metric) if metric in launches.JUDGED else None) or _number(rows, metric)


def side_by_side(sessions: Sessions, rows: Rows) -> tuple[Run, Run] | None:
    """Baseline and arm of the latest session that launched both; its A/A replicate is taken for a baseline timed elsewhere."""
    latest_first = [name for name in reversed(sessions.names) if any(run.session == name for run in rows.after.values())]
    for session in latest_first:
        after = [run for run in rows.after.values() if run.session == session and run.launches]
        before = [run for run in rows.before.values() if run.session == session and run.launches]
        before += [one.run for one in sessions.of(session) if one.is_aa_replicate and (one.place, one.label) == rows.measured]
        if before and after:
            return before[0], after[0]
    return None


def _judged(sessions: Sessions, rows: Rows, metric: str) -> Change | None:
    before, after = side_by_side(sessions, rows) or (None, None)
    launch = launches.JUDGED[metric]
    ratio = launches.compared(launch, before.launches, after.launches) if before else None
    if ratio is None:
        return None
    floor = sessions.floor(after.session, rows.place, launch)
    base = before.metrics.get(metric) or spread(list(before.launches[launch].values())).mean
    interval = tuple(base * end / 100 for end in ratio.percents) if ratio.percents else None
    verdict = launches.judged(metrics.get(metric).direction, ratio, floor)
    return Change(ratio.rounds, base, base * ratio.percent / 100, interval, None, verdict, _percent(floor), by_round=True)


def _percent(floor: float | None) -> float | None:
    return None if floor is None else launches.percent(floor)


def _number(rows: Rows, metric: str) -> Change | None:
    """The difference of two values that were not launched side by side."""
    found = change(metrics.get(metric), _values(rows.before, metric), _values(rows.after, metric))
    verdict = None if metrics.get(metric).direction is Direction.NEITHER else Verdict.OPEN
    return replace(found, interval=None, p=None, verdict=verdict) if found else None


def _values(runs: dict[Replicate, Run], metric: str) -> dict[Replicate, float]:
    return {replicate: run.metrics[metric] for replicate, run in runs.items() if metric in run.metrics}


def _gated(sessions: Sessions, rows: Rows, metric: str) -> Change | None:
    """Paired by seed; no verdict unless every session of these runs has a floor, within noise below the highest of them."""
    found = change(metrics.get(metric), _values(rows.before, metric), _values(rows.after, metric))
    if found is None or found.verdict is None:
        return found
    launch = launches.GATED[metric]
    of_runs = dict.fromkeys(run.session for run in (*rows.before.values(), *rows.after.values()) if run.session)
    floors = [sessions.floor(session, rows.place, launch) for session in of_runs]
    if not floors or None in floors:
        return replace(found, verdict=Verdict.OPEN)
    floor = launches.percent(max(floors))
    under = abs(found.percent or 0) <= floor
    return replace(found, floor=floor, verdict=Verdict.WITHIN_NOISE if under else found.verdict)


def timed_spread(runs: Iterable[Run], metric: str) -> Spread | None:
    """Over launches where these were recorded, for seeds repeat them; of other timings one value a session.

    None where the metric is no timing by launches, so that seeds are what it spreads over.
    """
    timed = {run.session: run for run in runs if run.session is not None and run.launches and metric in run.metrics}
    if not timed or metric in launches.GATED or not is_timing(metric):
        return None
    of_sessions = spread([run.metrics[metric] for run in timed.values()])
    if metric not in launches.JUDGED:
        return of_sessions
    values = [value for run in timed.values() for value in run.launches.get(launches.JUDGED[metric], {}).values()]
    return replace(spread(values), mean=of_sessions.mean) if values else of_sessions
