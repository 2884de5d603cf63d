"""What is compared: the runs of an arm on one task under the same conditions, and its change against the baseline."""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean

from harness import metrics
from harness.comparison import arms, by_launch, cached_method, comparable, items, launches, paired
from harness.comparison.items import Errors, ErrorsOf, Paired, no_errors
from harness.comparison.launches import SectionKey, Sessions
from harness.comparison.paired import Design, Replicate, Spread, Tells, Values, by_pretraining, pair, spread
from harness.comparison.plateau import LOSS, SHARE
from harness.comparison.runs import Run
from harness.comparison.verdicts import APART, Change, Verdict, change, corrected, counted_change, difference_alone, of_evidence
from harness.metrics import PER_BYTE, Compared, Direction, Metric, has_one_vocabulary

HEADLINE, MAJORITY = "eval/score", "eval/majority_score"
"""The headline score of a task, and that of the majority baseline."""
FREQUENCIES = "eval/unigram_score"
"""Score of the corpus's word frequencies alone."""
ACCURACY, UNIGRAM = "pretrain/masked_accuracy", "pretrain/unigram_entropy"
EXAMPLES = "eval/examples"
CONSTANTS = {HEADLINE: MAJORITY, LOSS: UNIGRAM}
"""Metric -> that of the majority baseline."""
CURVES = {
    f"{phase}/{name}"
    for phase in ("finetune", "pretrain")
    for name in ("loss", "learning_rate", "gradient_norm", "gradient_spread")
}
"""Curves by step: their last value is that of one batch, no result of a run."""
SERIES = (metrics.LENGTHS, metrics.LAUNCHES, metrics.BATCHES)
"""Phases whose steps are lengths, launches or batch sizes: their last value does not represent the others."""

RESULTS = tuple(name for name in metrics.METRICS if name not in CURVES and not name.startswith(SERIES))
"""Metrics whose last value is a result of the run."""


def results_of(runs: Iterable[Run]) -> list[str]:
    """Metrics that are results of these runs: all of this tool, and those of other tools that one of them has."""
    return [*RESULTS, *dict.fromkeys(name for run in runs for name in run.metrics if name.startswith(metrics.OF_OTHERS))]


@dataclass(frozen=True, eq=False)  # a row is compared, and hashed, as itself
class Row:
    """The finished runs of one arm in one section, by replicate."""

    label: str
    by_replicate: dict[Replicate, Run]
    superseded: tuple[Run, ...] = ()  # older runs of the same replicates
    sessions: Sessions = field(default_factory=Sessions)  # of the whole study

    @functools.cached_property
    def runs(self) -> list[Run]:
        return list(self.by_replicate.values())

    @property
    def first(self) -> Run:
        """A run, for what all runs of the arm share."""
        return self.runs[0]

    @cached_method
    def values(self, metric: str) -> Values:
        """Value of every replicate that has one."""
        return {run.replicate: run.metrics[metric] for run in self.runs if metric in run.metrics}

    @cached_method
    def spread(self, metric: str) -> Spread | None:
        """The spread over replicates, or over launches for timings by launch; None if no run has the metric.

        The mean is geometric if changes are ratios.
        """
        values = list(self.values(metric).values())
        if not values:
            return None
        timed = launches.timed_spread(self.sessions, self.runs, metric)
        if timed:
            return timed
        means = by_pretraining(self.values(metric))  # of each pretraining, as a change weighs them
        ratio = metrics.get(metric).by_ratio and min(values) > 0
        return replace(spread(values), mean=geometric_mean(means) if ratio else fmean(means))

    def constants(self, metric: str) -> list[float]:
        """Scores of the majority baseline, one per replicate that recorded it; empty if the metric has none."""
        return list(self.values(CONSTANTS[metric]).values()) if metric in CONSTANTS else []

    @property
    def item(self) -> float | None:
        """1 over the number of validation items: the change of a score by one item; None if unknown."""
        counts = [run.metrics[EXAMPLES] for run in self.runs if EXAMPLES in run.metrics]
        return 1 / min(counts) if counts else None

    def mean(self, metric: str) -> float | None:
        """The mean of `spread`; None if no run has the metric."""
        spread = self.spread(metric)
        return spread.mean if spread else None


