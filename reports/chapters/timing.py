"""Timings: the sessions, the noise floor that each one's A/A replicate gives, and what was not timed side by side."""

from collections.abc import Iterable, Iterator

from harness import by_launch, metrics
from harness.metrics import HIGHEST_FLOOR
from harness.paired import grouped
from reports.comparison import launches
from reports.comparison.compare import Study
from reports.comparison.launches import Pair, Series, Sessions, side_by_side
from reports.comparison.section import Section
from reports.writing import formats
from reports.writing.formats import DASH, Chapter, escape, listed

HEADING = "## Timings: sessions and noise floor"
INTRO = """\
Latency, throughput and training steps are compared by launch: in every round of a session each arm ran once in a process of
its own, in a new order, with a reference workload between its calls. A change is the mean over rounds of log(after / before),
against the mean of both timings of the baseline. Device time (the CPU time of the thread, or GPU time) is divided by that of
the reference, so that what a neighbour slows down cancels; the wall clock where that lowers the scatter of the A/A replicates
(column *reference*). The *A/A replicate* is a second timing of one arm; the *floor* is the larger end of the interval of its
change: one above {highest:.0f} % supports no verdict. A session ends once every comparison is decided, at one of few numbers of
rounds that were fixed before; p and intervals are corrected for these looks. Whole trainings are not interleaved: their times
and rates are paired by seed and must exceed both floors."""
SIDE_BY_SIDE = "run them in one command with the baseline, `python -m harness -m model=...,... sweep.retime=true`"
WALL = "latency, wall clock"


def chapter(study: Study) -> Chapter:
    """One row a session and A/A replicate; empty where no run was timed in a session."""
    sessions = study.comparison.sessions
    if not sessions.series:
        return Chapter()
    columns = {text: None for name in sessions.names for text in _compared(sessions, name)}
    heads = ["session", "rounds", "A/A replicate"]
    heads += [text for name in columns for text in (f"{name}, A/A change", f"{name} floor")]
    heads += ["reference", "launches beside other work", "reference, slowest over fastest"]
    lines = [line for name in sessions.names for line in _lines(sessions, name, columns)]
    sentences = [f"- {text}" for name in sessions.names for text in _sentences(sessions, name)]
    intro = INTRO.format(highest=by_launch.percent(HIGHEST_FLOOR))
    return Chapter([HEADING, intro, formats.table(heads, lines, left=3), *(["\n".join(sentences)] if sentences else [])])


def _compared(sessions: Sessions, name: str) -> dict[str, str]:
    """Column -> metric of a launch: of each quantity the one that verdicts are about, then what a user waits for."""
    measured = {metric for one in sessions.of(name) for metric in one.history}
    metrics_of = by_launch.headlines(measured)
    waited = {WALL: launches.LATENCY} if launches.LATENCY in measured.difference(metrics_of) else {}
    return {metrics.SHORT[metric]: metric for metric in metrics_of} | waited


def _lines(sessions: Sessions, name: str, columns: Iterable[str]) -> Iterator[list[str]]:
    here = sessions.of(name)
    rounds = {step for one in here for values in one.history.values() for step in values}
    drift = launches.drift_percent(one.history for one in here)
    ending = [_disturbed_share([shared[0] for shared in sessions.launched(name)]), formats.percent(drift)]
    for pair in sessions.pairs(name) or [None]:
        here_compared = _compared(sessions, name)
        measured = [text for column in columns for text in _measured(pair, here_compared.get(column))]
        of = escape(_name(sessions, pair.first)) if pair else DASH
        yield [escape(name), str(len(rounds)), of, *measured, _used(pair, here_compared), *ending]


def _used(pair: Pair | None, columns: dict[str, str]) -> str:
    """Which values are divided by their reference."""
    return ", ".join(text for text, launch in columns.items() if pair and launch in pair.corrected) or "not used"


def _name(sessions: Sessions, series: Series) -> str:
    """The arm, and its task where the session has several."""
    several = len({one.place for one in sessions.of(series.session)}) > 1
    return f"{series.label} on {series.place.task}" if several else series.label


