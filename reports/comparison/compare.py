"""Which runs are compared with which: sections of rows, one section per task and conditions, one row per arm.

Runs under different conditions never meet in one section. A change is computed from the replicates that an arm shares with
the baseline; a counted metric does not depend on the seed.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from harness import arms, metrics, tags
from harness.paired import Replicate, Spread, by_pretraining, geometric_mean, spread
from reports.comparison import labels as naming
from reports.comparison import sessions
from reports.comparison.heads import judged_with_one_head
from reports.comparison.remembered import remembered
from reports.comparison.replicates import replicate_order
from reports.comparison.sessions import Place, Rows, Sessions, values_of
from reports.comparison.statistics import Change, change, corrected
from reports.errors import ReportError, unknown
from reports.reading.store import Run, states_text

EXAMPLES = "eval/examples"
FREE_SETTINGS = (*arms.NAMES, *arms.SEEDS)
"""Settings, or groups of them, that may differ between the runs of one arm and are not reported."""


@dataclass(frozen=True)
class Row:
    """The finished runs of one arm in one section, by replicate."""

    label: str
    runs: dict[Replicate, Run]
    superseded: tuple[Run, ...] = ()  # older runs of the same replicates
    sessions: Sessions = field(default_factory=Sessions)  # of the whole study

    @remembered
    def values(self, metric: str) -> Mapping[Replicate, float]:
        """Of the replicates that have one."""
        return values_of(self.runs, metric)

    @remembered
    def spread(self, metric: str) -> Spread | None:
        """Over all replicates, or over launches for what these measured; None where no run has the metric.

        The mean of what is compared by ratios is geometric: a change is the ratio of two means.
        """
        values = list(self.values(metric).values())
        if not values:
            return None
        timed = sessions.timed_spread(self.sessions, self.runs.values(), metric)
        if timed:
            return timed
        means = by_pretraining(self.values(metric))  # of each pretraining, as a change weighs them
        ratio = metrics.get(metric).by_ratio and min(values) > 0
        return replace(spread(values), mean=geometric_mean(means) if ratio else fmean(means))

    def mean(self, metric: str) -> float | None:
        """Over all replicates; None where no run has the metric."""
        found = self.spread(metric)
        return found.mean if found else None


@dataclass(frozen=True)
class Section:
    """All that may be compared: one task under the same conditions, the baseline's row first where it exists."""

    place: Place
    facts: arms.Facts  # the conditions themselves
    baseline: str
    rows: tuple[Row, ...]
    sessions: Sessions  # of the whole study

    @property
    def task(self) -> str:
        return self.place.task

    @property
    def conditions(self) -> str:
        """Their short hash."""
        return self.place.conditions

    @functools.cached_property
    def runs(self) -> list[Run]:
        return [run for row in self.rows for run in row.runs.values()]

    @property
    def superseded(self) -> list[Run]:
        """Runs in whose place a newer one of the same arm and seeds counts."""
        return [run for row in self.rows for run in row.superseded]

    @property
    def is_pretraining(self) -> bool:
        return self.runs[0].is_pretraining

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

    @remembered
    def _changes(self, metric: str) -> dict[str, Change | None]:
        """Label -> change."""
        return corrected({row.label: self.single_change(row, metric) for row in self.rows})

    def single_change(self, row: Row, name: str) -> Change | None:
        """The same, as if it were the only test."""
        before, metric = self.before, metrics.get(name)
        if before is None or before is row:
            return None
        if sessions.is_timing(name):
            found = sessions.timed_change(self.sessions, self.against(row), name)
        elif metric.unit == "bytes" and not metric.deterministic:
            found = sessions.memory_change(self.sessions, self.against(row), name)
        else:
            item = self.item(row) if metric.unit == "score" else None
            reached = self.runs[0].has_budget_of_time
            found = change(metric, before.values(name), row.values(name), item, item or 0.0, reached)
            found = judged_with_one_head(found, name, before.runs.values(), row.runs.values())
        return replace(found, seconds=self.seconds(row)) if found and not found.by_round else found

    def item(self, row: Row) -> float | None:
        """By how much one item of the validation data changes a share of them, of the baseline's runs and these."""
        counts = [
            run.metrics[EXAMPLES] for one in (self.before, row) if one for run in one.runs.values() if EXAMPLES in run.metrics
        ]
        return 1 / min(counts) if counts else None

    def seconds(self, row: Row) -> float | None:
        """How long one more pair of trainings takes; None where that is not known of both, or takes a pretraining too."""
        return self._seconds(row.label)

    @remembered
    def _seconds(self, label: str) -> float | None:
        row = self.row_of(label)
        name = "pretrain/duration_s" if self.is_pretraining else "finetune/duration_s"
        means = [one.mean(name) for one in (self.before, row)]
        pretrained = any(one.pretrain_seed for one in row.runs) and not self.is_pretraining
        return None if None in means or pretrained else sum(means)

    def against(self, row: Row) -> Rows:
        """The baseline's runs and this row's, as their timings are compared."""
        return self._against(row.label)

    @remembered
    def _against(self, label: str) -> Rows:
        return Rows(self.place, self.baseline, self.before.runs if self.before else {}, self.row_of(label).runs)


@dataclass(frozen=True)
class Comparison:
    """All sections of a study."""

    study: str
    baseline: str
    sections: tuple[Section, ...]
    left_out: tuple[Run, ...]
    sessions: Sessions

    @property
    def runs(self) -> list[Run]:
        """The runs that count."""
        return [run for section in self.sections for run in section.runs]

    @property
    def superseded(self) -> list[Run]:
        """Superseded runs of all sections."""
        return [run for section in self.sections for run in section.superseded]

    @functools.cached_property
    def labels(self) -> list[str]:
        """Every row's label once, the baseline first."""
        found = dict.fromkeys(row.label for section in self.sections for row in section.rows)
        return naming.in_order(found, self.baseline)


