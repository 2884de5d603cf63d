"""The first screen: the answer in two sentences, one row per arm over all tasks, pictures of plug-ins, details in words."""

import math
import re
from collections.abc import Iterator

from harness import metrics, tags
from harness.comparison import overall
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.plateau import LOSS
from harness.comparison.section import HEADLINE, Section
from harness.comparison.verdicts import Change, Verdict
from harness.document import DASH, Block, Cell, Picture, Table
from harness.document import Section as Part
from harness.metrics import COUNTED_UNITS
from harness.reports.chapters import appendix, tasks
from harness.reports.chapters.added import added
from harness.reports.reading.store import Packed
from harness.reports.reading.study import Study
from harness.reports.writing import expectation, findings, formats, tables
from harness.reports.writing.answer import OUTCOMES, answer
from harness.reports.writing.findings import Effect
from harness.reports.writing.formats import Chapter, bullets, code, escape, listed
from harness.reports.writing.tables import size_text, verdict_text
from harness.terminal import counted

LEGEND = """\
▲ better, ▼ worse, ≈ equivalent within the margin, = equal, ~ inconclusive, △ ▽ single run, – no verdict.
± is the standard deviation over replicates"""
OF_ROUNDS = " (times: over timing rounds)"
WORD_OF = {
    Verdict.BETTER: "Shown to be better",
    Verdict.WORSE: "Shown to be worse",
    Verdict.SAME: "Shown to be equivalent",
    Verdict.EQUAL: "Equal",
    Verdict.INCONCLUSIVE: "Inconclusive",
}
"""Verdict -> its text about a hypothesis; all others show nothing."""
SHOWN = (Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.EQUAL)
CLOCKS = {"device time": " of device time", "own clock": ", timed during training"}
"""Clock in a title -> its text in a header; the wall clock of all launches has none."""
WARNED, BELOW = "†", "‡"
NOTES = {
    WARNED: "† Some of its runs have a training warning.",
    tables.SELECTED: tables.SELECTED_NOTE,
    BELOW: "‡ Not shown to beat the majority baseline, which ignores the text.",
}
"""Sign at a value -> what it says below the table."""
SOME_TASKS = " tasks)", "Changes cover the tasks and seeds that both arms have; an arm that lacks a task has no mean score."
"""End of a cell whose arm lacks tasks, and what is said of it below the table."""
UNITS_IN_HEAD = ("ms", "tokens/s", "nats", "bits/byte")


def chapter(study: Study) -> Chapter:
    """The opening of the report."""
    comparison = study.comparison
    opening = [one.chapter(study) for one in added() if one.before is None]
    files = {name: content for each in opening for name, content in each.files.items()}
    shown = [block for each in opening for part in each.sections for block in part.blocks]
    table = legible_overview(comparison)
    compared, cautions, sentences = findings.opening(comparison), findings.cautions(comparison), findings.sentences(comparison)
    is_long = len(comparison.labels) > findings.MOST + 1  # a long table hides what follows
    results = [*cautions, *table] if is_long else [*table, *cautions]
    notes = study.output.notes.get(comparison.study, ()) if isinstance(study.output, Packed) else ()
    before: list[Block] = [
        *map(escape, notes),
        *_without_baseline(comparison),
        *answer(comparison),
        *hypotheses(comparison),
        *findings.no_study(comparison),
        *findings.controls(comparison),
        *tasks.warnings(comparison),
        compared,
        *results,
    ]
    warnings = bullets(findings.of_trainings(comparison))
    said: list[Block] = [*sentences, findings.BRACKETS] if sentences else []
    if not comparison.is_small:
        blocks = [*said, *warnings]
        words = [Part("Arm by arm", blocks)] if blocks else []
        return Chapter([Part("", [*before, *tasks_table(comparison), *shown, *words])], files)
    words = [Part("Arm by arm", said)] if said else []
    first = [block for block in shown if isinstance(block, Picture)][:1]
    later = [block for block in shown if block not in first]
    of_tasks: list[Block] = [*tasks_table(comparison), *bullets(findings.solved(comparison)), *warnings, *later]
    rest = [Part("Task by task, arm by arm", [*of_tasks, *words])] if of_tasks or words else []
    return Chapter([Part("", [*before, *expectation.sentence(comparison), *first]), *rest], files)


def legible_overview(comparison: Comparison) -> list[Table | str]:
    """The table and, below it, what its signs mean; empty without a metric."""
    if not findings.parts(comparison):
        return []
    table = overview(comparison)
    over, names = findings.parts(comparison)[0]
    is_timed = any(over.by_round(label, name) for label in over.labels for name in names)
    legend = f"{LEGEND}{OF_ROUNDS * is_timed}."
    notes = [legend] if len(comparison.labels) > 1 and comparison.baseline in comparison.labels else []
    notes += noted(table)
    return [table, *(["\n".join(notes)] if notes else [])]


