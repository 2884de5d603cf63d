"""What is compared: the runs of an arm on one task under the same conditions, and its change against the baseline."""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from harness import metrics
from harness.comparison import arms, by_launch, cached_method, items, launches, paired
from harness.comparison.items import Errors, ErrorsOf, Paired, no_errors
from harness.comparison.launches import Rows, SectionKey, Sessions
from harness.comparison.paired import Replicate, Spread, Tells, by_pretraining, geometric_mean, pair, spread
from harness.comparison.plateau import LOSS, MASKED, PROBE, SHARE
from harness.comparison.runs import Run
from harness.comparison.verdicts import Change, Verdict, change, corrected, counted_change, difference_alone, of_evidence
from harness.metrics import PER_BYTE, PER_TOKEN, Compared, Direction, Metric, has_one_vocabulary

HEADLINE, MAJORITY = "eval/score", "eval/majority_score"
"""The headline score of a task, and that of the constant answer."""
FREQUENCIES = "eval/unigram_score"
"""Score of the corpus's word frequencies alone."""
ACCURACY, UNIGRAM = "pretrain/masked_accuracy", "pretrain/unigram_entropy"
EXAMPLES = "eval/examples"
CONSTANTS = {HEADLINE: MAJORITY, LOSS: UNIGRAM}
"""Metric -> that of the constant answer."""
CURVES = {
    f"{phase}/{name}"
    for phase in ("finetune", "pretrain")
    for name in ("loss", "learning_rate", "gradient_norm", "gradient_spread")
}
"""Curves by step: their last value is that of one batch, no result of a run."""
SERIES = (metrics.LENGTHS, metrics.LAUNCHES, metrics.BATCHES)
"""Phases whose steps are lengths, launches or batch sizes: their last value says nothing of the others."""

