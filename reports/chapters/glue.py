"""GLUE (arXiv:1804.07461): one table over its tasks with their average, computed from what the runs scored on validation data.

A task's number is the mean of its scores, computed for each replicate; an average is computed for each replicate that has
every task.
"""

from collections.abc import Iterable

from harness import metrics
from harness.paired import Spread, Values, spread
from reports.comparison.glue import AVERAGE, LEFT_OUT, SCORES, Glue, glue_of, scores_of, selected, task_numbers
from reports.comparison.section import Section
from reports.comparison.statistics import Change
from reports.comparison.study import Study
from reports.reading.store import Run
from reports.writing import formats, tables, verdicts
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape, listed
from reports.writing.summary import arm_columns, spread_and_change

SELECTED = "†"
BY_WHAT_IT_REPORTS = (
    "kept the state that scored best on the very data that the score is of (finetune.keep_best=validation): "
    "the score is too good by an unknown amount"
)
LIMITED = "data.validation_examples"
UNSET = ("", "None", "null")


def table(glue: Glue) -> str:
    """Rows are arms and last the constant answer, columns are tasks and their average where there is one."""
    heads = ["arm", *(_head(glue, section) for section in glue.sections)] + ["average"] * bool(glue.counted)
    rows = [[escape(label), *_texts(glue, label)] for label in glue.labels]
    constants = [_constant(section) for section in glue.sections]
    if any(text != DASH for text in constants):
        rows.append(["*constant answer*", *constants, *[DASH] * bool(glue.counted)])
    return formats.table(heads, rows)


def _head(glue: Glue, section: Section) -> str:
    return f"{tables.section_name(glue.comparison, section)}: {', '.join(_title(name) for name in scores_of(section))}"


def _title(name: str) -> str:
    known = metrics.METRICS.get(name)
    return escape(known.title if known else name.removeprefix("eval/").replace("_", " "))


def _texts(glue: Glue, label: str) -> list[str]:
    first = label == glue.comparison.baseline
    runs = [list(row.runs.values()) if (row := section.row_of(label)) else [] for section in glue.sections]
    each = zip(glue.sections, runs, glue.changes, strict=True)
    texts = [_text(_numbers(section, label), _mark(mine), changes[label], first) for section, mine, changes in each]
    if not glue.counted:
        return texts
    counted = [run for section, mine in zip(glue.sections, runs, strict=True) if section in glue.counted for run in mine]
    return [*texts, _text((glue.average(label), len(glue.replicates(label))), _mark(counted), glue.change(label), first)]


def _mark(runs: Iterable[Run]) -> str:
    return f" {SELECTED}" if selected(runs) else ""


def _numbers(section: Section, label: str) -> tuple[Values, int]:
    """The task's numbers, and how many replicates ran."""
    row = section.row_of(label)
    return task_numbers(section, row), len(row.runs) if row else 0


def _text(numbers: tuple[Values, int], mark: str, against: Change | None, is_baseline: bool) -> str:
    """Mean and spread, how many replicates have it if not all, a mark, and below it the change."""
    values, runs = numbers
    over = _spread(values)
    if over is None:
        return DASH
    text = formats.value(over.mean, "score", over.sd) + (f" (n {over.n})" if over.n < runs else "") + mark
    if is_baseline:
        return text
    return f"{text}<br>{verdicts.change_text(against, 'score') if against else DASH}"


def _spread(values: Values) -> Spread | None:
    return spread(list(values.values())) if values else None


def _constant(section: Section) -> str:
    """The constant answer's headline score, which is named where it is not all of the task's number."""
    text = tables.majority(section)
    if text is None:
        return DASH
    headline = f"eval/{section.headline}"
    return text if scores_of(section) == (headline,) else f"{text} ({escape(tables.score_title(section))})"


def differences(glue: Glue) -> str | None:
    """Paired differences of tasks and average with interval, verdict and p; None where no two replicates can be paired."""
    found = {label: [changes[label] for changes in glue.changes] for label in glue.labels}
    if glue.counted:
        found = {label: [*changes, glue.change(label)] for label, changes in found.items()}
    lines = []
    for label, changes in found.items():
        texts = [tables.difference_text(one, "score") for one in changes]
        if any(text != DASH for text in texts):
            lines.append([escape(label), *texts])
    heads = [tables.section_name(glue.comparison, section) for section in glue.sections] + ["average"] * bool(glue.counted)
    return formats.table(["arm", *heads], lines) if lines else None


