"""GLUE (arXiv:1804.07461): one table over its tasks with their average, computed from what the runs scored on validation data.

A task's number is the mean of its scores, computed for each replicate; an average is computed for each replicate that has
every task.
"""

import functools
import re
from dataclasses import dataclass

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.paired import Values, spread
from harness.comparison.section import HEADLINE, Row, Section, change_over, over_tasks
from harness.comparison.verdicts import Change, corrected
from harness.document import DASH, Block, Cell, Table
from harness.document import Section as Part
from harness.metrics import Direction, Metric
from harness.records import shipped
from harness.reports.chapters import Added, tasks
from harness.reports.reading.study import Study
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import Chapter, escape, listed
from harness.reports.writing.tables import Line, arm_columns, measured

SCORES = shipped(__file__, dict[str, tuple[str, ...]])
"""Task -> the scores that its number is the mean of."""

WHERE_THERE = ("accuracy_mismatched",)
"""Scores that enter only where a run of the task has them; then all runs must."""

LEFT_OUT = ("wnli",)
"""Not in the average: its validation data contradicts its training data, so that the majority baseline beats most models."""

LIMITS = """\
Arms and seeds without every task are left out of the average. All scores are on validation data, not on the benchmark's test \
set; *Tasks* below says which are on a part of the official split."""
AVERAGE = Metric("glue/average", "score", Direction.HIGHER, "GLUE average")


@dataclass(frozen=True)
class Column:
    """One task, or the average over several."""

    sections: list[Section]

    def rows(self, label: str) -> list[tuple[Section, Row]]:
        """Tasks in which the arm has runs, and its row in each."""
        return [(section, row) for section in self.sections if (row := section.row_of(label))]

    def numbers(self, label: str) -> Values:
        """The number of every replicate of the arm that has all scores of all tasks."""
        rows = self.rows(label)
        each = [over_tasks([row.values(name) for name in scores_of(section)], logs=False) for section, row in rows]
        return over_tasks(each, logs=False) if len(rows) == len(self.sections) else {}

    @functools.cached_property
    def changes(self) -> dict[str, Change | None]:
        """Label -> change, paired by seed; None where nothing can be paired. The arms are one family of tests."""
        return corrected({row.label: self._change(row.label) for section in self.sections for row in section.rows})

    def _change(self, label: str) -> Change | None:
        pairings = [pairing for section, row in self.rows(label) if (pairing := section.against(row))]
        if not pairings:
            return None
        return change_over(pairings, HEADLINE, values=[self.numbers(of) for of in (self.sections[0].baseline, label)])


@dataclass(frozen=True)
class Glue:
    """The GLUE tasks of a study, and their average: None where fewer than two enter it. `columns` are of all of these."""

    comparison: Comparison
    sections: list[Section]
    columns: list[Column]
    average: Column | None
    left_out: list[str]

    @property
    def labels(self) -> list[str]:
        """Arms with a run in any of the tasks, the baseline first."""
        return [label for label in self.comparison.labels if any(section.row_of(label) for section in self.sections)]

    @property
    def heads(self) -> list[str]:
        """The names of the columns."""
        return [*(escape(section.name) for section in self.sections), *["average"] * bool(self.average)]


def glue_of(comparison: Comparison, left_out: tuple[str, ...] = LEFT_OUT) -> Glue | None:
    """None where the study has fewer than two of the tasks."""
    sections = [section for section in comparison.selected if section.task in SCORES]
    if len(sections) < 2:
        return None
    sections.sort(key=lambda section: list(SCORES).index(section.task))
    counted = [section for section in sections if section.task not in left_out]
    average = [Column(counted)] if len(counted) > 1 else []
    columns = [*(Column([section]) for section in sections), *average]
    out = [section.task for section in sections if section.task in left_out]
    return Glue(comparison, sections, columns, average[0] if average else None, out)


def scores_of(section: Section) -> tuple[str, ...]:
    """The metrics that the task's number is the mean of."""
    names = ((score, f"eval/{score}") for score in SCORES[section.task])
    return tuple(name for score, name in names if score not in WHERE_THERE or any(name in run.metrics for run in section.runs))


