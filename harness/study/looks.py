"""Looks at the results of a sweep with `sweep.until=resolved`: seeds are added until the headline of every arm is resolved.

The numbers of seeds after which it looks are fixed before the first run (`by_launch.looks`). At a look `reports.after_look`
judges the finished runs as the report does, where each look has an equal part of the level: however a study ends, at most one
in twenty holds a false difference (`test_looks.py` of the reports simulates it). The runs carry the number of looks as a tag,
by which every later report corrects, too. All is read from the folders of the runs, so that the same command after a kill
decides the same again.
"""

import functools
from dataclasses import dataclass, replace
from statistics import fmean

from filelock import FileLock

from harness import paths, tags
from harness.comparison import by_launch
from harness.comparison.paired import LEVEL
from harness.config.choices import Until
from harness.metrics import FEWEST_REPLICATES
from harness.study import forecast, run_folder, tracked_study
from harness.study.plan import PlannedRun, not_needed
from harness.terminal import duration
from harness.tracking.run_log import Record
from harness.tracking.trackers import Backend, Trackers


@dataclass(frozen=True)
class Look:
    """What a look says: of each arm a text, and which are not resolved."""

    arms: dict[str, str]
    unresolved: list[str]


def parts(planned: list[PlannedRun]) -> dict[int, list[PlannedRun]]:
    """Number of seeds at each look -> the runs that it adds; all of them for a sweep that does not look."""
    trained = not_needed(planned)
    seeds = sorted({run.identity.seed for run in trained})
    if planned[0].config.sweep.until is Until.seeds:
        return {len(seeds): planned}
    given: set[int] = set()
    added: dict[int, list[PlannedRun]] = {}
    for end in by_launch.looks(FEWEST_REPLICATES, len(seeds)):
        own = [run for run in trained if run.identity.seed in seeds[:end]]
        kept = {id(run) for run in (*own, *(run.needs for run in own))} - given
        added[end] = [run for run in planned if id(run) in kept]
        given |= kept
    return added


def announced(planned: list[PlannedRun]) -> list[str]:
    """One line on when the sweep evaluates; none for one that does not."""
    numbers = list(parts(planned))
    if planned[0].config.sweep.until is Until.seeds:
        return []
    after, level = f"{', '.join(map(str, numbers))} seeds", f"{100 * LEVEL:.0f} %"
    return [f"adds seeds until every arm is resolved (sweep.until): looks after {after}, which share the level of {level}"]


def take(planned: list[PlannedRun], looks: int, trackers: Trackers) -> Look:
    """Marks these runs, which have ended, with the number of looks, and judges them. RuntimeError where that fails."""
    for run in planned:
        with FileLock(run.folder / paths.LOCK):
            record = run_folder.read(run.folder)
            if int(record["tags"].get(tags.SEED_LOOKS, 1)) < looks:
                record["tags"][tags.SEED_LOOKS] = str(looks)
                run_folder.write(run.folder, record)
                its_study = replace(run.config, study=record["tags"][tags.STUDY])  # that of the command that ran it
                trackers.send(its_study, functools.partial(_add, record, run))
    return Look(**tracked_study.judged(planned, headline=planned[0].config.sweep.headline))


def _add(record: Record, run: PlannedRun, backend: Backend) -> None:
    backend.add(record, run.folder, [])


def beyond_budget(planned: list[PlannedRun], following: list[PlannedRun]) -> str | None:
    """Why the following runs do not start, by the mean times of finished ones; None where sweep.budget_minutes holds them."""
    minutes = planned[0].config.sweep.budget_minutes
    if minutes is None:
        return None
    paces = {kind: pace.seconds for kind, pace in forecast.earlier({planned[0].config.output}).items()}
    typical = fmean(paces.values()) if paces else 0.0
    used, expected = (sum(paces.get(forecast.kind_of(run), typical) for run in runs) for runs in (planned, following))
    if used + expected <= 60 * minutes:
        return None
    return (
        f"{duration(used)} of sweep.budget_minutes={minutes:g} are used, and the next look takes about {duration(expected)}; "
        "a larger budget continues"
    )