@dataclass(frozen=True)
class Section:
    """All that may be compared: one task under the same conditions, the baseline's row first where it exists."""

    place: SectionKey
    name: str  # the task, and its conditions where the task has several
    facts: arms.Facts  # the conditions themselves
    baseline: str
    rows: tuple[Row, ...]
    sessions: Sessions  # of the whole study
    errors: ErrorsOf = no_errors  # of single items

    @property
    def task(self) -> str:
        return self.place.task

    @property
    def conditions(self) -> str:
        """Short hash of the conditions."""
        return self.place.conditions

    @functools.cached_property
    def runs(self) -> list[Run]:
        return [run for row in self.rows for run in row.runs]

    @property
    def superseded(self) -> list[Run]:
        """Runs that a newer run of the same arm and seeds replaces."""
        return [run for row in self.rows for run in row.superseded]

    @property
    def is_pretraining(self) -> bool:
        return self.runs[0].is_pretraining

    @functools.cached_property
    def design(self) -> Design:
        """What repeats."""
        return design_of(self.runs)

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether losses per token are comparable."""
        return has_one_vocabulary(run.params for run in self.runs)

    @property
    def before(self) -> Row | None:
        """The baseline's row."""
        return self.row_of(self.baseline)

    def row_of(self, label: str) -> Row | None:
        """The arm's row; None without a run here."""
        return self.by_label.get(label)

    @functools.cached_property
    def by_label(self) -> dict[str, Row]:
        """Label -> row."""
        return {row.label: row for row in self.rows}

    @property
    def headline(self) -> str | None:
        """Name of the task's headline score; None where no run says it."""
        return next((run.params["task.headline"] for run in self.runs if "task.headline" in run.params), None)

    def change(self, row: Row, metric: str) -> Change | None:
        """The change from the baseline; None for the baseline itself, or if nothing can be paired.

        The rows of the section are one family of tests.
        """
        return self._changes(metric).get(row.label)

    @cached_method
    def _changes(self, metric: str) -> dict[str, Change | None]:
        return corrected({row.label: self.single_change(row, metric) for row in self.rows})

    @cached_method
    def pairing(self, before: Row, after: Row) -> "Pairing":
        """The pairing of any two arms."""
        return Pairing(self, before, after)

    def against(self, row: Row) -> "Pairing | None":
        """The pairing of the baseline with this arm; None for the baseline itself, or without one."""
        return None if self.before is None or self.before is row else self.pairing(self.before, row)

    def single_change(self, row: Row, name: str) -> Change | None:
        """The change, uncorrected for several tests; without a verdict for a timing that was not launched side by side."""
        pairing = self.against(row)
        if pairing is None:
            return None
        change = change_over([pairing], name)
        return pairing.untimed(name) if change is None and name in launches.SHARED else change

    def rows_of(self, row: Row, name: str) -> float | None:
        """As many rows as a score counts as by its scatter over the items, mean over the arm's runs; None where unknown."""
        counts = [count for run in row.runs if (count := paired.rows_of(run.metrics, self.kind_of(name)))]
        return fmean(counts) if counts else None

    def kind_of(self, name: str) -> str | None:
        """The task's name of a score; for the headline, that of this task's headline score."""
        return self.headline if name == HEADLINE else name.rpartition("/")[2]

    @cached_method
    def errors_of_both(self, label: str) -> Paired | None:
        """Errors of the baseline and an arm on the same items; None for the baseline itself and without predictions."""
        pairing = self.against(self.by_label[label])
        return pairing.errors if pairing else None

    @cached_method
    def errors_before(self, row: Row, replicate: Replicate) -> Errors | None:
        """Errors of the baseline's row, read once for all arms."""
        return self.errors(row.by_replicate[replicate])

    def beats_constant(self, row: Row, name: str) -> bool | None:
        """Whether a score is shown to be better than the majority baseline; None where that is unknown."""
        values, constants, rows = by_pretraining(row.values(name)), row.constants(name), self.rows_of(row, name)
        if not values or not constants or name != HEADLINE:
            return None
        error = paired.item_error(fmean(values), rows, self.kind_of(name)) if rows else 0.0
        return paired.beats_constant(values, fmean(constants), item=error)


