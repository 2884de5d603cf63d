"""GLUE (arXiv:1804.07461): the number of every task, and their average where a replicate has all of them."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics, verdict_rules
from harness.metrics import Direction, Metric
from harness.paired import Replicate, Values
from reports.comparison import selection
from reports.comparison.compare import Comparison
from reports.comparison.section import HEADLINE, Row, Section
from reports.comparison.statistics import Change, change, corrected
from reports.reading.store import Run

SCORES = {
    "cola": ("matthews",),
    "sst2": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
    "stsb": ("pearson", "spearman"),
    "mnli": ("accuracy", "accuracy_mismatched"),
    "qnli": ("accuracy",),
    "rte": ("accuracy",),
    "wnli": ("accuracy",),
}
"""Task -> the scores that its number is the mean of."""

WHERE_THERE = ("accuracy_mismatched",)
"""Scores that enter only where a run of the task has them; then all runs must."""

LEFT_OUT = ("wnli",)
"""Not in the average: its validation data contradicts its training data, so that the constant answer beats most models."""

NUMBER = Metric("glue/task", "score", Direction.HIGHER, "task")
AVERAGE = Metric("glue/average", "score", Direction.HIGHER, "GLUE average")


@dataclass(frozen=True)
class Glue:
    """The GLUE sections of a study, and which of them are averaged: none where fewer than two could be, or a task is twice."""

    comparison: Comparison
    sections: tuple[Section, ...]
    counted: tuple[Section, ...]
    left_out: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """Arms with a run in any of the tasks, the baseline first."""
        here = {row.label for section in self.sections for row in section.rows}
        return [label for label in self.comparison.labels if label in here]

    def average(self, label: str) -> Values:
        """Of every replicate that has all counted tasks."""
        numbers = [task_numbers(section, section.row_of(label)) for section in self.counted]
        whole = [one for one in numbers[0] if all(one in of_task for of_task in numbers)] if numbers else []
        return {one: sum(of_task[one] for of_task in numbers) / len(numbers) for one in whole}

    def replicates(self, label: str) -> set[Replicate]:
        """Those that any counted task was run with."""
        return {one for section in self.counted if (row := section.row_of(label)) for one in row.runs}

    def change(self, label: str) -> Change | None:
        """Of the average against the baseline's, paired by seed; None for the baseline and where nothing can be paired."""
        return self._averages.get(label)

    @functools.cached_property
    def _averages(self) -> dict[str, Change | None]:
        baseline = self.comparison.baseline
        others = [label for label in self.labels if label != baseline]
        return corrected({label: self._average_change(baseline, label) for label in others})

    def _average_change(self, baseline: str, label: str) -> Change | None:
        rows = [(section, row) for section in self.counted if section.before and (row := section.row_of(label))]
        score = metrics.get(HEADLINE)
        of_items = verdict_rules.over_tasks([section.items_error(row, score) for section, row in rows])
        tells = verdict_rules.tells_of_tasks([section.tells(row, HEADLINE) for section, row in rows])
        return change(AVERAGE, self.average(baseline), self.average(label), items=of_items, tells=tells)

    @functools.cached_property
    def changes(self) -> list[dict[str, Change | None]]:
        """Label -> change, of each section's number; the arms of a task are one family of tests."""
        return [corrected({label: _change(section, label) for label in self.labels}) for section in self.sections]


def glue_of(comparison: Comparison, left_out: tuple[str, ...] = LEFT_OUT) -> Glue | None:
    """None where the study has fewer than two of the tasks."""
    sections = tuple(section for section in selection.selected(comparison) if section.task in SCORES)
    if len({section.task for section in sections}) < 2:
        return None
    ordered = tuple(sorted(sections, key=lambda section: list(SCORES).index(section.task)))
    kept = tuple(section for section in ordered if section.task not in left_out)
    return Glue(comparison, ordered, kept if len(kept) > 1 else (), left_out)


def scores_of(section: Section) -> tuple[str, ...]:
    """The metrics that the task's number is the mean of."""
    names = ((score, f"eval/{score}") for score in SCORES[section.task])
    return tuple(name for score, name in names if score not in WHERE_THERE or any(name in run.metrics for run in section.runs))


def task_numbers(section: Section, row: Row | None) -> Values:
    """Of every replicate that has all of the task's scores."""
    names = scores_of(section)
    runs = row.runs if row else {}
    whole = {one: run for one, run in runs.items() if all(name in run.metrics for name in names)}
    return {one: sum(run.metrics[name] for name in names) / len(names) for one, run in whole.items()}


def selected(runs: Iterable[Run]) -> bool:
    """Whether a run kept its best weights by the score that it reports."""
    return any(run.params.get("finetune.keep_best") == "validation" for run in runs)


def _change(section: Section, label: str) -> Change | None:
    before, row = section.before, section.row_of(label)
    if before is None or row is None or row is before:
        return None
    item = section.item(row)
    numbers = task_numbers(section, before), task_numbers(section, row)
    of_items, tells = section.items_error(row, metrics.get(HEADLINE)), section.tells(row, HEADLINE)
    return change(NUMBER, *numbers, item, item or 0.0, items=of_items, tells=tells)
