"""Which launches belong together: the series of launches of every session, their A/A pairs, and changes judged by them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness import metrics
from harness.metrics import Direction
from reports import timing
from reports.changes import Change, Verdict, change
from reports.statistics import Spread, spread
from reports.store import Run
from reports.timing import History, Ratio


@dataclass(frozen=True)
class Series:
    """The launches of one variant in one session and section; all of its seeds were timed by these."""

    session: str
    place: tuple[str, str]  # task and protocol
    label: str
    run: Run

    @property
    def history(self) -> History:
        return self.run.launches

    @property
    def is_twin(self) -> bool:
        return self.run.is_twin


@dataclass(frozen=True)
class Pair:
    """One thing measured twice in a session."""

    first: Series
    second: Series

    def ratio(self, launch: str) -> Ratio | None:
        """Second over first, of one metric of a launch."""
        return timing.compared(launch, self.first.history, self.second.history)

    def floor(self, launch: str) -> float | None:
        """As a log ratio; None where fewer than two rounds are paired."""
        return timing.noise_floor(self.ratio(launch))


@dataclass(frozen=True)
class Sessions:
    """Every series of launches of a study, oldest first, twins and superseded runs among them."""

    series: tuple[Series, ...] = ()

    @property
    def names(self) -> list[str]:
        """Each session once, in order of beginning."""
        return list(dict.fromkeys(one.session for one in self.series))

    def of(self, session: str) -> list[Series]:
        """All that was launched in one session."""
        return [one for one in self.series if one.session == session]

    def pairs(self, session: str) -> list[Pair]:
        """What was measured twice in this session: a twin, and what it repeats (another twin where that is all there is)."""
        found: dict[tuple[tuple[str, str], str], list[Series]] = {}
        for one in self.of(session):
            found.setdefault((one.place, one.label), []).append(one)
        ordered = [sorted(group, key=lambda one: one.is_twin) for group in found.values()]
        return [Pair(group[0], group[-1]) for group in ordered if len(group) > 1 and group[-1].is_twin]

    def floor(self, session: str, place: tuple[str, str], launch: str) -> float | None:
        """Of a session, from the A/A pair of the same section or else its noisiest; None where it has none."""
        known = [
            (pair.first.place == place, floor) for pair in self.pairs(session) if (floor := pair.floor(launch)) is not None
        ]
        own = [floor for here, floor in known if here]
        return max(own or [floor for _, floor in known], default=None)


def gather(runs: Iterable[Run], labels: dict[str, str]) -> Sessions:
    """The series of runs given oldest first; seeds that were timed by the same launches give one."""
    found: list[Series] = []
    for run in runs:
        if run.session is None or not run.launches:
            continue
        one = Series(run.session, (run.tags["task"], run.tags[metrics.PROTOCOL_TAG]), labels[run.run_id], run)
        if not any(_same_launches(one, other) for other in found):
            found.append(one)
    return Sessions(tuple(found))


def _same_launches(one: Series, other: Series) -> bool:
    alike = (one.session, one.place, one.label, one.is_twin) == (other.session, other.place, other.label, other.is_twin)
    return alike and one.history == other.history


@dataclass(frozen=True)
class Rows:
    """Whose timings are compared: the runs that count of the baseline and of a variant, by seed, and where they stand."""

    place: tuple[str, str]
    baseline: str
    before: dict[str, Run]
    after: dict[str, Run]

    @property
    def measured(self) -> tuple[tuple[str, str], str]:
        """What a twin must repeat to stand in for the baseline."""
        return self.place, self.baseline


def is_timing(metric: str) -> bool:
    """Whether a session decides what may be said of this metric."""
    return metric in timing.JUDGED or metric in timing.SHOWN or metric in timing.GATED


def timed_change(sessions: Sessions, rows: Rows, metric: str) -> Change | None:
    """Of a timing; without launches side by side the number alone, None where there is none."""
    if metric in timing.GATED:
        return _gated(sessions, rows, metric)
    return (_judged(sessions, rows, metric) if metric in timing.JUDGED else None) or _number(rows, metric)


def side_by_side(sessions: Sessions, rows: Rows) -> tuple[Run, Run] | None:
    """Baseline and variant of the latest session that launched both; its twin stands in for a baseline timed elsewhere."""
    latest_first = [name for name in reversed(sessions.names) if any(run.session == name for run in rows.after.values())]
    for session in latest_first:
        after = [run for run in rows.after.values() if run.session == session and run.launches]
        before = [run for run in rows.before.values() if run.session == session and run.launches]
        before += [one.run for one in sessions.of(session) if one.is_twin and (one.place, one.label) == rows.measured]
        if before and after:
            return before[0], after[0]
    return None


def _judged(sessions: Sessions, rows: Rows, metric: str) -> Change | None:
    before, after = side_by_side(sessions, rows) or (None, None)
    launch = timing.JUDGED[metric]
    ratio = timing.compared(launch, before.launches, after.launches) if before else None
    if ratio is None:
        return None
    floor = sessions.floor(after.session, rows.place, launch)
    base = before.metrics.get(metric) or spread(list(before.launches[launch].values())).mean
    interval = tuple(base * end / 100 for end in ratio.percents) if ratio.percents else None
    verdict = timing.judged(metrics.get(metric).direction, ratio, floor)
    return Change(ratio.rounds, base, base * ratio.percent / 100, interval, None, verdict, _percent(floor), by_round=True)


def _percent(floor: float | None) -> float | None:
    return None if floor is None else timing.percent(floor)


def _number(rows: Rows, metric: str) -> Change | None:
    """How far two values stand apart that no launches hold together."""
    seen = change(metrics.get(metric), _values(rows.before, metric), _values(rows.after, metric))
    verdict = None if metrics.get(metric).direction is Direction.NEITHER else Verdict.OPEN
    return replace(seen, interval=None, p=None, verdict=verdict) if seen else None


def _values(runs: dict[str, Run], metric: str) -> dict[str, float]:
    return {seed: run.metrics[metric] for seed, run in runs.items() if metric in run.metrics}


def _gated(sessions: Sessions, rows: Rows, metric: str) -> Change | None:
    """Paired by seed; no verdict unless every session that timed these runs has a floor, and within noise under the highest."""
    seen = change(metrics.get(metric), _values(rows.before, metric), _values(rows.after, metric))
    if seen is None or seen.verdict is None:
        return seen
    launch = timing.GATED[metric]
    of_runs = dict.fromkeys(run.session for run in (*rows.before.values(), *rows.after.values()) if run.session)
    floors = [sessions.floor(session, rows.place, launch) for session in of_runs]
    if not floors or None in floors:
        return replace(seen, verdict=Verdict.OPEN)
    floor = timing.percent(max(floors))
    under = abs(seen.percent or 0) <= floor
    return replace(seen, floor=floor, verdict=Verdict.WITHIN_NOISE if under else seen.verdict)


def timed_spread(runs: Iterable[Run], metric: str) -> Spread | None:
    """Over launches where these were recorded, for seeds repeat them; of other timings one value a session.

    None where the metric is no timing by launches, so that seeds are what it spreads over.
    """
    timed = {run.session: run for run in runs if run.session is not None and run.launches and metric in run.metrics}
    if not timed or metric in timing.GATED or not is_timing(metric):
        return None
    told = spread([run.metrics[metric] for run in timed.values()])
    if metric not in timing.JUDGED:
        return told
    values = [value for run in timed.values() for value in run.launches.get(timing.JUDGED[metric], {}).values()]
    return replace(spread(values), mean=told.mean) if values else told