RESULTS = tuple(name for name in metrics.METRICS if name not in CURVES and not name.startswith(SERIES))
"""Metrics whose last value is a result of the run."""


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
        """Any of its runs, for what all of an arm have in common."""
        return self.runs[0]

    @cached_method
    def values(self, metric: str) -> Mapping[Replicate, float]:
        """Value of every replicate that has one."""
        return {run.replicate: run.metrics[metric] for run in self.runs if metric in run.metrics}

    @cached_method
    def spread(self, metric: str) -> Spread | None:
        """Over all replicates, or over launches for what these measured; None where no run has the metric.

        The mean of what is compared by ratios is geometric: a change is the ratio of two means.
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
        """What the constant answer reaches, of every replicate that says it; empty where the metric has none."""
        return list(self.values(CONSTANTS[metric]).values()) if metric in CONSTANTS else []

    @property
    def is_on_plateau(self) -> bool:
        """Whether its masked loss is that of word frequencies; a probe's says nothing of what the encoder has learned."""
        losses, entropies = by_pretraining(self.values(LOSS)), self.constants(LOSS)
        is_known = bool(losses and entropies) and not have_probes(self.runs)
        return is_known and fmean(losses) > SHARE * fmean(entropies)

    def mean(self, metric: str) -> float | None:
        """Over all replicates; None where no run has the metric."""
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
        """Their short hash."""
        return self.place.conditions

    @functools.cached_property
    def runs(self) -> list[Run]:
        return [run for row in self.rows for run in row.runs]

    @property
    def superseded(self) -> list[Run]:
        """Runs in whose place a newer one of the same arm and seeds counts."""
        return [run for row in self.rows for run in row.superseded]

    @property
    def is_pretraining(self) -> bool:
        return self.runs[0].is_pretraining

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether losses by token compare."""
        return has_one_vocabulary(run.params for run in self.runs)

    @property
    def before(self) -> Row | None:
        """The baseline's row."""
        return self.row_of(self.baseline)

    def row_of(self, label: str) -> Row | None:
        """The arm's row, None where it has no run here."""
        return self._by_label.get(label)

    @functools.cached_property
    def _by_label(self) -> dict[str, Row]:
        return {row.label: row for row in self.rows}

    @property
    def headline(self) -> str | None:
        """Name of the task's headline score; None where no run says it."""
        return next((run.params["task.headline"] for run in self.runs if "task.headline" in run.params), None)

    def change(self, row: Row, metric: str) -> Change | None:
        """Against the baseline; None for the baseline itself and where nothing can be paired.

        All rows of the section are one family of tests.
        """
        return self._changes(metric).get(row.label)

    @cached_method
    def _changes(self, metric: str) -> dict[str, Change | None]:
        return corrected({row.label: self.single_change(row, metric) for row in self.rows})

    def single_change(self, row: Row, name: str) -> Change | None:
        """The change as if it were the only test; of a timing that was not launched side by side the number alone."""
        if self.before is None or self.before is row:
            return None
        found = change_over([(self, row)], name)
        if found or name not in launches.SHARED:
            return found
        metric, sides = metrics.get(name), (self.before, row)
        verdict = None if metric.direction is Direction.NEITHER else Verdict.OPEN
        both = [launches.timed_spread(self.sessions, side.runs, name) for side in sides]
        if None not in both:
            return difference_alone(*both, verdict)
        unpaired = change(metric, *(side.values(name) for side in sides))
        return Change(unpaired.n, unpaired.baseline_mean, unpaired.absolute, None, verdict) if unpaired else None

    def item(self, row: Row) -> float | None:
        """By how much one item of the validation data changes a share of them, of the baseline's runs and these."""
        runs = [run for side in (self.before, row) if side for run in side.runs]
        counts = [run.metrics[EXAMPLES] for run in runs if EXAMPLES in run.metrics]
        return 1 / min(counts) if counts else None

    @cached_method
    def items_error(self, row: Row, metric: Metric) -> float:
        """Standard error of the change of a score over the validation items; 0 where their number is unknown."""
        item, means = self.item(row), [side.mean(metric.name) if side else None for side in (self.before, row)]
        if metric.unit != "score" or item is None or None in means:
            return 0.0
        both, score = self.errors_of_both(row.label), self.kind_of(metric.name)
        if both and (error := both.error_of(score)) is not None:
            return error
        counts = [self.rows_of(side, metric.name) or 1 / item for side in (self.before, row)]
        return paired.items_error(*means, counts, score, both.share_apart if both else 1.0)  # the largest that it is

    def rows_of(self, row: Row, name: str) -> float | None:
        """As many rows as a score counts as by its scatter over the items, mean over the arm's runs; None where unknown."""
        counts = [count for run in row.runs if (count := paired.rows_of(run.metrics, self.kind_of(name)))]
        return fmean(counts) if counts else None

    def kind_of(self, name: str) -> str | None:
        """Which score it is, as tasks name it: of the headline score that of this task."""
        return self.headline if name == HEADLINE else name.rpartition("/")[2]

    @cached_method
    def errors_of_both(self, label: str) -> Paired | None:
        """Errors of the baseline and an arm on the same items; None for the baseline itself and without predictions."""
        before, row = self.before, self.row_of(label)
        if before is None or row is None or before is row:
            return None
        pairs = pair(before.by_replicate, row.by_replicate)[: 2 * items.MOST_PAIRS]  # twice those used: some may be gone
        return items.of_both((self._errors_of_baseline(mine), self.errors(row.by_replicate[other])) for mine, other in pairs)

    @cached_method
    def _errors_of_baseline(self, replicate: Replicate) -> Errors | None:
        """Read once for all arms."""
        return self.errors(self.before.by_replicate[replicate])

    def beats_constant(self, row: Row, name: str) -> bool | None:
        """Whether a score is shown to be better than the constant answer; None where that is unknown."""
        values, constants, rows = by_pretraining(row.values(name)), row.constants(name), self.rows_of(row, name)
        if not values or not constants or name != HEADLINE:
            return None
        error = paired.item_error(fmean(values), rows, self.kind_of(name)) if rows else 0.0
        return paired.beats_constant(values, fmean(constants), item=error)

    def tells(self, row: Row, name: str) -> Tells:
        """What the task can say of the baseline and this arm in a score, or the held-out text in a masked loss."""
        before, metric = self.before, metrics.get(name)
        sides = [by_pretraining(side.values(name)) if side else [] for side in (before, row)]
        if all(sides) and name in (LOSS, PER_BYTE[LOSS]):
            return Tells.NOTHING if before.is_on_plateau and row.is_on_plateau else Tells.EVERYTHING
        if not all(sides) or metric.unit != "score":
            return Tells.EVERYTHING
        if name != HEADLINE and self.tells(row, HEADLINE) is Tells.NOTHING:
            return Tells.NOTHING
        constants = [constant for side in (before, row) for constant in side.constants(name)]
        constant = fmean(constants) if constants else None
        items = [self.rows_of(side, name) for side in (before, row)]
        return paired.tells(*sides, constant, metric.margin.size, items, self.kind_of(name))

    @cached_method
    def seconds(self, row: Row) -> float | None:
        """How long one more pair of trainings takes; None where that is not known of both, or takes a pretraining too."""
        name = "pretrain/duration_s" if self.is_pretraining else "finetune/duration_s"
        means = [side.mean(name) for side in (self.before, row)]
        pretrained = any(run.replicate.pretrain_seed for run in row.runs) and not self.is_pretraining
        return None if None in means or pretrained else sum(means)

    @cached_method
    def against(self, row: Row) -> Rows:
        """The baseline's runs and this row's, as their timings are compared."""
        return Rows(self.place, self.baseline, self.before.runs if self.before else [], row.runs)


