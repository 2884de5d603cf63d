"""The first screen: the answer in two sentences, one row an arm over all tasks, a picture of all changes, details in words."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from harness import metrics, tags
from harness.comparison import overall
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.paired import grouped
from harness.comparison.section import HEADLINE, LOSS, Section
from harness.comparison.verdicts import Change, Verdict
from harness.document import DASH, Block, Cell, Screen, Table
from harness.document import Section as Part
from harness.reports.chapters import along, appendix, diagnostics, pretraining
from harness.reports.reading.study import Study
from harness.reports.writing import findings, formats, plots, tables
from harness.reports.writing.answer import OUTCOMES, answer
from harness.reports.writing.findings import Effect
from harness.reports.writing.formats import POINTS, SHARES, Chapter, bullets, code, escape, listed
from harness.reports.writing.plots import COLOURS, grid, short_names
from harness.reports.writing.tables import size_text, verdict_text

CAPTIONS = {
    "changes.svg": "Changes against the baseline with 95 % intervals (90 % of what is shown to be the same). Filled: better or "
    "worse; hollow: not resolved or the same; grey: within the noise floor or one validation item"
}

LEGEND = """\
▲ better, ▼ worse, ≈ the same within the margin, ~ not resolved, △ ▽ measured once, – no verdict. ± is the standard deviation
over replicates, of latency over rounds of launches."""
WORD_OF = {
    Verdict.BETTER: "Shown to be better",
    Verdict.WORSE: "Shown to be worse",
    Verdict.SAME: "Shown to be the same",
    Verdict.EQUAL: "Equal",
    Verdict.NOT_RESOLVED: "Inconclusive",
}
"""Verdict -> what it says of a hypothesis; of all others nothing is shown."""
SHOWN = (Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.EQUAL)
CLOCKS = {"device time": " of device time", "own clock": " by its own clock"}
"""Clock in a title -> what a head says of it; of no word is the wall clock that all launches have."""
WARNED, BELOW = "†", "‡"
NOTES = {
    WARNED: "† A training has a warning, which the report names.",
    BELOW: "‡ Not shown to be better than the constant answer, which ignores the text.",
}
"""Sign at a value -> what it says below the table."""
UNITS_IN_HEAD = ("ms", "tokens/s", "nats", "bits/byte")


def chapter(study: Study) -> Chapter:
    """Always there."""
    comparison = study.comparison
    curves = along.curves(comparison)
    files = plots.drawn({"changes.svg": (change_picture, comparison)})
    table = legible_overview(comparison)
    by_arm = findings.by_arm(comparison)
    compared, cautions, sentences = findings.opening(comparison), findings.cautions(comparison), findings.sentences(comparison)
    results = [*table, *cautions] if by_arm else [*cautions, *table]  # a long table hides what follows
    before: list[Block] = [
        *_without_baseline(comparison),
        *answer(comparison),
        *hypotheses(comparison),
        *findings.no_study(comparison),
        *findings.controls(comparison),
        *pretraining.warnings(comparison),
        compared,
        *results,
    ]
    constant = listed(metric for metric, of_metric in _panels(comparison).items() if not any(map(_differs, of_metric)))
    alike = [f"The same in all arms, and in no picture: {constant}."] if constant else []
    shown = [*curves.pictures, *plots.pictured(CAPTIONS, files)]
    brackets = [findings.BRACKETS] if comparison.is_small else []
    words = [Part("Arm by arm" if by_arm else "Metric by metric", [*sentences, *brackets])] if sentences else []
    if not comparison.is_small:
        pictures = [*plots.drawn_note(comparison), *shown, *alike]
        return Chapter([Part("", [*before, *tasks_table(comparison), *pictures, *words])], curves.files | files)
    of_tasks = [*tasks_table(comparison), *bullets(findings.of_tasks(comparison)), *shown[1:], *alike]
    rest = [Part("Task by task, arm by arm", [*of_tasks, *words])] if of_tasks or words else []
    return Chapter([Part("", [*before, *diagnostics.sentence(comparison), *shown[:1]]), *rest], curves.files | files)


def screen(comparison: Comparison) -> Screen | None:
    """The answer and the table, where arms are compared."""
    answers = answer(comparison) if len(comparison.labels) > 1 else []
    table, *notes = legible_overview(comparison) if answers else [None]
    return Screen(answers[0], table, [*map(str, notes)]) if isinstance(table, Table) else None


def legible_overview(comparison: Comparison) -> list[Table | str]:
    """The table and, below it, what its signs mean; empty without a metric."""
    if not findings.parts(comparison):
        return []
    table = overview(comparison)
    notes = [LEGEND] if len(comparison.labels) > 1 and comparison.baseline in comparison.labels else []
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
        when = f"after {earlier} of its runs had begun" if earlier else "before the first run"
        shared = sum(run.started < time for run in every if run.is_pretraining and run.tags.get(tags.STUDY) != study)
        when += f" (after {shared} pretrainings of another study that it shares)" if shared else ""
        date = f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        paragraphs.append(f"**Hypothesis**, written {when}, on {date}: {escape(recorded[tags.HYPOTHESIS])}")
        paragraphs += bullets(_found_of(comparison, recorded[tags.HYPOTHESIS]))
    return paragraphs


def _found_of(comparison: Comparison, hypothesis: str) -> Iterator[str]:
    """The verdicts on what a hypothesis names: of its arms, else of all that are few, in its metrics, else in what was learned.

    Whether that makes it true is for its author to say.
    """
    words = hypothesis.casefold()
    effects = findings.effects(comparison)
    names = [effect.name for effect in effects if effect.name.casefold() in words]
    outcomes = [effect.name for effect in effects if effect.metric in OUTCOMES]
    labels = [
        label for label in comparison.others if re.search(rf"(?<![\w+=.-]){re.escape(label.casefold())}(?![\w+=])", words)
    ]
    of = [effect for effect in effects if effect.name in (names or outcomes) and (effect.label in labels or not labels)]
    if not of:
        yield "**Open**: what it names has no verdict here."
    for effect in of if len(of) <= findings.MOST else ():
        change, unit = effect.change, effect.unit
        why = "" if change.verdict in SHOWN else verdict_text(change, unit).partition(": ")[2]
        size = f"{size_text(change, unit)}{'; ' * bool(why)}{why}"
        yield f"**{WORD_OF.get(change.verdict, 'Open')}**: {escape(effect.label)} in {effect.name}: {size}."
    if len(of) > findings.MOST:
        counts = Counter(WORD_OF.get(effect.change.verdict, "Open") for effect in of)
        yield f"Of its {len(of)} comparisons: {', '.join(f'{count} {word.lower()}' for word, count in counts.items())}."


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
    """One row an arm over all tasks, or over all pretrainings where there is no task: values, and below them changes."""
    over, names = findings.parts(comparison)[0]
    heads = [_head(over, name, text) for name, text in names.items()]
    rows = [[Cell(escape(label)), *(cell(over, label, name) for name in names)] for label in comparison.labels]
    if len(overall.of_tasks(comparison).sections) > 1 and HEADLINE in names and len(comparison.labels) > 1:
        heads.insert(1, "worst task")
        for row, label in zip(rows, comparison.labels, strict=True):
            worst = over.worst(label)
            row.insert(2, _with_short(Cell(escape(worst[0].name)), worst[1], "score") if worst else Cell(DASH))
    return formats.table(["arm", *heads], rows)


def _head(over: Overall, name: str, text: str) -> str:
    """The metric, a mean where its tasks differ in it, and of a score which one it is or over how many tasks."""
    if name == HEADLINE:
        tasks = findings.counted(list(over.sections))
        return f"score, mean of {tasks}" if tasks else f"score: {escape(tables.score_title(over.sections[0]))}"
    unit = metrics.get(name).unit
    differs = any(len({section.row_of(label).mean(name) for section in over.having(label, name)}) > 1 for label in over.labels)
    clock = CLOCKS.get(metrics.get(name).title.rpartition(", ")[2], "")
    return f"{'mean ' * differs}{text}{f', {unit}{clock}' if unit in UNITS_IN_HEAD else ''}"


def cell(over: Overall, label: str, name: str) -> Cell:
    """Value with its spread and change; how many tasks it is of where it lacks some."""
    spread, metric = over.spread(label, name), metrics.get(name)
    if spread is None:
        return Cell(DASH)
    exact = metric.deterministic or spread.minimum == spread.maximum
    text = formats.value(spread.mean, metric.unit, None if exact else spread.sd)
    text = text.removesuffix(f" {metric.unit}") if metric.unit in UNITS_IN_HEAD else text
    of, most = len(over.having(label, name)), len(over.sections)
    text += f" ({of} of {most} tasks)" if of < most else ""
    text += f" {WARNED}" * (
        name in (HEADLINE, LOSS)
        and any(findings.is_warned(run) for section in over.having(label, name) for run in section.row_of(label).runs)
    )
    value = Cell(text, spread.mean, metric.unit)
    if label == over.comparison.baseline or not tables.is_judged(metric):
        return value
    return _with_short(value, over.change(label, name), metric.unit)


def _with_short(value: Cell, change: Change | None, unit: str) -> Cell:
    return tables.with_change(value, change, tables.short_text(change, unit))


def tasks_table(comparison: Comparison) -> list[Block]:
    """What every arm reached: held-out loss of its pretraining, and the score of every task; empty for one task alone.

    A score that is not above the constant answer is marked, and a pretraining with a warning.
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
        rows.append(["*constant answer*", *[DASH] * len(pretrained), *(constant or DASH for constant in constants)])
    table = formats.table(["arm", *heads], rows)
    return [table, *(["\n".join(notes)] if (notes := noted(table)) else [])]


