"""GLUE (arXiv:1804.07461): one table over its tasks with their average, computed from what the runs scored on validation data.

A task's number is the mean of its scores, computed for each replicate; an average is computed for each replicate that has
every task.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics, paired
from harness.metrics import Direction, Metric
from harness.paired import Values, grouped, spread
from reports.comparison.compare import Comparison, Study
from reports.comparison.section import HEADLINE, Row, Section, over_tasks
from reports.comparison.statistics import Change, change, corrected
from reports.reading.store import Run
from reports.writing import formats, tables
from reports.writing.formats import DASH, Chapter, details, escape, listed
from reports.writing.tables import arm_columns, spread_and_change

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
        """The average of every replicate that has all counted tasks."""
        numbers = [task_numbers(section, section.row_of(label)) for section in self.counted]
        return over_tasks(numbers, logs=False) if numbers else {}

    def replicates(self, label: str) -> int:
        """How many any counted task was run with."""
        return len({replicate for section in self.counted if (row := section.row_of(label)) for replicate in row.runs})

    @functools.cached_property
    def average_changes(self) -> dict[str, Change | None]:
        """Label -> change of the average, paired by seed; None where nothing can be paired. The baseline has none."""
        baseline = self.comparison.baseline
        return corrected({label: self._average_change(baseline, label) for label in self.labels if label != baseline})

    def _average_change(self, baseline: str, label: str) -> Change | None:
        rows = [(section, row) for section in self.counted if section.before and (row := section.row_of(label))]
        score = metrics.get(HEADLINE)
        of_items = paired.over_tasks([section.items_error(row, score) for section, row in rows])
        tells = paired.tells_of_tasks([section.tells(row, HEADLINE) for section, row in rows])
        return change(AVERAGE, self.average(baseline), self.average(label), items=of_items, tells=tells)

    @functools.cached_property
    def changes(self) -> list[dict[str, Change | None]]:
        """Label -> change, of each section's number; the arms of a task are one family of tests."""
        return [corrected({label: _change(section, label) for label in self.labels}) for section in self.sections]


def glue_of(comparison: Comparison, left_out: tuple[str, ...] = LEFT_OUT) -> Glue | None:
    """None where the study has fewer than two of the tasks."""
    sections = [section for section in comparison.selected if section.task in SCORES]
    if len({section.task for section in sections}) < 2:
        return None
    sections.sort(key=lambda section: list(SCORES).index(section.task))
    counted = tuple(section for section in sections if section.task not in left_out)
    return Glue(comparison, tuple(sections), counted if len(counted) > 1 else (), left_out)


def scores_of(section: Section) -> tuple[str, ...]:
    """The metrics that the task's number is the mean of."""
    names = ((score, f"eval/{score}") for score in SCORES[section.task])
    return tuple(name for score, name in names if score not in WHERE_THERE or any(name in run.metrics for run in section.runs))


def task_numbers(section: Section, row: Row | None) -> Values:
    """The task's number of every replicate that has all of its scores."""
    return over_tasks([row.values(name) for name in scores_of(section)], logs=False) if row else {}


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


SELECTED = "†"
BY_WHAT_IT_REPORTS = (
    "kept the state that scored best on the very data that the score is of (finetune.keep_best=validation): "
    "the score is too good by an unknown amount"
)
LIMITED = "data.validation_examples"
UNSET = ("", "None", "null")


def table(glue: Glue) -> str:
    """Rows are arms and last the constant answer, columns are tasks and their average where there is one."""
    heads = ["arm"]
    for section in glue.sections:
        scores = [(metrics.METRICS.get(name), name) for name in scores_of(section)]
        titles = [escape(metric.title if metric else name.removeprefix("eval/").replace("_", " ")) for metric, name in scores]
        heads.append(f"{tables.section_name(glue.comparison, section)}: {', '.join(titles)}")
    heads += ["average"] * bool(glue.counted)
    rows = [[escape(label), *_texts(glue, label)] for label in glue.labels]
    constants = [_constant(section) for section in glue.sections]
    if any(text != DASH for text in constants):
        rows.append(["*constant answer*", *constants, *[DASH] * bool(glue.counted)])
    return formats.table(heads, rows)


def _texts(glue: Glue, label: str) -> list[str]:
    """Each task's number and the average, with how many replicates have it if not all, a mark, and below it the change."""
    columns, counted = [], []
    for section, changes in zip(glue.sections, glue.changes, strict=True):
        row = section.row_of(label)
        runs = list(row.runs.values()) if row else []
        columns.append((task_numbers(section, row), len(runs), runs, changes[label]))
        counted += runs if section in glue.counted else []
    if glue.counted:
        columns.append((glue.average(label), glue.replicates(label), counted, glue.average_changes.get(label)))
    texts = []
    for numbers, count, runs, against in columns:
        text = DASH
        if numbers:
            over = spread(list(numbers.values()))
            text = formats.value(over.mean, "score", over.sd) + (f" (n {over.n})" if over.n < count else "")
            text += f" {SELECTED}" if selected(runs) else ""
            if label != glue.comparison.baseline:
                text += f"<br>{tables.change_text(against, 'score') if against else DASH}"
        texts.append(text)
    return texts