def change_over(tasks: Sequence[tuple[Section, Row]], name: str) -> Change | None:
    """The change of an arm in a metric over tasks, each with the arm's row, as if it were the only test.

    Means over tasks are taken for every replicate, or round of launches, before anything is compared. None where nothing can be
    paired, for timings that were not launched side by side, and for what the clock of each training says alone.
    """
    metric = metrics.get(name)
    if metric.compared is Compared.OWN_CLOCK:
        return None
    rows = ([section.before for section, _ in tasks], [row for _, row in tasks])
    timed, sides = tasks[0][0].sessions, [section.against(row) for section, row in tasks]
    if name in launches.SHARED:
        return _change_by_launch(timed, sides, metric) if name in launches.JUDGED else None
    each = [[row.values(name) for row in of_side] for of_side in rows]
    if metric.deterministic:  # sizes may differ by task in the head and the vocabulary
        numbers = [len(values) for of_side in each for values in of_side]
        if not all(numbers):
            return None
        means = (fmean(fmean(values.values()) for values in of_side) for of_side in each)
        return counted_change(metric, min(numbers), *means)
    logs = metric.by_ratio and all(value > 0 for of_side in each for values in of_side for value in values.values())
    floor, of_items = None, 0.0
    if metric.unit == "score":
        one_each = [item for section, row in tasks if (item := section.item(row))]
        floor = fmean(one_each) if one_each else None  # one item in every task
        of_items = paired.over_tasks([section.items_error(row, metric) for section, row in tasks])
    elif metric.unit == "bytes":
        floor = timed.memory_floor(sides)
    reached = tasks[0][0].runs[0].has_budget_of_time
    tells = paired.tells_of_tasks([section.tells(row, name) for section, row in tasks])
    runs = [[run for row in of_side for run in row.runs] for of_side in rows]
    looks = max(run.seed_looks for of_side in runs for run in of_side)
    values = (over_tasks(of_side, logs) for of_side in each)
    result = change(metric, *values, floor, floor or 0.0, reached, of_items, tells, looks)
    if result is None:
        return None
    if not are_comparable(name, *runs):
        result = Change(result.n, result.baseline_mean, result.absolute, None, Verdict.OPEN)
    seconds = [section.seconds(row) for section, row in tasks]
    return replace(result, seconds=None if None in seconds else math.fsum(seconds))


def over_tasks(tasks: list[Mapping[Replicate, float]], logs: bool) -> Mapping[Replicate, float]:
    """Mean over tasks, geometric if `logs`, of every replicate that has all of them."""
    if len(tasks) == 1:
        return tasks[0]
    mean = geometric_mean if logs else fmean
    shared = [replicate for replicate in tasks[0] if all(replicate in values for values in tasks)]
    return {replicate: mean([values[replicate] for values in tasks]) for replicate in shared}


def _change_by_launch(timed: Sessions, sides: list[Rows], metric: Metric) -> Change | None:
    """Log ratios by round, averaged over the launches of each session; sessions are independent of one another."""
    launch, by_session, bases, floors = launches.JUDGED[metric.name], {}, [], []
    for side in sides:
        before, after = launches.side_by_side(timed, side) or (None, None)
        if before is None:
            continue
        with_reference = timed.typical_reference(after.session, launch) is not None
        logs = by_launch.differences(launch, timed.history(before), timed.history(after), with_reference)
        of_session = by_session.setdefault(after.session, [])
        if logs and logs not in of_session:  # tasks of one shape share their launches
            of_session.append(logs)
            bases.append(geometric_mean(list(timed.levels(before, launch).values())))
        floors.append(timed.floor(after.session, side.place, launch))
    difference = launches.over_sessions([logs for logs in by_session.values() if logs])
    if difference is None:
        return None
    base = bases[0] if len(bases) == 1 else geometric_mean(bases)
    looks = max(after.looks for side in sides for after in side.after)
    judged = launches.evidence(metric, difference, None if None in floors else max(floors), looks)
    *_, newest = (session for session in timed.names if by_session.get(session))
    return replace(of_evidence(judged, base), seconds=timed.round_seconds(newest))


def are_comparable(name: str, before: Iterable[Run], after: Iterable[Run]) -> bool:
    """False for a metric of masked tokens that other heads predict, and for one by token of other vocabularies."""
    before, after = list(before), list(after)
    if name in PER_TOKEN and not has_one_vocabulary(run.params for run in (*before, *after)):
        return False
    return name not in MASKED or heads_of(before) == heads_of(after)


def heads_of(runs: Iterable[Run]) -> set[float]:
    """Steps that the probes of these pretrainings were trained for; 0 stands for the objective's own head."""
    return {run.metrics[PROBE] for run in runs if PROBE in run.metrics}


def have_probes(runs: Iterable[Run]) -> bool:
    """Whether a probe answers for any of these pretrainings."""
    return any(heads_of(runs))


def headline(section: Section) -> str:
    """The quality metric: a task's headline score, of a pretraining the held-out masked accuracy."""
    return ACCURACY if section.is_pretraining else HEADLINE