def noted(table: Table) -> list[str]:
    """What the signs in a table say."""
    texts = [cell.text for row in table.rows for cell in row]
    return [note for sign, note in NOTES.items() if any(text.endswith(sign) for text in texts)]


def _score(section: Section, label: str, with_change: bool) -> Cell:
    row = section.row_of(label)
    spread = row.spread(HEADLINE) if row else None
    if row is None or spread is None:
        return Cell(DASH)
    text = formats.value(spread.mean, "score", spread.sd) + f" {BELOW}" * findings.is_below_constant(section, row)
    change = section.change(row, HEADLINE) if with_change and row is not section.before else None
    value = Cell(text, spread.mean, "score")
    return _with_short(value, change, "score") if change else value


MARKS = {
    Verdict.BETTER: ("^", COLOURS[0], True, "better"),
    Verdict.WORSE: ("v", COLOURS[1], True, "worse"),
    Verdict.DIRECTION_BETTER: ("^", "0.35", False, "measured once, no evidence"),
    Verdict.DIRECTION_WORSE: ("v", "0.35", False, "measured once, no evidence"),
    Verdict.SAME: ("s", "0.35", False, "same within the margin"),
    Verdict.EQUAL: ("s", "0.35", False, "same within the margin"),
    Verdict.NOT_RESOLVED: ("o", "0.35", False, "not resolved"),
    Verdict.OPEN: ("x", "0.35", False, "no verdict"),
}
"""Verdict -> marker, colour, whether it is filled, what the legend says."""
TICKS = (-99, -98, -95, -90, -80, -70, -50, -30, -20, -10, -5, 0, 5, 10, 20, 50, 100, 200, 400, 900, 1900, 4900)
TICKS += tuple(10**power - 100 for power in range(4, 15))
"""Percent at which an axis of ratios may have a tick."""
LEAST = math.log(1.1)
"""Half the width of an axis of ratios at least: smaller changes are shown as small."""
LEAST_POINTS, LEAST_NATS = 2.0, 0.05
ACROSS = 3
ROW, HEAD, WIDE, GAP = 0.27, 0.85, 2.85, 0.22
"""Inches: height of a row and of what is around the rows, width of a panel with its values, space before the next one."""


