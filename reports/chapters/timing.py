"""Timings: the sessions, the noise floor that each one's A/A replicate gives, and what was not timed side by side."""

import itertools
from collections.abc import Iterator

from harness import metrics
from harness.comparison import by_launch, launches
from harness.comparison.launches import SectionKey, Sessions
from harness.comparison.paired import grouped
from harness.comparison.runs import Run
from harness.comparison.section import Section
from harness.document import DASH, Cell
from harness.document import Section as Part
from harness.metrics import HIGHEST_FLOOR
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, bullets, escape, listed

HEADING = "Timings: sessions and noise floor"
INTRO = """\
Latency, throughput and training steps are compared by launch: in each round of a session, every arm runs once in its own
process, in random order, with a reference workload between its calls. A change is the mean over rounds of log(after / before),
relative to the mean of both timings of the baseline. Device time (CPU time of the thread, or GPU time) is divided by that of
the reference, which cancels slowdowns by other processes; wall-clock only if that reduces the A/A variance (*divided
by reference*). Values are geometric means over rounds; those divided are scaled to the mean reference time of the session. The
*A/A replicate* is a second timing of one arm. *Noise floor*: the upper confidence bound of the A/A difference; above
{highest:.0f} % it supports no verdict. A session ends once every comparison is decided, at one of a few predefined numbers
of rounds; p and intervals are corrected for sequential testing. Training runs are not interleaved: their wall-clock is
shown, not compared."""
SIDE_BY_SIDE = "run them in one command with the baseline, `python -m harness -m model=...,... sweep.retime=true`"
WALL = "latency, wall clock"


def chapter(study: Study) -> Chapter:
    """One row per session and A/A replicate; empty where no run was timed in a session."""
    sessions = study.comparison.sessions
    if not sessions.runs:
        return Chapter()
    heads = ["session", "rounds", "A/A replicate", "metric", "A/A change", "noise floor", "divided by reference"]
    heads += ["busy launches", "reference, slowest / fastest"]
    lines = dict.fromkeys(line for name in sessions.names for line in _lines(sessions, name))
    sentences = bullets(text for name in sessions.names for text in _busy(sessions, name))
    intro = INTRO.format(highest=by_launch.percent(HIGHEST_FLOOR))
    return Chapter([Part(HEADING, [intro, formats.table(heads, lines, left=4), *sentences])])


def _compared(sessions: Sessions, name: str) -> dict[str, str]:
    """Column -> metric of a launch: of each quantity the one that verdicts are about, then what a user waits for."""
    measured = {metric for run in sessions.of(name) for metric in run.launches}
    judged = by_launch.headlines(measured)
    waited = {WALL: launches.LATENCY} if launches.LATENCY in measured.difference(judged) else {}
    return {metrics.SHORT[metric]: metric for metric in judged} | waited


def _lines(sessions: Sessions, name: str) -> Iterator[tuple[Cell | str | int, ...]]:
    """Change of each A/A replicate in each metric, its floor, whether it is divided by the reference, and busy launches."""
    here, compared = sessions.of(name), _compared(sessions, name)
    rounds = {step for run in here for values in run.launches.values() for step in values}
    drift = launches.drift_percent(run.launches for run in here)
    histories = [shared[0].launches for shared in sessions.launched(name)]
    watched = sum(len(history.get(launches.FOREIGN_CPUS, {})) for history in histories)
    disturbed = f"{sum(len(launches.disturbed(history)) for history in histories)} of {watched}" if watched else DASH
    for pair, (column, launch) in itertools.product((*sessions.pairs(name),) or (None,), compared.items()):
        ratio = pair.ratio(launch) if pair else None
        floor = by_launch.noise_floor(ratio) if ratio else None
        ends = tuple(map(by_launch.percent, ratio.interval)) if ratio and ratio.interval else None
        change = by_launch.percent(ratio.mean) if ratio else None
        measured = DASH if change is None else Cell(formats.difference(change, "%", ends), change, "%")
        floor_cell = formats.cell(None if floor is None else by_launch.percent(floor), "%")
        divided = "yes" if pair and launch in pair.corrected else "no"
        alike = [run for run in here if pair and run.launches == pair.first.launches]  # of all tasks with these launches
        arm = escape(_name(sessions, alike)) if pair else DASH
        drifted = formats.percent_cell(drift)
        yield escape(name), len(rounds), arm, column, measured, floor_cell, divided, disturbed, drifted


def _name(sessions: Sessions, shared: list[Run]) -> str:
    """The arm of these launches, and its tasks where the session has several."""
    label, tasks = sessions.owners[shared[0].run_id][1], ", ".join(dict.fromkeys(run.task for run in shared))
    return f"{label} on {tasks}" if len(_places(sessions, sessions.of(shared[0].session))) > 1 else label


def _places(sessions: Sessions, runs: list[Run]) -> set[SectionKey]:
    return {sessions.owners[run.run_id][0] for run in runs}


def _busy(sessions: Sessions, name: str) -> Iterator[str]:
    """On launches on a busy machine."""
    disturbed = []
    for shared in sessions.launched(name):
        arm = escape(_name(sessions, shared) + " (A/A replicate)" * shared[0].is_aa_replicate)
        if rounds := launches.disturbed(shared[0].launches):
            is_all = len(rounds) == len(shared[0].launches[launches.FOREIGN_CPUS])
            disturbed.append(f"{arm} in {'every round' if is_all else 'round ' + ', '.join(map(str, rounds))}")
    if disturbed:
        where = f"(>{launches.FOREIGN_LIMIT} CPUs used by others), session {escape(name)}"
        yield f"Timed on a busy machine {where}: {'; '.join(disturbed)}."


def notes(section: Section) -> list[str]:
    """Notes on rows whose timings have no verdict, or are compared with an A/A replicate of the baseline."""
    if section.before is None:
        return []
    apart, floorless, replicated = [], [], []
    sessions = section.sessions
    for row in section.rows:
        pairing = section.against(row)
        if pairing is None or not any(row.values(name) for name in launches.JUDGED):
            continue
        if (pair := pairing.side_by_side()) is None:
            apart.append(row.label)
            continue
        session = pair[1].session
        floors = [sessions.floor(session, section.place, launch) for launch in _compared(sessions, session).values()]
        floorless += [(session, row.label)] if None in floors else []
        replicated += [(session, row.label)] if pair[0].is_aa_replicate else []
    sentences = []
    if apart:
        sentences.append(
            f"Not timed side by side with {escape(section.baseline)}: {listed(apart)}. Their changes in latency "
            f"and inference throughput have no verdict; {SIDE_BY_SIDE}."
        )
    sentences += [
        f"Session {escape(session)} has no noise floor (that needs an A/A replicate of two rounds or more): changes of "
        f"{listed(labels)} have an interval but no verdict."
        for session, labels in grouped(floorless).items()
    ]
    sentences += [
        f"Latency and throughput of {listed(labels)} are compared with the A/A replicate of "
        f"{escape(section.baseline)} in session {escape(session)}."
        for session, labels in grouped(replicated).items()
    ]
    return sentences