def table(glue: Glue) -> Table:
    """Rows are arms and last the majority baseline, columns are tasks and their average where there is one."""
    heads = ["arm", *glue.heads]
    for place, section in enumerate(glue.sections, 1):
        scores = [(metrics.METRICS.get(name), name) for name in scores_of(section)]
        titles = [escape(metric.title if metric else name.removeprefix("eval/").replace("_", " ")) for metric, name in scores]
        named = re.sub(r" (\w+) and (\w+) \1$", r" and \2 \1s", formats.enumerated(titles))  # Pearson and Spearman correlations
        heads[place] += f": {'mean of ' * (len(titles) > 1)}{named}"
    rows = [[Cell(escape(label)), *(_number(glue, column, label) for column in glue.columns)] for label in glue.labels]
    constants = [_constant(section) for section in glue.sections]
    if any(cell.value is not None for cell in constants):
        rows.append([Cell("*majority baseline*"), *constants, *[Cell(DASH)] * bool(glue.average)])
    return formats.table(heads, rows)


def _number(glue: Glue, column: Column, label: str) -> Cell:
    """The number, how many replicates have it if not all, a mark, and below it the change."""
    numbers, runs = column.numbers(label), [run for _, row in column.rows(label) for run in row.runs]
    if not numbers:
        return Cell(DASH)
    over = spread(list(numbers.values()))
    text = formats.value(over.mean, "score", over.sd)
    text += f" (n {over.n})" if over.n < len({run.replicate for run in runs}) else ""
    number = Cell(text + tables.selection_mark(runs), over.mean, "score")
    if label == glue.comparison.baseline:
        return number
    change = column.changes[label]
    return tables.with_change(number, change, tables.change_text(change, "score"))


def _constant(section: Section) -> Cell:
    """The majority baseline's score where it is all of the task's number."""
    score = tables.majority(section)
    return score if score and scores_of(section) == (f"eval/{section.headline}",) else Cell(DASH)


def differences(glue: Glue) -> Table | None:
    """Paired differences of tasks and average with interval, verdict and p; None where no two replicates can be paired."""
    lines = []
    for label in glue.labels:
        cells = [tables.difference(column.changes.get(label), "score") for column in glue.columns]
        if any(cell.change for cell in cells):
            lines.append([Cell(escape(label)), *cells])
    return formats.table(["arm", *glue.heads], lines) if lines else None


def rule(glue: Glue) -> list[Block]:
    """The note below the table: how the average is computed, and its limits.

    The footnote where a number is marked, and what was not scored on the official split, follow.
    """
    averaged, counted = "none, as there is only one task", glue.average.sections if glue.average else []
    if counted:
        averaged = f"the unweighted mean over {len(counted)} tasks, {listed(section.task for section in counted)}"
    sentences = [f"**Average**: {averaged}. A task's number is the mean of its scores, computed per seed."]
    combined = [section.task for section in counted if len(scores_of(section)) > 1]
    if combined:
        sentences.append(f"The first table uses a single score of {listed(combined)}, so its mean differs.")
    if glue.left_out:
        sentences.append(f"Left out of the average: {listed(glue.left_out)}.")
    selected = tables.selection_mark(run for section in glue.sections for run in section.runs)
    seeds = tables.of_shared_seeds(map(column.numbers, glue.labels) for column in glue.columns)
    return [" ".join([*sentences, LIMITS]), *([tables.SELECTED_NOTE] if selected else []), *seeds]


def chapter(study: Study) -> Chapter:
    """Empty where the study has fewer than two of the tasks, or none of their scores."""
    glue = glue_of(study.comparison, () if study.options.with_wnli else LEFT_OUT)
    if glue is None or not any(column.numbers(label) for column in glue.columns for label in glue.labels):
        return Chapter()
    blocks = [table(glue), *rule(glue)]
    if paired_differences := differences(glue):
        intro = max((tables.differences_intro(section) for section in glue.sections), key=len)
        blocks.append(Part("", [intro, paired_differences], detail=True))
    return Chapter([Part("GLUE", blocks)], summary=[line for label in glue.labels if (line := summary_line(glue, label))])


def summary_line(glue: Glue, label: str) -> dict[str, object] | None:
    """The average of an arm as a row of summary.csv; None where it has none."""
    if not (average := glue.average) or not (averages := [*average.numbers(label).values()]):
        return None
    line: Line = {"task": "glue", "conditions": "+".join(dict.fromkeys(section.conditions for section in average.sections))}
    line |= arm_columns(average.sections[0].by_label[label])
    return line | measured(AVERAGE, spread(averages), average.changes[label])


CHAPTER = Added(chapter, before=tasks.chapter, order=3)