def change_picture(comparison: Comparison) -> Figure | None:
    """Without what is the same in all arms; None where nothing has changed against a baseline."""
    drawn = plots.drawn_arms(comparison)
    differing = [of_metric for of_metric in _panels(comparison).values() if any(map(_differs, of_metric))]
    effects = [effect for of_metric in differing for effect in of_metric if effect.label in drawn]
    panels = grouped((effect.name, effect) for effect in effects)
    labels = [label for label in comparison.labels if any(effect.label == label for effect in effects)]
    if not effects:
        return None
    short = short_names(comparison.labels)
    margin = (1.2 if len(panels) > 1 else 1.4) + plots.wider(short[label] for label in labels)  # room of one title
    figure, axes = grid(len(panels), wide=WIDE, high=ROW * len(labels) + HEAD, most=ACROSS, margin=margin, sharey=True)
    figure.set_figheight(figure.get_figheight() + 0.4)
    figure.get_layout_engine().set(w_pad=GAP / 2)
    reached = [0.0, *(end for effect in effects if is_ratio(effect) for end in ends(effect))]
    low, high = min(*reached, -LEAST), max(*reached, LEAST)
    room = 0.06 * (high - low)
    for panel, of_metric in zip(axes, panels.values(), strict=True):
        _panel(panel, {label: short[label] for label in labels}, of_metric, (low - room, high + room))
    figure.legend(handles=_legend(effects), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _panels(comparison: Comparison) -> dict[str, list[Effect]]:
    """Name of a metric -> its effects."""
    return grouped((effect.name, effect) for effect in findings.effects(comparison))


def _differs(effect: Effect) -> bool:
    return effect.change.absolute != 0


def place(effect: Effect, value: float) -> float:
    """Where a change of this size is drawn on its axis: a log ratio, points, or its own unit."""
    if is_ratio(effect):
        return math.log1p(value / effect.change.baseline_mean)
    return POINTS * value if effect.unit in SHARES else value


def is_ratio(effect: Effect) -> bool:
    """Whether it is drawn on the axis of ratios that all panels share."""
    return effect.unit not in (*SHARES, "nats", "bits/byte") and effect.change.baseline_mean > 0


def ends(effect: Effect) -> list[float]:
    """Places of the change and of its interval's ends."""
    change = effect.change
    return [place(effect, value) for value in (change.absolute, *(change.interval or ()))]


def _panel(axes: Axes, arms: dict[str, str], effects: list[Effect], limits: tuple[float, float]) -> None:
    """One line for each of the arms, from a label to its name in the picture."""
    axes.axvline(0, color="0.2", linewidth=0.8, zorder=1)
    rows, first = {label: row for row, label in enumerate(arms)}, effects[0]
    for effect in effects:
        row, change = rows[effect.label], effect.change
        _mark(axes, effect, row)
        number = formats.percent(change.percent) if is_ratio(effect) else formats.difference(change.absolute, effect.unit)
        place = {"xycoords": axes.get_yaxis_transform(), "va": "center", "annotation_clip": False}
        axes.annotate(number, (1.02, row), fontsize=7.5, **place)
        axes.plot([0, 1.01], [row, row], transform=place["xycoords"], color="0.93", linewidth=0.8, zorder=0, clip_on=False)
    unit = f"%, {plots.LOG}" if is_ratio(first) else "points" if first.unit in SHARES else first.unit
    axes.set_title(f"{first.name} ({unit})", loc="left", fontsize=9)
    axes.set_yticks(range(len(arms)), list(arms.values()))
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)  # beside it, the values of the panel before would read as its ticks
    axes.tick_params(axis="y", length=0)
    if is_ratio(first):
        axes.set_xlim(limits)
        _percent_ticks(axes, limits)
    else:
        reached = max(abs(end) for effect in effects for end in ends(effect))
        half = 1.12 * max(reached, LEAST_POINTS if unit == "points" else LEAST_NATS)
        axes.set_xlim(-half, half)
        axes.locator_params(axis="x", nbins=5)