def _measured(pair: Pair | None, launch: str | None) -> list[str]:
    """The change of an A/A replicate with its interval, and the floor."""
    ratio = pair.ratio(launch) if pair and launch else None
    if ratio is None:
        return [DASH, DASH]
    floor = launches.noise_floor(ratio)
    shown = formats.difference(ratio.percent, "%", ratio.percents)
    return [shown, DASH if floor is None else formats.value(by_launch.percent(floor), "%")]


def _disturbed_share(here: list[Series]) -> str:
    watched = sum(len(one.history.get(launches.FOREIGN_CPUS, {})) for one in here)
    return f"{sum(len(launches.disturbed(one.history)) for one in here)} of {watched}" if watched else DASH


def _sentences(sessions: Sessions, name: str) -> list[str]:
    """On launches that tasks share, on those that other work disturbed, and on a session without a floor."""
    groups = sessions.launched(name)
    several = [shared for shared in groups if len({one.place for one in shared}) > 1]
    notes = []
    if several:
        each = "; ".join(escape(_called(sessions, shared)) for shared in several)
        notes.append(f"Launched once for several tasks, session {escape(name)}: {each}. Their latency is one measurement.")
    disturbed = [(shared, rounds) for shared in groups if (rounds := launches.disturbed(shared[0].history))]
    if disturbed:
        each = "; ".join(f"{escape(_called(sessions, shared))} in round {_rounds(rounds)}" for shared, rounds in disturbed)
        notes.append(f"Measured beside other work (over {launches.FOREIGN_LIMIT} CPUs), session {escape(name)}: {each}.")
    return notes + _unknown(sessions, name)


def _called(sessions: Sessions, shared: list[Series]) -> str:
    """The arm of these launches, and its tasks where the session has several."""
    first, tasks = shared[0], ", ".join(dict.fromkeys(one.place.task for one in shared))
    name = f"{first.label} on {tasks}" if len({one.place for one in sessions.of(first.session)}) > 1 else first.label
    return name + (" (A/A replicate)" if first.is_aa_replicate else "")


def _rounds(rounds: list[int]) -> str:
    return ", ".join(str(number) for number in rounds)


def _unknown(sessions: Sessions, name: str) -> list[str]:
    columns = _compared(sessions, name).items()
    missing = [text for text, launch in columns if all(pair.floor(launch) is None for pair in sessions.pairs(name))]
    if not missing:
        return []
    why = "its A/A replicate shares fewer than two rounds" if sessions.pairs(name) else "it has no A/A replicate"
    return [f"No noise floor of {' and '.join(missing)} is known for session {escape(name)}: {why}."]


def notes(section: Section) -> list[str]:
    """Notes on rows whose timings have no verdict, or are compared with an A/A replicate of the baseline."""
    if section.before is None:
        return []
    apart, floorless, replicated = [], [], []
    for row in section.rows:
        if row is section.before or not any(row.values(name) for name in launches.JUDGED):
            continue
        pair = side_by_side(section.sessions, section.against(row))
        if pair is None:
            apart.append(row.label)
            continue
        session = pair[1].session
        compared = _compared(section.sessions, session).values()
        if any(section.sessions.floor(session, section.place, launch) is None for launch in compared):
            floorless.append((session, row.label))
        if pair[0].is_aa_replicate:
            replicated.append((session, row.label))
    sentences = [
        f"Not timed side by side with {escape(section.baseline)}: {listed(apart, most=None)}. Their changes of latency "
        f"and inference throughput have no verdict; {SIDE_BY_SIDE}."
    ]
    return [
        *sentences[: len(apart)],
        *(
            f"Session {escape(session)} has no noise floor (it needs an A/A replicate of two rounds or more): changes of "
            f"{listed(labels, most=None)} are shown with their interval and without a verdict."
            for session, labels in grouped(floorless).items()
        ),
        *(
            f"Latency and throughput of {listed(labels, most=None)} are compared with the A/A replicate of "
            f"{escape(section.baseline)} in session {escape(session)}."
            for session, labels in grouped(replicated).items()
        ),
    ]
