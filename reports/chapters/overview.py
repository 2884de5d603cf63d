"""The first screen: one row an arm over all tasks, what was found in words, and a picture of all changes."""

from harness import metrics, tags
from harness.metrics import Direction
from reports.chapters import effect_plot, pretraining, reproduce
from reports.comparison import overall
from reports.comparison.compare import Comparison
from reports.comparison.overall import Overall
from reports.comparison.section import HEADLINE, Section
from reports.comparison.selection import selected
from reports.comparison.study import Study
from reports.writing import findings, formats, plots, tables, verdicts
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape, listed

CAPTIONS = {
    "changes.svg": "Change against the baseline over all tasks, with 95 % intervals, of what is the same with the 90 % "
    "interval of its test; grey: no more than the noise floor or one item of the validation data; filled marks are better or "
    "worse by the tests, hollow ones are not resolved or the same"
}

LEGEND = """\
▲ better, ▼ worse, ≈ the same within the margin, ~ not resolved, △ ▽ measured once, – no verdict. ± is the standard deviation
over replicates, of latency over rounds of launches."""
UNITS_IN_HEAD = ("ms", "tokens/s", "nats", "bits/byte")


def chapter(study: Study) -> Chapter:
    """Always there."""
    comparison = study.comparison
    files = plots.drawn({"changes.svg": plots.draw(effect_plot.changes, comparison)})
    table = [overview(comparison)] if findings.parts(comparison) else []
    compares = len(comparison.labels) > 1 and comparison.baseline in comparison.labels
    table += [LEGEND] if table and compares else []
    compared, *words = findings.paragraphs(comparison)
    few = len(comparison.labels) <= findings.MOST + 1  # a row is read faster than its sentence; a long table hides what follows
    first = [
        *_without_baseline(comparison),
        *pretraining.warnings(comparison),
        compared,
        *([*table, *words] if few else [*words, *table]),
    ]
    return Chapter([*first, *tasks_table(comparison), *plots.drawn_note(comparison), *plots.pictured(CAPTIONS, files)], files)


def _without_baseline(comparison: Comparison) -> list[str]:
    """Why nothing is compared, where no run of the baseline finished, and the command that runs it again."""
    name = comparison.baseline
    if name in comparison.labels:
        return []
    runs = [run for run in comparison.left_out if run.tags.get(tags.ARM) == name and not run.is_aa_replicate]
    reasons = dict.fromkeys(f"{run.status}{f': {reason}' if (reason := run.tags.get(tags.REASON)) else ''}" for run in runs)
    again = " and ".join(f"`{reproduce.escape_code(command)}`" for command in reproduce.commands(runs))
    runs_again = f" {again} runs it again." if again else ""
    return [
        f"**No changes: no run of the baseline {escape(name)} finished** ({listed(reasons)}).{runs_again} "
        f"`--baseline` compares with another arm: {listed(comparison.labels, most=findings.MOST)}."
    ]


def overview(comparison: Comparison) -> str:
    """One row an arm over all tasks, or over all pretrainings where there is no task: values, and below them changes."""
    over, names = findings.parts(comparison)[0]
    heads = [_head(over, name, text) for name, text in names.items()]
    rows = [[escape(label), *(cell(over, label, name) for name in names)] for label in comparison.labels]
    if len(overall.of_tasks(comparison).sections) > 1 and HEADLINE in names and len(comparison.labels) > 1:
        heads.insert(1, "worst task")
        for row, label in zip(rows, comparison.labels, strict=True):
            row.insert(2, _worst(over, label))
    return formats.table(["arm", *heads], rows)


def _head(over: Overall, name: str, text: str) -> str:
    """The metric, a mean where its tasks differ in it, and of a score which one it is or over how many tasks."""
    if name != HEADLINE:
        unit = metrics.get(name).unit
        values = [{section.row_of(label).mean(name) for section in over.having(label, name)} for label in over.labels]
        text = f"mean {text}" if any(len(known) > 1 for known in values) else text
        return f"{text}, {unit}" if unit in UNITS_IN_HEAD else text
    tasks = findings.counted(list(over.sections))
    return f"score, mean of {tasks}" if tasks else f"score: {escape(tables.score_title(over.sections[0]))}"


def cell(over: Overall, label: str, name: str) -> str:
    """Value with its spread and change; how many tasks it is of where it lacks some."""
    spread, metric = over.spread(label, name), metrics.get(name)
    if spread is None:
        return DASH
    exact = metric.deterministic or spread.minimum == spread.maximum
    text = formats.value(spread.mean, metric.unit, None if exact else spread.sd)
    text = text.removesuffix(f" {metric.unit}") if metric.unit in UNITS_IN_HEAD else text
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
    """What every arm reached: held-out loss of its pretraining, and the score of every task; empty for one task alone.

    A score that is not above the constant answer is marked.
    """
    shown = [one for one in selected(comparison) if not one.is_pretraining and tables.present(one, [HEADLINE])]
    before = findings.parts(comparison)[1:]
    if len(shown) < 2 and not before:
        return []
    heads = [_head(over, name, text) for over, names in before for name, text in names.items()]
    heads += [f"{tables.section_name(comparison, one)}: {escape(tables.score_title(one))}" for one in shown]
    rows = [
        [escape(label), *(cell(over, label, name) for over, names in before for name in names)]
        + [_score(one, label) for one in shown]
        for label in comparison.labels
    ]
    constants = [tables.majority(section) or DASH for section in shown]
    if any(text != DASH for text in constants):
        rows.append(["*constant answer*", *[DASH] * (len(heads) - len(shown)), *constants])
    marked = any("‡" in cell for row in rows for cell in row)
    note = ["‡ Not shown to be better than the constant answer, which ignores the text."] if marked else []
    return [formats.table(["arm", *heads], rows), *note]


def _score(section: Section, label: str) -> str:
    row = section.row_of(label)
    spread = row.spread(HEADLINE) if row else None
    if spread is None:
        return DASH
    return formats.value(spread.mean, "score", spread.sd) + (" ‡" if findings.is_below_constant(section, row) else "")