def compare(study: str, runs: list[Run], baseline: str | None = None, along: Iterable[str] = ()) -> Comparison:
    """The study's comparison, of runs oldest first.

    ReportError without a finished run, without the baseline, or for a key of `along` that no run has.
    """
    done = naming.with_newest_recipes([run for run in runs if run.status == "finished"])
    finished = [run for run in done if not run.is_aa_replicate]
    left_out = tuple(run for run in runs if run.status != "finished")
    if not finished:
        raise ReportError(f"study {study!r} has no finished run ({states_text(runs)}); a report needs at least one")
    keys = naming.along_keys(finished, along)
    labels = naming.label_runs(done, keys)
    lifted = naming.lifted_keys(done, keys)
    facts = {run.run_id: arms.conditions(run.facts, lifted[run.task]) for run in done}
    places = {run.run_id: Place(run.task, arms.short_hash(facts[run.run_id])) for run in done}
    timed = sessions.gather(done, labels, places)
    chosen = choose_baseline(finished, labels, baseline, left_out)
    groups: dict[tuple[str, arms.Known], list[Run]] = {}
    for run in finished:
        groups.setdefault((run.task, arms.known(facts[run.run_id])), []).append(run)
    sections = []
    tasks = list(naming.by_task(finished))
    for group in sorted(groups.values(), key=lambda group: (not group[0].is_pretraining, tasks.index(group[0].task))):
        first, own_baseline = group[0].run_id, baseline_of(group, finished, labels, chosen)
        sections.append(Section(places[first], facts[first], own_baseline, _rows(group, labels, own_baseline, timed), timed))
    return Comparison(study, chosen, tuple(sections), left_out, timed)


def choose_baseline(runs: list[Run], labels: dict[str, str], name: str | None, left_out: Iterable[Run] = ()) -> str:
    """The baseline's label: this name itself, or the one arm of that model with the fewest settings; arms of tasks first.

    An arm of which no run finished, among those left out, is taken only where no other fits. ReportError, listing the labels,
    where no arm or more than one fits.
    """
    searched = "base" if name is None else name
    for pool in ([run for run in runs if not run.is_pretraining], runs):
        fitting = _fitting(pool, labels, searched)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ReportError(f"baseline {searched!r} could be {' or '.join(fitting)}; choose one with --baseline")
    unfinished = [run.tags[tags.ARM] for run in left_out if searched in (run.tags.get(tags.ARM), run.tags.get(tags.MODEL))]
    if unfinished:
        return min(unfinished, key=naming.settings)
    choices = list(dict.fromkeys(labels[run.run_id] for run in runs))
    if name is None:
        raise ReportError(f"this study has no arm 'base' to compare with; choose one with --baseline: {', '.join(choices)}")
    raise unknown("baseline", name, choices)


def _fitting(runs: list[Run], labels: dict[str, str], name: str) -> list[str]:
    """Labels that may be meant by this name: itself, or those of that arm or model with the fewest settings."""
    fitting = []
    for run in runs:
        label = labels[run.run_id]
        if name in (label, naming.stem(label), run.tags[tags.ARM], run.tags[tags.MODEL]):
            fitting.append(label)
    if name in fitting:
        return [name]
    fewest = min(map(naming.settings, fitting), default=0)
    return [label for label in dict.fromkeys(fitting) if naming.settings(label) == fewest]


def baseline_of(group: list[Run], runs: list[Run], labels: dict[str, str], chosen: str) -> str:
    """The study's baseline; for pretrainings, which may lack it, the one of the same name or else of the same encoder."""
    if not group[0].is_pretraining or any(labels[run.run_id] == chosen for run in group):
        return chosen
    encoders = {_encoder(run) for run in runs if labels[run.run_id] == chosen}
    named = [labels[run.run_id] for run in group if naming.stem(labels[run.run_id]) == naming.stem(chosen)]
    alike = list(dict.fromkeys(named or [labels[run.run_id] for run in group if _encoder(run) in encoders]))
    return alike[0] if len(alike) == 1 else chosen


def _encoder(run: Run) -> tuple[str, ...]:
    return run.tags[tags.MODEL], run.tags[tags.SCALE], run.tags.get(tags.ENHANCEMENTS, "")


def _rows(runs: list[Run], labels: dict[str, str], baseline: str, timed: Sessions) -> tuple[Row, ...]:
    """Rows of a section; of runs of the same arm and seeds the newest counts. `runs` are oldest first."""
    found: dict[str, dict[Replicate, list[Run]]] = {}
    for run in runs:
        found.setdefault(labels[run.run_id], {}).setdefault(run.replicate, []).append(run)
    rows = []
    for label in naming.in_order(found, baseline):
        attempts = {replicate: found[label][replicate] for replicate in sorted(found[label], key=replicate_order)}
        counted = {replicate: runs[-1] for replicate, runs in attempts.items()}
        rows.append(Row(label, counted, tuple(run for runs in attempts.values() for run in runs[:-1]), timed))
    return tuple(rows)


def differing_settings(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Dotted key -> its values where these runs differ, apart from seeds and from where results go."""
    settings = [run.params for run in runs]
    keys = [key for key in arms.varying(settings) if not arms.within(key, FREE_SETTINGS)]
    return {key: list(dict.fromkeys(setting.get(key, "not set") for setting in settings)) for key in keys}