def hypotheses(comparison: Comparison) -> list[Block]:
    """A paragraph for each study that has one: its text, and by the recorded times whether it came before the first run."""
    every = [*comparison.runs, *comparison.superseded, *comparison.left_out]
    runs = [run for run in every if not run.elsewhere]
    of_study = {run.tags.get(tags.STUDY): run.tags for run in runs if tags.HYPOTHESIS in run.tags}
    paragraphs: list[Block] = []
    for study, recorded in of_study.items():
        time = int(recorded[tags.HYPOTHESIS_TIME])
        earlier = sum(run.started < time for run in runs if run.tags.get(tags.STUDY) == study)
        shared = sum(run.started < time for run in every if run.is_pretraining and run.tags.get(tags.STUDY) != study)
        when = f"after {earlier} of its runs had begun" if earlier else f"before the first run{' of this study' * bool(shared)}"
        when += f", on {formats.date(time)}"
        when += f"; {counted(shared, 'pretraining run')}, shared with another study, had already started" if shared else ""
        paragraphs.append(f"**Hypothesis**, written {when}: {escape(recorded[tags.HYPOTHESIS])}")
        first, *others = _found_of(comparison, recorded[tags.HYPOTHESIS])
        paragraphs += [first, *bullets(others)] if first.endswith(":") else bullets([first, *others])
    return paragraphs


def _found_of(comparison: Comparison, hypothesis: str) -> Iterator[str]:
    """Whether each part such as `shared score > -2` held; without one the verdicts on what the hypothesis names.

    These are of its arms, else of all that are few, in its metrics, else in what was learned.
    """
    words = hypothesis.casefold()
    effects = findings.effects(comparison)
    if checked := [sentence for effect in effects for sentence in _checked(effect, words)]:
        yield from checked
        return
    names = [effect.name for effect in effects if effect.name.casefold() in words]
    outcomes = [effect.name for effect in effects if effect.metric in OUTCOMES]
    labels = [
        label for label in comparison.others if re.search(rf"(?<![\w+=.-]){re.escape(label.casefold())}(?![\w+=])", words)
    ]
    of = [effect for effect in effects if effect.name in (names or outcomes) and (effect.label in labels or not labels)]
    if not of:
        yield "**Open**: no verdict here on what it mentions."
    else:
        text = "**Open**: it has no condition that can be checked, such as `shared score > -2`. Verdicts on what it mentions:"
        yield text + " see the tables below." * (len(of) > findings.MOST)
    for effect in of if len(of) <= findings.MOST else ():
        change, unit = effect.change, effect.unit
        why = "" if change.verdict in SHOWN else verdict_text(change, unit).partition(": ")[2]
        size, place = f"{size_text(change, unit)}{'; ' * bool(why)}{why}", escape(f"{effect.label} in {effect.name}")
        yield f"**{WORD_OF.get(change.verdict or Verdict.OPEN, 'Open')}**: {place}: {size}."


def _checked(effect: Effect, words: str) -> Iterator[str]:
    """`**Held**: shared score > -2: −0.5 [−1.2, +0.2] points.`; open where its interval does not say."""
    change, name = effect.change, f"{effect.label} {effect.name}"
    percent = 100 / change.baseline_mean if change.baseline_mean else math.nan
    exact = change.interval is None or effect.unit in COUNTED_UNITS
    in_percent = change.percent is not None and (exact or bool(change.evidence and change.evidence.ratio))
    factor = formats.POINTS if effect.unit in formats.SHARES else percent if in_percent else 1.0
    is_known = change.interval or metrics.get(effect.metric).deterministic
    for sign, number in re.findall(rf"(?<![\w+=.-]){re.escape(name.casefold())} ([<>]) ([-−+]?\d+(?:\.\d+)?)", words):
        bound = float(number.replace(formats.MINUS, "-"))
        holds = {factor * end < bound if sign == "<" else factor * end > bound for end in change.interval or (change.absolute,)}
        word = "Open" if len(holds) > 1 or not is_known else "Held" if holds == {True} else "Failed"
        yield f"**{word}**: {escape(name)} {escape(sign)} {number}: {size_text(change, effect.unit)}."


def _without_baseline(comparison: Comparison) -> list[str]:
    """Why nothing is compared, where no run of the baseline finished, and the command that runs it again."""
    name = comparison.baseline
    if name in comparison.labels:
        return []
    runs = [run for run in comparison.left_out if run.tags.get(tags.ARM) == name and not run.is_aa_replicate]
    reasons = dict.fromkeys(f"{run.status}{f': {reason}' if (reason := run.tags.get(tags.REASON)) else ''}" for run in runs)
    again = " and ".join(code(command) for command in appendix.commands(runs))
    runs_again = f" {again} runs it again." if again else ""
    return [
        f"**No changes: no run of the baseline {escape(name)} finished** ({listed(reasons)}).{runs_again} "
        f"`--baseline` compares with another arm: {listed(comparison.labels, most=findings.MOST)}."
    ]