@dataclass(frozen=True, eq=False)
class Pairing:
    """Two arms of a section, usually the baseline and another."""

    section: Section
    before: Row
    after: Row

    @property
    def sides(self) -> tuple[Row, Row]:
        return self.before, self.after

    @property
    def runs(self) -> list[Run]:
        return [*self.before.runs, *self.after.runs]

    def side_by_side(self) -> tuple[Run, Run] | None:
        """Timings of the latest session that launched both; an A/A replicate stands for a baseline timed elsewhere."""
        section, own = self.section, {run.session for run in self.runs}
        for session in [name for name in reversed(section.sessions.names) if name in own]:
            before, after = ([run for run in side.runs if run.session == session and run.launches] for side in self.sides)
            if self.before is section.before:
                before += section.sessions.replicates(session, section.place, section.baseline)
            if before and after:
                return before[0], after[0]
        return None

    def untimed(self, name: str) -> Change | None:
        """The change of a timing that was not launched side by side, without a verdict."""
        metric = metrics.get(name)
        first, second = (launches.timed_spread(side.sessions, side.runs, name) for side in self.sides)
        verdict = None if metric.direction is Direction.NEITHER else Verdict.OPEN
        if first and second:
            return difference_alone(first, second, verdict)
        unpaired = change(metric, self.before.values(name), self.after.values(name))
        return Change(unpaired.n, unpaired.baseline_mean, unpaired.absolute, None, verdict, reason=APART) if unpaired else None

    @property
    def item(self) -> float | None:
        """The larger `item` of both sides."""
        return max((item for side in self.sides if (item := side.item)), default=None)

    @property
    def errors(self) -> Paired | None:
        """Errors of both on the same items; None without predictions. Section.errors_of_both keeps those of the baseline."""
        pairs = pair(self.before.by_replicate, self.after.by_replicate)[: 2 * items.MOST_PAIRS]  # some may be gone
        section, after = self.section, self.after.by_replicate
        return items.of_both((section.errors_before(self.before, mine), section.errors(after[other])) for mine, other in pairs)

    @cached_method
    def items_error(self, name: str) -> float:
        """Standard error of the change of a score over the validation items; 0 where their number is unknown."""
        means = [mean for side in self.sides if (mean := side.mean(name)) is not None]
        if not metrics.get(name).is_score or self.item is None or len(means) < 2:
            return 0.0
        is_baseline, score = self.before is self.section.before, self.section.kind_of(name)
        both = self.section.errors_of_both(self.after.label) if is_baseline else self.errors
        if both and (error := both.error_of(score)) is not None:
            return error
        counts = [self.section.rows_of(side, name) or 1 / self.item for side in self.sides]
        apart = both.share_apart if both else 1.0  # the largest that it is
        return paired.items_error(means[0], means[1], counts, score, apart)

    def tells(self, name: str, margin: float | None = None) -> Tells:
        """What the task can say of both in a score, or the held-out text in a masked loss; `margin` is of a score."""
        metric, (before, after) = metrics.get(name), [by_pretraining(side.values(name)) for side in self.sides]
        if before and after and name in (LOSS, PER_BYTE[LOSS]):
            # a masked loss may be that of word frequencies; a probe's says nothing of what the encoder has learned
            losses = [(by_pretraining(side.values(LOSS)), side.constants(LOSS)) for side in self.sides]
            learned = [not all(own) or fmean(own[0]) <= SHARE * fmean(own[1]) for own in losses]
            return Tells.EVERYTHING if any(learned) or comparable.have_probes(self.runs) else Tells.NOTHING
        if not before or not after or metric.unit != "score":
            return Tells.EVERYTHING
        if name != HEADLINE and self.tells(HEADLINE) is Tells.NOTHING:
            return Tells.NOTHING
        constants = [constant for side in self.sides for constant in side.constants(name)]
        counts = [self.section.rows_of(side, name) for side in self.sides]
        size = metric.margin.size if margin is None else margin
        return paired.tells(before, after, fmean(constants) if constants else None, size, counts, self.section.kind_of(name))

    @property
    def seconds(self) -> float | None:
        """Seconds that one more pair of trainings takes; None if unknown, or if it needs a pretraining too."""
        is_pretraining = self.section.is_pretraining
        means = [side.mean("pretrain/duration_s" if is_pretraining else "finetune/duration_s") for side in self.sides]
        pretrained = any(run.replicate.pretrain_seed for run in self.after.runs) and not is_pretraining
        return None if pretrained else total(means)


def design_of(runs: Iterable[Run]) -> Design:
    """What repeats in a comparison of these runs: seeds, unless all agree in something else."""
    designs = {run.design for run in runs}
    return designs.pop() if len(designs) == 1 else Design.SEEDS


