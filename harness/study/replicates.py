"""How many seeds a sweep has: within a budget of time, and until every arm is resolved.

Within a budget, a block is one task with one seed: all its arms, so that every arm of a comparison has the same seeds. First
come two blocks of every task. Each further one goes to the task where the 95 % interval of the *mean over all arms* is widest,
in units of the margin within which arms are the same. That mean does not depend on how arms differ: with normal noise it is
independent of every difference between them, so that the tests keep their level. A rule that looks at the differences does not:
where seeds go to the arm with the widest interval of its own difference, 6 to 10 % of families of equal arms are
called different.

With `sweep.until=resolved` seeds are added until the headline of every arm is resolved. The numbers of seeds after which it is
judged are fixed before the first run (`by_launch.looks`): interim analyses. At each, `reports.after_look` judges the finished
runs as the report does, with an equal part of the level: however a study ends, at most one in twenty holds a false difference
(`test_looks.py` of the reports simulates it). The runs carry the number of analyses as a tag, by which every later report
corrects, too. All is read from the folders of the runs, so that the same command after a kill decides the same again.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import methodcaller
from statistics import fmean, stdev

from filelock import FileLock

from harness import metrics, paths, tags
from harness.comparison import by_launch, paired
from harness.comparison.paired import LEVEL, Replicate, grouped, t_quantile
from harness.comparison.verdicts import margin_of
from harness.config.choices import Until
from harness.metrics import FEWEST_REPLICATES
from harness.study import forecast, run_folder, tracked_study
from harness.study.plan import PlannedRun, not_needed
from harness.terminal import counted, duration
from harness.tracking import run_log
from harness.tracking.trackers import Trackers

# Within a budget of time

FIRST = 2
"""Blocks of every task before any of them gets more."""

SCORE, LOSS = "eval/score", "pretrain/masked_loss"

Block = list[PlannedRun]


class Queue:
    """The runs of a command in the order in which they are started; one more is chosen when the last one has ended."""

    def __init__(self, planned: list[PlannedRun], clock: Callable[[], float] = time.monotonic) -> None:
        self._planned, self._clock = planned, clock
        sweep = planned[0].config.sweep
        is_whole = sweep.budget_minutes is None or sweep.until is Until.resolved  # which leaves out whole looks
        self._budget_s = math.inf if is_whole or sweep.budget_minutes is None else 60 * sweep.budget_minutes
        self._used_s = 0.0
        self._paces: dict[tuple[str, ...], list[float]] = {}
        self.left: list[PlannedRun] = []

    def __iter__(self) -> Iterator[PlannedRun]:
        """As planned without a budget; with one, `left` has what did not fit when the iteration ends."""
        if self._budget_s == math.inf:
            yield from self._planned
            return
        self._paces = {kind: [pace.seconds] for kind, pace in forecast.earlier({self._planned[0].config.output}).items()}
        waiting = blocks(self._planned)
        given: dict[str, list[Block]] = {task: [] for task in waiting}
        started: set[int] = set()
        while (task := self._next(waiting, given)) is not None:
            block = waiting[task].pop(0)
            for run in _with_needs(block):
                if id(run) not in started:
                    started.add(id(run))
                    yield from self._timed(run)
            given[task].append(block)
        self.left = sorted((run for run in self._planned if id(run) not in started), key=lambda run: run.place)

    def _timed(self, run: PlannedRun) -> Iterator[PlannedRun]:
        """Counts the time of a run, also of one that an earlier command finished."""
        was_done, began = forecast.is_done(run), self._clock()
        yield run
        took = self._clock() - began
        if was_done:
            self._used_s += self._expected(run)
        else:
            self._used_s += took
            self._paces.setdefault(forecast.kind_of(run), []).append(took)

    def _next(self, waiting: dict[str, list[Block]], given: dict[str, list[Block]]) -> str | None:
        """The task of the next block; None if none fits into the remaining budget."""
        unfinished = [task for task, blocks in waiting.items() if blocks]
        first = [task for task in unfinished if len(given[task]) < FIRST]
        if first:
            task = min(first, key=lambda task: len(given[task]))
            return task if self._used_s < self._budget_s or _is_finished(waiting[task][0]) else None
        fitting = [task for task in unfinished if self._fits(waiting[task][0])]
        return max(fitting, key=lambda task: (width(given[task]), -len(given[task])), default=None)

    def _fits(self, block: Block) -> bool:
        seconds = sum(self._expected(run) for run in _with_needs(block) if not forecast.is_done(run))
        return _is_finished(block) or (self._used_s < self._budget_s and self._used_s + seconds <= self._budget_s)

    def _expected(self, run: PlannedRun) -> float:
        """Mean seconds of its replicates so far; 0 without any."""
        return fmean(self._paces.get(forecast.kind_of(run), [0.0]))

    def summary(self) -> str | None:
        """One line on what did not run; None where everything did."""
        if not self.left:
            return None
        arms = list(dict.fromkeys(f"{run.config.label} on {run.identity.task}" for run in self.left))
        seeds = sorted({run.identity.seed for run in self.left})
        return (
            f"the budget of {duration(self._budget_s)} is used ({duration(self._used_s)}): {counted(len(self.left), 'run')} of "
            f"{len(self._planned)} did not run: {', '.join(arms)}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}; "
            "a larger sweep.budget_minutes continues"
        )


def blocks(planned: list[PlannedRun]) -> dict[str, list[Block]]:
    """Task -> its blocks, by the place of their first run; pretrainings that others need are no blocks of their own."""
    order = {id(run): number for number, run in enumerate(planned)}  # arms of a block in random order
    by_place = sorted(not_needed(planned), key=lambda run: run.place)
    tasks = grouped((run.identity.task, run) for run in by_place)
    return {
        task: [
            sorted(block, key=lambda run: order[id(run)])
            for block in grouped(((run.config.pretrain.seed, run.config.seed), run) for run in runs).values()
        ]
        for task, runs in tasks.items()
    }


def _with_needs(block: Block) -> Block:
    """Each run after the pretraining that it needs."""
    return [needed for run in block for needed in (run.needs, run) if needed is not None]


def _is_finished(block: Block) -> bool:
    return all(forecast.is_done(run) for run in block)


def width(given: list[Block]) -> float:
    """Half the interval of the mean over arms, over these blocks, in margins; infinite where it is not known."""
    name = LOSS if given and given[0][0].inputs.is_pretraining else SCORE
    results = [[run_log.finished(run.folder) for run in block] for block in given]
    scores = [[result["metrics"][name] for result in block if result and name in result["metrics"]] for block in results]
    means = [fmean(known) for known, block in zip(scores, given, strict=True) if len(known) == len(block)]
    if len(means) < 2:
        return math.inf
    size = margin_of(metrics.get(name).margin, fmean(means), False)
    return t_quantile(len(means) - 1) * stdev(means) / math.sqrt(len(means)) / size


# Until every arm is resolved


@dataclass(frozen=True)
class Look:
    """Result of an interim analysis: a text per arm, and the inconclusive arms."""

    arms: dict[str, str]
    unresolved: list[str]


def parts(planned: list[PlannedRun]) -> dict[int, list[PlannedRun]]:
    """Number of seeds at each interim analysis -> the runs that it adds; all of them for a sweep without any."""
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


def announced(planned: list[PlannedRun]) -> str:
    """One line on when a sweep that adds seeds evaluates."""
    after = f"interim analyses after {', '.join(map(str, parts(planned)))} seeds, at a joint level of {100 * LEVEL:.0f} %"
    return f"Adding seeds until every arm has a verdict (sweep.until): {after}"


def take(planned: list[PlannedRun], looks: int, trackers: Trackers) -> Look:
    """Marks these runs, which have ended, with the number of interim analyses, and judges them. RuntimeError where that
    fails.
    """
    for run in planned:
        with FileLock(run.folder / paths.LOCK):
            record = run_folder.read(run.folder)
            if int(record["tags"].get(tags.SEED_LOOKS, 1)) < looks:
                record["tags"][tags.SEED_LOOKS] = str(looks)
                run_folder.write(run.folder, record)
                its_study = replace(run.config, study=record["tags"][tags.STUDY])  # that of the command that ran it
                trackers.send(its_study, methodcaller("add", record, run.folder, []))
    return Look(**tracked_study.judged(planned, headline=planned[0].config.sweep.headline))


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
        f"{duration(used)} of sweep.budget_minutes={minutes:g} are used, the next analysis takes about {duration(expected)}; "
        "a larger budget continues"
    )


# What is compared

Arms = dict[str, list[PlannedRun]]
"""Label -> the runs of an arm on one task."""


def trained(planned: list[PlannedRun]) -> dict[str, Arms]:
    """Task -> its arms, of the tasks on which several are trained; pretrainings where nothing is fine-tuned."""
    own = [run for run in not_needed(planned) if run.inputs.is_pretraining or run.config.finetune.enabled]
    tasks = grouped((run.identity.task, run) for run in sorted(own, key=lambda run: run.place))
    arms = {task: grouped((run.config.label, run) for run in runs) for task, runs in tasks.items()}
    return {task: of_task for task, of_task in arms.items() if len(of_task) > 1}


def no_study(planned: list[PlannedRun]) -> str:
    """Why the plan alone is not a study; empty if it is, or if nothing is compared."""
    counts = [replicates_of(runs) for arms in trained(planned).values() for runs in arms.values()]
    text = paired.no_study(min(counts)) if counts else ""
    return text and f"{text} (seeds of earlier commands count)"


def replicates_of(runs: list[PlannedRun]) -> int:
    return paired.replicates(
        Replicate(str(run.config.pretrain.seed) if run.needs or run.inputs.is_pretraining else "", str(run.config.seed))
        for run in runs
    )
