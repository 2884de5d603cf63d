"""Effects of a factorial design: what each change of the baseline gives alone, on average, last, and with the others."""

from matplotlib.figure import Figure

from harness import metrics
from harness.comparison.section import HEADLINE
from harness.comparison.verdicts import Change
from harness.document import Block, Section, Table
from harness.metrics import judged_by
from harness.plugins.chapters import factorial
from harness.plugins.chapters.factorial import Design
from harness.plugins.pictures import plots
from harness.reports.chapters import Added, tasks
from harness.reports.reading.study import Study
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import POINTS, Chapter, escape, listed
from harness.reports.writing.tables import size_text

COUNTED = ("model/params_total", "model/flops_forward")
TIMED = ("inference/latency_ms_p50", "inference/peak_memory_bytes")
INTRO = """\
Changes of the baseline, tried alone and combined. *alone*: relative to the baseline. *main effect*: with minus without,
averaged over all settings of the others. *added last*: all combined minus all but this one. *interaction*: how much more one
change gives with the other than without it. *stacking*: all combined minus the sum of the single effects. Effects are computed
within a seed (latency: within a round): [t interval], verdict, p. Single effects are those of the arms; all others are
Holm-corrected for their number in a column. Counts, times and memory are contrasted as logarithms, so percentages multiply."""
INCOMPLETE = "No main effects or interactions: these combinations were not run: {missing}."
CAPTION = "Effects on the score, with the intervals of the table; the grey line marks no effect"
SHOWN = 6


def chapter(study: Study) -> Chapter:
    """Empty where no arm combines the changes of others."""
    designs = [design for section in study.comparison.selected_tasks if (design := factorial.design(section))]
    if not designs:
        return Chapter()
    blocks: list[Block] = [INTRO]
    for design in designs:
        names = [" + ".join(sorted(arm)) or design.section.baseline for arm in design.missing]
        incomplete = [INCOMPLETE.format(missing=listed(names, most=SHOWN))] if names else []
        blocks.append(Section(f"Effects: {escape(design.section.name)}", [table(design), *incomplete]))
    pictures, files = plots.drawn({"effects.svg": (CAPTION, forest, designs)})
    return Chapter([Section("Effects of combined changes", [*blocks, *pictures])], files)


def table(design: Design) -> Table:
    """One row per effect."""
    effects = factorial.effects(design)
    counted = tables.present(design.section, COUNTED)
    timed = [judged_by(name, lambda name: tables.present(design.section, [name])) for name in TIMED]
    measured = tables.present(design.section, (HEADLINE, *timed))
    columns = {name: factorial.changes(design, name, effects) for name in measured}
    rows = []
    for effect in effects:
        changes = [tables.difference(columns[name][effect.key], metrics.get(name).unit) for name in measured]
        shares = [factorial.exact(design, name, effect) for name in counted]
        percents = [formats.percent_cell(None if share is None else 100 * share) for share in shares]
        rows.append([effect.kind, escape(effect.name), *changes, *percents])
    header = ["effect", "of", *(tables.title(design.section, name) for name in (*measured, *counted))]
    return formats.table(header, rows, left=2)


def forest(designs: list[Design]) -> Figure | None:
    """The effects on the score of every task, one panel a task; None where no effect has an interval."""
    panels: dict[str, dict[str, Change]] = {}
    for design in designs:
        effects = factorial.effects(design)
        on_score = factorial.changes(design, HEADLINE, effects)
        changes = {f"{it.kind}: {it.name}": change for it in effects if (change := on_score[it.key]) and change.interval}
        panels |= {design.section.name: changes} if changes else {}
    if not panels:
        return None
    figure, axes = plots.rows_of(panels.values(), 5.6)
    ends = [abs(end) * POINTS for changes in panels.values() for change in changes.values() for end in change.interval or ()]
    reach = 1.08 * max(LEAST_POINTS, *ends)
    for panel, (title, changes) in zip(axes, panels.items(), strict=True):
        panel.axvline(0, color="0.6", linewidth=1)
        for place, (name, change) in enumerate(changes.items()):
            span = [end * POINTS for end in change.interval or ()]
            plots.interval(panel, place, change.absolute * POINTS, span, f"{name}\n{size_text(change, 'score')}")
        panel.set(title=title, xlabel="score (points)", xlim=(-reach, reach))
    return figure


LEAST_POINTS = 2.0
"""Half the width of an axis of points at least: smaller effects are shown as small."""


CHAPTER = Added(chapter, before=tasks.chapter, order=5)