def total(values: Iterable[float | None]) -> float | None:
    """The sum; None where one of them is unknown."""
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def change_over(
    pairings: Sequence[Pairing], name: str, design: Design | None = None, values: Sequence[Values] | None = None
) -> Change | None:
    """The change of an arm in a metric over tasks, as if it were the only test.

    Means over tasks are taken for every replicate, or round of launches, before anything is compared. `design`: what repeats,
    in place of what the section says; over tasks, each one's mean over seeds is a value, whose scatter includes that of seeds
    and items. `values`: the means of both arms, where they are taken. None where nothing can be paired, for timings that were
    not launched side by side, and for what the clock of each training says alone.
    """
    metric = metrics.get(name)
    if metric.compared is Compared.OWN_CLOCK:
        return None
    if name in launches.SHARED:
        return _change_by_launch(pairings, metric) if name in launches.JUDGED else None
    rows = ([pairing.before for pairing in pairings], [pairing.after for pairing in pairings])
    each = [[row.values(name) for row in of_side] for of_side in rows]
    if metric.deterministic:  # sizes may differ by task in the head and the vocabulary
        numbers = [len(values) for of_side in each for values in of_side]
        if not all(numbers):
            return None
        means = [fmean(fmean(values.values()) for values in of_side) for of_side in each]
        return counted_change(metric, min(numbers), means[0], means[1])
    logs = metric.by_ratio and all(value > 0 for of_side in each for values in of_side for value in values.values())
    runs = [[run for row in of_side for run in row.runs] for of_side in rows]
    floor = None
    if metric.is_score:
        one_each = [pairing.item for pairing in pairings if pairing.item]
        floor = fmean(one_each) if one_each else None  # one item in every task
    elif metric.unit == "bytes":
        floor = pairings[0].section.sessions.memory_floor([*runs[0], *runs[1]])
    design = design or design_of(run for pairing in pairings for run in pairing.runs)
    of_replicates = by_task if design is Design.TASKS else over_tasks
    before, after = values or (of_replicates(of_side, logs) for of_side in each)
    first = runs[0][0]
    result = change(
        metric,
        before,
        after,
        floor,
        reached=first.is_pretraining and first.setting("pretrain.seconds") is not None,
        items=0.0 if design is Design.TASKS else paired.over_tasks([pairing.items_error(name) for pairing in pairings]),
        tells=paired.tells_of_tasks([pairing.tells(name) for pairing in pairings]),
        looks=max(run.seed_looks for of_side in runs for run in of_side),
        design=design,
        count=total(pairing.item and 1 / pairing.item for pairing in pairings),
    )
    if result is None:
        return None
    if reason := comparable.why_not(name, *runs):
        result = Change(result.n, result.baseline_mean, result.absolute, None, Verdict.OPEN, reason=reason)
    return replace(result, seconds=total(pairing.seconds for pairing in pairings))


def over_tasks(tasks: Sequence[Values], logs: bool) -> Values:
    """Mean over tasks, geometric if `logs`, of every replicate that has all of them; what no seed changes, every one has."""
    if len(tasks) == 1:
        return tasks[0]
    mean = geometric_mean if logs else fmean
    each = paired.with_seeds(tasks)
    shared = [replicate for replicate in each[0] if all(replicate in values for values in each)]
    return {replicate: mean([values[replicate] for values in each]) for replicate in shared}


def by_task(tasks: Sequence[Values], logs: bool) -> Values:
    """Mean over replicates, geometric if `logs`, of every task, each as a replicate."""
    mean = geometric_mean if logs else fmean
    return {Replicate("", str(place)): mean(list(values.values())) for place, values in enumerate(tasks) if values}


def _change_by_launch(pairings: Sequence[Pairing], metric: Metric) -> Change | None:
    """Log ratios by round, averaged over the launches of each session; sessions are independent of one another."""
    launch, timed = launches.JUDGED[metric.name], pairings[0].section.sessions
    by_session: dict[str, list[dict[int, float]]] = {}
    bases: list[float] = []
    floors: list[float | None] = []
    for pairing in pairings:
        if (both := pairing.side_by_side()) is None:
            continue
        before, after = both
        with_reference = timed.typical_reference(after.session, launch) is not None
        logs = by_launch.differences(launch, timed.history(before), timed.history(after), with_reference)
        of_session = by_session.setdefault(after.session, [])
        if logs and logs not in of_session:  # tasks of one shape share their launches
            of_session.append(logs)
            bases.append(geometric_mean(list(timed.levels(before, launch).values())))
        floors.append(timed.floor(after.session, pairing.section.place, launch))
    difference = launches.over_sessions([logs for logs in by_session.values() if logs])
    if difference is None:
        return None
    looks = max(run.looks for pairing in pairings for run in pairing.after.runs)
    known = [floor for floor in floors if floor is not None]
    judged = launches.evidence(metric, difference, max(known) if len(known) == len(floors) else None, looks)
    *_, newest = (session for session in timed.names if by_session.get(session))
    base = bases[0] if len(bases) == 1 else geometric_mean(bases)
    started = [histories[0].launches.get(launches.LAUNCH_SECONDS, {}).values() for histories in timed.launched(newest)]
    seconds = math.fsum(map(fmean, started)) if started and all(started) else None  # a round starts every arm once
    return replace(of_evidence(judged, base), seconds=seconds)


def headline(section: Section) -> str:
    """The quality metric: a task's headline score, of a pretraining the held-out masked accuracy."""
    return ACCURACY if section.is_pretraining else HEADLINE