def _constant(section: Section) -> str:
    """The constant answer's headline score, which is named where it is not all of the task's number."""
    text = tables.majority(section)
    if text is None:
        return DASH
    headline = f"eval/{section.headline}"
    return text if scores_of(section) == (headline,) else f"{text} ({escape(tables.score_title(section))})"


def differences(glue: Glue) -> str | None:
    """Paired differences of tasks and average with interval, verdict and p; None where no two replicates can be paired."""
    lines = []
    for label in glue.labels:
        changes = [changes[label] for changes in glue.changes] + [glue.average_changes.get(label)] * bool(glue.counted)
        texts = [tables.difference_text(change, "score") for change in changes]
        if any(text != DASH for text in texts):
            lines.append([escape(label), *texts])
    heads = [tables.section_name(glue.comparison, section) for section in glue.sections] + ["average"] * bool(glue.counted)
    return formats.table(["arm", *heads], lines) if lines else None


def rule(glue: Glue) -> str:
    """The note below the table: how the average is computed, and what it is not.

    The footnote where a number is marked, and what was not scored on the official split, follow.
    """
    averaged = "none, for there is one task to average"
    if glue.counted:
        tasks = listed((section.task for section in glue.counted), most=None)
        averaged = f"the unweighted mean over {len(glue.counted)} tasks, {tasks}"
    sentences = [f"**Average**: {averaged}. A task's number is the mean of its scores, computed for each replicate."]
    combined = [section.task for section in glue.counted if len(scores_of(section)) > 1]
    if combined:
        sentences.append(f"The mean score of the first table takes a single score of {listed(combined)}, so the two differ.")
    out = [section.task for section in glue.sections if section.task in glue.left_out]
    if out:
        sentences.append(f"Left out of the average: {listed(out)}.")
    sentences.append("An arm that lacks a task of the others has no average, and a replicate that lacks one does not enter.")
    sentences.append("All scores are of validation data, so none of them is a result of the benchmark's test.")
    parts = [" ".join(sentences)]
    if selected(run for section in glue.sections for run in section.runs):
        parts.append(f"{SELECTED} A run of this arm {BY_WHAT_IT_REPORTS}.")
    names = {section.place: tables.section_name(glue.comparison, section) for section in glue.sections}
    sliced = [f"- {names[section.place]}: {note}" for section in glue.sections for note in slices(section)]
    return "\n\n".join([*parts, *(["\n".join(sliced)] if sliced else [])])


def notes(section: Section) -> list[str]:
    """Notes where a score is of other data than the official split, or weights were chosen by the reported score."""
    if section.is_pretraining:
        return []
    labels = [row.label for row in section.rows if selected(row.runs.values())]
    return slices(section) + ([f"{listed(labels, most=None)} {BY_WHAT_IT_REPORTS}."] if labels else [])


def slices(section: Section) -> list[str]:
    """Which rows were scored or trained on a part of the official split."""
    ending = ": not a GLUE score" if section.task in SCORES else ""
    labels_of = grouped((text, row.label) for row in section.rows for run in row.runs.values() for text in _slices(run))
    return [f"{listed(labels, most=None)} {text}, not the official split{ending}." for text, labels in labels_of.items()]


def _slices(run: Run) -> list[str]:
    texts = []
    for verb, key in (("scored", "task.validation_split"), ("trained", "task.train_split")):
        split, first = run.params.get(key, ""), run.params.get(LIMITED, "")
        if "[" in split:
            texts.append(f"{verb} on a slice of {escape(split.partition('[')[0])} ({escape(split)})")
        elif verb == "scored" and first not in UNSET:
            texts.append(f"scored on the first {escape(first)} examples of the validation split")
    return texts


def chapter(study: Study) -> Chapter:
    """Empty where the study has fewer than two of the tasks."""
    glue = glue_of(study.comparison, () if study.options.with_wnli else LEFT_OUT)
    if glue is None:
        return Chapter()
    paragraphs, paired_differences = ["## GLUE", table(glue), rule(glue)], differences(glue)
    if paired_differences:
        intro = max((tables.differences_intro(section) for section in glue.sections), key=len)
        paragraphs += details([intro, paired_differences])
    return Chapter(paragraphs, summary=[line for label in glue.labels if (line := summary_line(glue, label))])


def summary_line(glue: Glue, label: str) -> dict[str, object] | None:
    """The average of an arm as a row of summary.csv; None where it has none."""
    averages = list(glue.average(label).values())
    if not averages:
        return None
    conditions = "+".join(dict.fromkeys(section.conditions for section in glue.counted))
    line = {"task": "glue", "conditions": conditions} | arm_columns(glue.counted[0].row_of(label))
    line |= {"metric": AVERAGE.name, "unit": AVERAGE.unit, "direction": AVERAGE.direction.value}
    return line | spread_and_change(spread(averages), glue.average_changes.get(label))