def rule(glue: Glue) -> str:
    """The note below the table: how the average is computed, and what it is not."""
    sentences = [f"**Average**: {_averaged(glue)}. A task's number is the mean of its scores, computed for each replicate."]
    several = [section.task for section in glue.counted if len(scores_of(section)) > 1]
    if several:
        sentences.append(f"The mean score of the first table takes a single score of {listed(several)}, so the two differ.")
    out = [section.task for section in glue.sections if section.task in glue.left_out]
    if out:
        sentences.append(f"Left out of the average: {listed(out)}.")
    sentences.append("An arm that lacks a task of the others has no average, and a replicate that lacks one does not enter.")
    sentences.append("All scores are of validation data, so none of them is a result of the benchmark's test.")
    return " ".join(sentences) + _below(glue)


def _below(glue: Glue) -> str:
    """The footnote where a number is marked, and what was not scored on the official split."""
    marked = selected(run for section in glue.sections for run in section.runs)
    footnote = [f"{SELECTED} A run of this arm {BY_WHAT_IT_REPORTS}."] if marked else []
    sliced = [
        f"- {tables.section_name(glue.comparison, section)}: {note}" for section in glue.sections for note in slices(section)
    ]
    return "".join(f"\n\n{part}" for part in [*footnote, *(["\n".join(sliced)] if sliced else [])])


def _averaged(glue: Glue) -> str:
    if glue.counted:
        return f"the unweighted mean over {len(glue.counted)} tasks, {listed((s.task for s in glue.counted), most=None)}"
    return "none, for there is one task to average"


def notes(section: Section) -> list[str]:
    """Notes where a score is of other data than the official split, or weights were chosen by the reported score."""
    if section.is_pretraining:
        return []
    chosen = [row.label for row in section.rows if selected(row.runs.values())]
    return slices(section) + ([f"{listed(chosen, most=None)} {BY_WHAT_IT_REPORTS}."] if chosen else [])


def slices(section: Section) -> list[str]:
    """Which rows were scored or trained on a part of the official split."""
    ending = ": not a GLUE score" if section.task in SCORES else ""
    labels_of: dict[str, dict[str, None]] = {}
    for row in section.rows:
        for text in (text for run in row.runs.values() for text in (_scored_slice(run), _trained_slice(run)) if text):
            labels_of.setdefault(text, {})[row.label] = None
    return [f"{listed(labels, most=None)} {text}, not the official split{ending}." for text, labels in labels_of.items()]


def _scored_slice(run: Run) -> str | None:
    split, first = run.params.get("task.validation_split", ""), run.params.get(LIMITED, "")
    if "[" in split:
        return f"scored on a slice of {_sliced(split)}"
    return None if first in UNSET else f"scored on the first {escape(first)} examples of the validation split"


def _trained_slice(run: Run) -> str | None:
    split = run.params.get("task.train_split", "")
    return f"trained on a slice of {_sliced(split)}" if "[" in split else None


def _sliced(split: str) -> str:
    return f"{escape(split.partition('[')[0])} ({escape(split)})"


def chapter(study: Study) -> Chapter:
    """Empty where the study has fewer than two of the tasks."""
    of_glue = glue_of(study.comparison, () if study.options.with_wnli else LEFT_OUT)
    if of_glue is None:
        return Chapter()
    paragraphs, found = ["## GLUE", table(of_glue), rule(of_glue)], differences(of_glue)
    if found:
        paragraphs += [max((tables.differences_intro(section) for section in of_glue.sections), key=len), found]
    return Chapter(paragraphs, summary=summary_lines(of_glue))


def summary_lines(glue: Glue) -> list[dict[str, object]]:
    """The average of every arm that has one, as rows of summary.csv."""
    return [line for label in glue.labels if (line := _summary_line(glue, label))]


def _summary_line(glue: Glue, label: str) -> dict[str, object] | None:
    over = _spread(glue.average(label))
    if over is None:
        return None
    conditions = "+".join(dict.fromkeys(section.conditions for section in glue.counted))
    line = {"task": "glue", "conditions": conditions} | arm_columns(glue.counted[0].row_of(label))
    line |= {"metric": AVERAGE.name, "unit": AVERAGE.unit, "direction": AVERAGE.direction.value}
    return line | spread_and_change(over, glue.change(label))
