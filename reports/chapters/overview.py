"""The first screen: what was found in words, one row an arm over all tasks, and a picture of all changes."""

from harness import metrics
from harness.metrics import Direction
from reports import findings, formats, overall, plots, tables, verdicts
from reports.chapters import effect_plot, pretraining
from reports.compare import Comparison, Section
from reports.formats import DASH, escape
from reports.overall import HEADLINE, Overall
from reports.study import Chapter, Study

CAPTIONS = {
    "changes.svg": "Change against the baseline over all tasks, with 95 % intervals; grey: no more than the noise floor or one "
    "item of the validation data; filled marks are better or worse by the tests, hollow ones are not resolved or the same"
}


def chapter(study: Study) -> Chapter:
    """Always there."""
    comparison = study.comparison
    files = plots.drawn({"changes.svg": plots.draw(effect_plot.changes, comparison)})
    table = overview(comparison)
    first = [*pretraining.warnings(comparison), *findings.paragraphs(comparison), table]
    return Chapter([*first, *tasks_table(comparison), *plots.pictured(CAPTIONS, files)], files)


def overview(comparison: Comparison) -> str:
    """One row an arm over all tasks: values, and below them changes and verdicts."""
    parts = findings.parts(comparison)
    heads = [_head(over, name, text) for over, names in parts for name, text in names.items()]
    several = len(overall.of_tasks(comparison).sections) > 1
    rows = []
    for label in comparison.labels:
        cells = [_cell(over, label, name) for over, names in parts for name in names]
        rows.append([escape(label), *cells, *([_worst(overall.of_tasks(comparison), label)] if several else [])])
    return formats.table(["arm", *heads, *(["worst task"] if several else [])], rows)


def _head(over: Overall, name: str, text: str) -> str:
    """The metric, and of a score which one it is or over how many tasks."""
    if name != HEADLINE:
        return text
    tasks = len(over.sections)
    return f"score, mean of {tasks} tasks" if tasks > 1 else f"score: {escape(tables.score_title(over.sections[0]))}"


def _cell(over: Overall, label: str, name: str) -> str:
    """Value with its spread and change; how many tasks it is of where it lacks some."""
    spread, metric = over.spread(label, name), metrics.get(name)
    if spread is None:
        return DASH
    exact = metric.deterministic or spread.minimum == spread.maximum
    text = formats.value(spread.mean, metric.unit, None if exact else spread.sd)
    of, most = len(over.having(label, name)), len(over.sections)
    text += f" ({of} of {most} tasks)" if of < most else ""
    change = over.change(label, name)
    if label == over.comparison.baseline or metric.direction is Direction.NEITHER:
        return text
    return f"{text}<br>{verdicts.short_text(change, metric.unit) if change else DASH}"


def _worst(over: Overall, label: str) -> str:
    """The task whose score changed to the worst, with that change."""
    found = over.worst(label)
    if found is None:
        return DASH
    section, change = found
    return f"{tables.section_name(over.comparison, section)}<br>{verdicts.short_text(change, 'score')}"


def tasks_table(comparison: Comparison) -> list[str]:
    """The headline score of every task, where there are several; a score that is not above the constant answer is marked."""
    shown = [one for one in comparison.sections if not one.is_pretraining and tables.present(one, [HEADLINE])]
    if len(shown) < 2:
        return []
    rows = [[escape(label), *(_score(one, label) for one in shown)] for label in comparison.labels]
    constants = [tables.majority(section) or DASH for section in shown]
    rows += [["*constant answer*", *constants]] if any(text != DASH for text in constants) else []
    heads = [f"{tables.section_name(comparison, one)}: {escape(tables.score_title(one))}" for one in shown]
    marked = any("‡" in cell for row in rows for cell in row)
    return [
        formats.table(["arm", *heads], rows),
        *(["‡ No better than the constant answer, which ignores the text."] if marked else []),
    ]


def _score(section: Section, label: str) -> str:
    row = section.row_of(label)
    spread = row.spread(HEADLINE) if row else None
    if spread is None:
        return DASH
    return formats.value(spread.mean, "score", spread.sd) + (" ‡" if findings.is_below_constant(row) else "")