def overview(comparison: Comparison) -> Table:
    """One row per arm over all tasks, or over all pretrainings where there is no task: values, and below them changes."""
    over, names = findings.parts(comparison)[0]
    heads = [_head(over, name, text) for name, text in names.items()]
    rows = [[Cell(escape(label)), *(cell(over, label, name) for name in names)] for label in comparison.labels]
    if len(overall.of_tasks(comparison).sections) > 1 and HEADLINE in names and len(comparison.labels) > 1:
        heads.insert(1, "worst task")
        for row, label in zip(rows, comparison.labels, strict=True):
            worst = min(over.of_scores(label), key=lambda of_task: of_task[1].absolute, default=None)
            row.insert(2, _with_short(Cell(escape(worst[0].name)), worst[1], "score") if worst else Cell(DASH))
    return formats.table(["arm", *heads], rows)


def _head(over: Overall, name: str, text: str) -> str:
    """The metric, a mean where its tasks differ in it, and of a score which one it is or over how many tasks."""
    if name == HEADLINE:
        return findings.score_head(over, "score: ")
    unit = metrics.get(name).unit
    differs = any(len({row.mean(name) for row in over.rows(label, name)}) > 1 for label in over.labels)
    clock = CLOCKS.get(metrics.get(name).title.rpartition(", ")[2], "")
    return f"{'mean ' * differs}{escape(text)}{f', {unit}{clock}' if unit in UNITS_IN_HEAD else ''}"


def cell(over: Overall, label: str, name: str, scale: tuple[float, str] | None = None) -> Cell:
    """Value with its spread and change, and the number of tasks if some are missing.

    `scale`: what the values of the column are divided by, and its unit, which is in the head.
    """
    spread, metric = over.spread(label, name), metrics.get(name)
    if spread is None:
        return Cell(DASH)
    sd = None if metric.deterministic or spread.minimum == spread.maximum else spread.sd
    text = formats.value(spread.mean, metric.unit, sd, scale)
    text = text.removesuffix(f" {metric.unit}") if metric.unit in UNITS_IN_HEAD else text
    of, most = len(over.rows(label, name)), len(over.of_mean(name))
    is_partial = of < most and name == HEADLINE  # a mean over other tasks, which does not compare
    text = DASH if is_partial else text
    if is_partial or (of < most and of != len(over.having(label, HEADLINE))):
        text += f" ({of} of {most}{'' if scale and not is_partial else ' tasks'})"
    if name in (HEADLINE, LOSS):
        runs = [run for row in over.rows(label, name) for run in row.runs]
        text += f" {WARNED}" * any(map(findings.is_warned, runs)) + tables.selection_mark(runs)
    value = Cell(text, None if is_partial else spread.mean, metric.unit)
    if label == over.comparison.baseline or not tables.is_judged(metric):
        return value
    return _with_short(value, over.change(label, name), metric.unit)


def _with_short(value: Cell, change: Change | None, unit: str) -> Cell:
    """The value above `−12.3 % ▲`, for a score in points, for a loss in nats; above a dash without a change."""
    if change is None:
        return tables.with_change(value, change, DASH)
    size = tables.short_size(change, unit)
    mark = tables.MARKS[change.verdict].partition(" ")[0] if change.verdict else ""  # without a word where it is no merit
    return tables.with_change(value, change, f"{size} {mark}".rstrip())


def tasks_table(comparison: Comparison) -> list[Block]:
    """Held-out loss of each arm's pretraining, and its score on every task; empty for a single task.

    A score that is not above the majority baseline is marked, and a pretraining with a warning.
    """
    tasks = [section for section in comparison.selected_tasks if tables.present(section, [HEADLINE])]
    pretrained = [(over, name, text) for over, names in findings.parts(comparison)[1:] for name, text in names.items()]
    if len(tasks) < 2 and not pretrained:
        return []
    heads = [_head(*column) for column in pretrained]
    heads += [f"{escape(section.name)}: {escape(tables.score_title(section))}" for section in tasks]
    rows: list[list[Cell | str]] = []
    for label in comparison.labels:
        of_pretrainings = [cell(over, label, name) for over, name, _ in pretrained]
        rows.append([escape(label), *of_pretrainings, *(_score(section, label, len(tasks) > 1) for section in tasks)])
    constants = [tables.majority(section) for section in tasks]
    if any(constants):
        rows.append(["*majority baseline*", *[DASH] * len(pretrained), *(constant or DASH for constant in constants)])
    table = formats.table(["arm", *heads], rows)
    seeds = tables.of_shared_seeds((row.values(HEADLINE) for row in section.rows) for section in tasks if tasks[1:])
    notes = [*noted(table), *seeds]
    return [table, *(["\n".join(notes)] if notes else [])]


def noted(table: Table) -> list[str]:
    """What the signs in a table say."""
    texts = [cell.text for row in table.rows for cell in row]
    return [note for sign, note in (*NOTES.items(), SOME_TASKS) if any(f" {sign.strip()}" in text for text in texts)]


def _score(section: Section, label: str, with_change: bool) -> Cell:
    row = section.row_of(label)
    spread = row.spread(HEADLINE) if row else None
    if row is None or spread is None:
        return Cell(DASH)
    signs = f" {BELOW}" * findings.is_below_constant(section, row) + tables.selection_mark(row.runs)
    text = formats.value(spread.mean, "score", spread.sd) + signs
    change = section.change(row, HEADLINE) if with_change and row is not section.before else None
    value = Cell(text, spread.mean, "score")
    return _with_short(value, change, "score") if change else value
