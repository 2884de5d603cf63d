"""Which runs are compared with which: sections of rows, one section per task and conditions, one row per arm.

Runs under different conditions never meet in one section. A change is computed from the replicates that an arm shares with
the baseline; a counted metric does not depend on the seed.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from harness import arms, metrics, verdict_rules
from harness.metrics import PER_BYTE, Metric
from harness.paired import Replicate, by_pretraining, pair
from harness.plateau import LOSS
from harness.verdict_rules import Tells
from harness.verdict_rules.item_errors import Errors
from reports.comparison import items, sessions
from reports.comparison import labels as naming
from reports.comparison.baselines import baseline_of, choose_baseline
from reports.comparison.heads import judged_alike
from reports.comparison.items import Paired
from reports.comparison.remembered import remembered
from reports.comparison.replicates import replicate_order
from reports.comparison.row import HEADLINE, Row
from reports.comparison.sessions import Place, Rows, Sessions
from reports.comparison.statistics import Change, change, corrected
from reports.errors import ReportError
from reports.reading.store import Run, states_text

EXAMPLES = "eval/examples"
FREE_SETTINGS = (*arms.NAMES, *arms.SEEDS)
"""Settings, or groups of them, that may differ between the runs of one arm and are not reported."""


@dataclass(frozen=True)
class Section:
    """All that may be compared: one task under the same conditions, the baseline's row first where it exists."""

    place: Place
    facts: arms.Facts  # the conditions themselves
    baseline: str
    rows: tuple[Row, ...]
    sessions: Sessions  # of the whole study
    output: Path | None = None  # folder with the files of its runs, where that is known

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
            reached, tells = self.runs[0].has_budget_of_time, self.tells(row, name)
            of_items = self.items_error(row, metric)
            found = change(metric, before.values(name), row.values(name), item, item or 0.0, reached, of_items, tells)
            found = judged_alike(found, name, before.runs.values(), row.runs.values())
        return replace(found, seconds=self.seconds(row)) if found and not found.by_round else found

    def item(self, row: Row) -> float | None:
        """By how much one item of the validation data changes a share of them, of the baseline's runs and these."""
        counts = [
            run.metrics[EXAMPLES] for one in (self.before, row) if one for run in one.runs.values() if EXAMPLES in run.metrics
        ]
        return 1 / min(counts) if counts else None

    def items_error(self, row: Row, metric: Metric) -> float:
        """Standard error of the change of a score over the validation items; 0 where their number is unknown."""
        item, means = self.item(row), [one.mean(metric.name) if one else None for one in (self.before, row)]
        if metric.unit != "score" or item is None or None in means:
            return 0.0
        return verdict_rules.items_error(*means, 1 / item, self.kind_of(metric.name), self.share_apart(row))

    def kind_of(self, name: str) -> str | None:
        """Which score it is, as tasks name it: of the headline score that of this task."""
        return self.headline if name == HEADLINE else name.rpartition("/")[2]

    def share_apart(self, row: Row) -> float:
        """Share of the scatter over items that an arm does not have in common with the baseline; 1 without predictions."""
        both = self.errors_of_both(row.label)
        return both.share_apart if both else 1.0

    @remembered
    def errors_of_both(self, label: str) -> Paired | None:
        """Errors of the baseline and an arm on the same items; None for the baseline itself and without predictions."""
        before, row = self.before, self.row_of(label)
        if before is None or row is None or before is row:
            return None
        paired = pair(before.runs, row.runs)[: 2 * items.MOST_PAIRS]  # few more than are used: not all may be there
        return items.of_both(
            (self._errors(before.runs[one]), items.errors(row.runs[other], self.output)) for one, other in paired
        )

    def _errors(self, run: Run) -> Errors | None:
        """Errors of a run of the baseline, read once for all arms."""
        known = self._errors_of_baseline
        if run.run_id not in known:
            known[run.run_id] = items.errors(run, self.output)
        return known[run.run_id]

    @functools.cached_property
    def _errors_of_baseline(self) -> dict[str, Errors | None]:
        return {}

    def beats_constant(self, row: Row, name: str) -> bool | None:
        """Whether a score is shown to be better than the constant answer; None where that is unknown."""
        values, constants, item = by_pretraining(row.values(name)), row.constants(name), self.item(row)
        if not values or not constants or name != HEADLINE:
            return None
        error = verdict_rules.item_error(fmean(values), 1 / item, self.kind_of(name)) if item else 0.0
        return verdict_rules.beats_constant(values, fmean(constants), item=error)

    def tells(self, row: Row, name: str) -> Tells:
        """What the task can say of the baseline and this arm in a score, or the held-out text in a masked loss."""
        before, item = self.before, self.item(row)
        sides = [by_pretraining(one.values(name)) if one else [] for one in (before, row)]
        if not all(sides) or (metrics.get(name).unit != "score" and name not in (LOSS, PER_BYTE[LOSS])):
            return Tells.EVERYTHING
        if name in (LOSS, PER_BYTE[LOSS]):
            return Tells.NOTHING if before.is_on_plateau and row.is_on_plateau else Tells.EVERYTHING
        constants = [one for side in (before, row) for one in side.constants(name)]
        constant = fmean(constants) if constants else None
        if name != HEADLINE and self.tells(row, HEADLINE) is Tells.NOTHING:
            return Tells.NOTHING
        margin = metrics.get(name).margin.size
        return verdict_rules.tells(*sides, constant, margin, 1 / item if item else None, self.kind_of(name))

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


def compare(
    study: str, runs: list[Run], baseline: str | None = None, along: Iterable[str] = (), output: Path | None = None
) -> Comparison:
    """The study's comparison, of runs oldest first, whose files are in `output` or where they say.

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
        rows = _rows(group, labels, own_baseline, timed)
        sections.append(Section(places[first], facts[first], own_baseline, rows, timed, output))
    return Comparison(study, chosen, tuple(sections), left_out, timed)


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