def _percent_ticks(axes: Axes, limits: tuple[float, float]) -> None:
    """At most four beside 0, evenly spread over the axis as far as round percentages allow."""
    places = {tick: place for tick in TICKS if limits[0] <= (place := math.log1p(tick / 100)) <= limits[1]}
    least, ticks = (limits[1] - limits[0]) / 4, {0: "0"}
    for tick in sorted(places, key=lambda tick: (abs(tick) not in (50, 90, 100), abs(tick))):
        if all(abs(places[tick] - places[other]) >= least for other in ticks):
            factor, letter = formats.prefix(1 + tick / 100)
            ticks[tick] = formats.signed(tick, 0) if tick < 900 else f"×{(1 + tick / 100) / factor:g}{letter}"
    axes.set_xticks([places[tick] for tick in ticks], list(ticks.values()))


def _mark(axes: Axes, effect: Effect, row: int) -> None:
    """The change with its interval; grey: the noise floor, or one item of the validation data, by which equal things differ."""
    evidence = effect.change.evidence
    if evidence and evidence.least:
        half = POINTS * evidence.least if effect.unit in SHARES and not evidence.ratio else evidence.least
        axes.fill_betweenx([row - 0.4, row + 0.4], -half, half, color="0.88", linewidth=0, zorder=0)
    middle, *interval = ends(effect)
    marker, colour, filled, _ = MARKS.get(effect.change.verdict, MARKS[Verdict.OPEN])
    if interval:
        axes.plot(interval, [row, row], color=colour, linewidth=1.4, solid_capstyle="butt", zorder=2)
    style = {
        "color": colour,
        "markerfacecolor": colour if filled else "white",
        "markersize": 6.5,
        "zorder": 3,
        "clip_on": False,
    }
    says = f"{size_text(effect.change, effect.unit)} {verdict_text(effect.change, effect.unit)}"
    axes.plot([middle], [row], marker, label=f"{effect.label}\n{says}", **style)


def _legend(effects: list[Effect]) -> list[Line2D | Patch]:
    verdicts = {effect.change.verdict for effect in effects}
    handles = {}
    for verdict, (marker, colour, filled, text) in MARKS.items():
        if verdict in verdicts and text not in handles:
            style = {"color": colour, "markerfacecolor": colour if filled else "white", "linestyle": "None"}
            handles[text] = Line2D([], [], marker=marker, label=text, **style)
    band = any(effect.change.evidence and effect.change.evidence.least for effect in effects)
    return [*handles.values(), *([Patch(color="0.88", label="noise floor, or one item")] if band else [])]
