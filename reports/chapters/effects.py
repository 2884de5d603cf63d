"""Effects of a factorial design: what each change of the baseline gives alone, on average, last, and beside the others."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from reports.comparison import factorial
from reports.comparison.compare import Comparison, Study
from reports.comparison.factorial import INTERACTION, MAIN, Design, Effect
from reports.comparison.launches import judged_by
from reports.comparison.section import HEADLINE
from reports.comparison.statistics import Change
from reports.writing import formats, plots, tables
from reports.writing.formats import DASH, POINTS, Chapter, escape, listed
from reports.writing.plots import grid, short_names
from reports.writing.tables import MARKS, size_text

COUNTED = ("model/params_total", "model/flops_forward")
TIMED = ("inference/latency_ms_p50", "inference/peak_memory_bytes")
INTRO = """\
Changes of the baseline that were tried alone and together. *alone*: against the baseline. *main effect*: with against without,
averaged over all settings of the others. *added last*: all together against all but this one. *interaction*: how much more
one gives where the other is than where it is not. *stacking*: how much more all together give than the sum of what each gives
alone; below zero for a score it is a tax. Effects are computed within a seed (a round for latency): [t interval], verdict, p,
both corrected for all effects of a column (Holm). Counts, times and memories are contrasted as logarithms: percent multiply."""
INCOMPLETE = "Not all combinations were run, so there are no main effects and interactions; missing: {missing}."
CAPTIONS = {
    "effects.svg": "Effects on the score, with the intervals of the table; a grey line is no effect",
    "interactions.svg": "Main effects on the score (diagonal) and interactions of the changes of row and column (below it), "
    "in points, with their verdicts",
}
SHOWN = 6


def chapter(study: Study) -> Chapter:
    """Empty where no arm combines the changes of others."""
    designs = found(study.comparison)
    if not designs:
        return Chapter()
    paragraphs = ["## Effects of combined changes", INTRO]
    for one in designs:
        paragraphs += [f"### Effects: {tables.section_name(study.comparison, one.section)}", table(one), *_notes(one)]
    files = plots.drawn(
        {
            "effects.svg": (forest, study.comparison, designs),
            "interactions.svg": (heat_map, study.comparison, designs),
        }
    )
    return Chapter([*paragraphs, *plots.pictured(CAPTIONS, files)], files)


def found(comparison: Comparison) -> list[Design]:
    """The design of every task that has one; pretrainings have no score."""
    sections = [section for section in comparison.selected if not section.is_pretraining]
    return [one for section in sections if (one := factorial.design(section))]


def table(one: Design) -> str:
    """One row an effect."""
    effects = factorial.effects(one)
    counted = tables.present(one.section, COUNTED)
    timed = [judged_by(name, lambda name: tables.present(one.section, [name])) for name in TIMED]
    measured = tables.present(one.section, (HEADLINE, *timed))
    columns = {name: factorial.changes(one, name, effects) for name in measured}
    header = ["effect", "of", *(tables.title(one.section, name) for name in (*measured, *counted))]
    rows = [
        [
            effect.kind,
            escape(effect.name),
            *(tables.difference_text(columns[name][effect.key], metrics.get(name).unit) for name in measured),
            *(_count(factorial.exact(one, name, effect)) for name in counted),
        ]
        for effect in effects
    ]
    return formats.table(header, rows, left=2)


def _count(share: float | None) -> str:
    return DASH if share is None else formats.percent(100 * share)


def _notes(one: Design) -> list[str]:
    if not one.missing:
        return []
    names = (" + ".join(sorted(arm)) or one.section.baseline for arm in one.missing)
    return [INCOMPLETE.format(missing=listed(names, most=SHOWN))]


def forest(comparison: Comparison, designs: list[Design]) -> Figure | None:
    """The effects on the score of every task, one panel a task; None where no effect has an interval."""
    panels = []
    for one in designs:
        effects = factorial.effects(one)
        changes = factorial.changes(one, HEADLINE, effects)
        lines = [(effect, change) for effect in effects if (change := changes[effect.key]) and change.interval]
        panels += [(one, lines)] if lines else []
    if not panels:
        return None
    tallest = max(len(lines) for _, lines in panels)
    wide = 5.6 + plots.wider(name for _, lines in panels for name in _row_names(lines))
    figure, axes = grid(len(panels), wide=wide, high=1.1 + 0.24 * tallest, most=2, margin=0)
    reach = max(abs(end) for _, lines in panels for _, change in lines for end in change.interval) * POINTS * 1.08
    names = plots.panel_names(comparison)
    for panel, (one, lines) in zip(axes, panels, strict=True):
        _forest_panel(panel, lines)
        panel.set_xlim(-reach, reach)
        panel.set_ylim(tallest - 0.4, -0.6)
        panel.set_title(names[comparison.sections.index(one.section)])
    return figure


def _row_names(lines: list[tuple[Effect, Change]]) -> list[str]:
    return list(short_names(f"{effect.kind}: {effect.name}" for effect, _ in lines).values())


def _forest_panel(axes: Axes, lines: list[tuple[Effect, Change]]) -> None:
    axes.axvline(0, color="0.6", linewidth=1)
    for position, (effect, change) in enumerate(lines):
        low, high = (end * POINTS for end in change.interval)
        axes.plot([low, high], [position, position], color="black", linewidth=1.2)
        says = f"{effect.kind}: {effect.name}\n{size_text(change, 'score')}"
        axes.plot(change.absolute * POINTS, position, marker="o", color="black", markersize=4.5, label=says)
    axes.set_yticks(range(len(lines)), _row_names(lines))
    axes.set_xlabel("score (points)")
    axes.grid(False, axis="y")


LEAST = 1.0
"""Points at which the colours end at least: smaller effects look small."""
DARK = 0.179
"""Relative luminance (WCAG 2.1) below which white text has the higher contrast."""
COLOURS = "PuOr"
"""A diverging scale of Brewer's that colour-blind readers can tell apart; sign and size are also written in every cell."""
CELL = 0.95
Cells = dict[tuple[str, str], Change]
"""(row, column) -> effect."""


def cells(one: Design) -> Cells:
    """Main effects as (name, name), interactions as (later, earlier name); empty for an incomplete design, or of one seed."""
    effects = [effect for effect in factorial.effects(one) if effect.kind in (MAIN, INTERACTION)]
    changes = factorial.changes(one, HEADLINE, factorial.effects(one))
    found = {(effect.factors[-1], effect.factors[0]): changes[effect.key] for effect in effects}
    return {place: change for place, change in found.items() if change and change.interval}


def heat_map(comparison: Comparison, designs: list[Design]) -> Figure | None:
    """One panel a task, all of one scale of colours; None where no design is complete."""
    panels = [(one, found) for one in designs if (found := cells(one))]
    if not panels:
        return None
    most = max(len(one.factors) for one, _ in panels)
    names = max(len(name) for one, _ in panels for name in short_names(one.factors).values()) * plots.LEGEND_LETTER + 0.6
    figure, axes = grid(len(panels), wide=CELL * most + names, high=0.42 * most + 0.9, most=2, margin=0)
    reach = max(LEAST, *(abs(change.absolute) * POINTS for _, found in panels for change in found.values()))
    titles = plots.panel_names(comparison)
    for panel, (one, found) in zip(axes, panels, strict=True):
        _map_panel(panel, one.factors, found, reach)
        panel.set_title(f"{titles[comparison.sections.index(one.section)]}, score (points)")
    return figure


def _map_panel(axes: Axes, factors: tuple[str, ...], found: Cells, reach: float) -> None:
    values = np.full((len(factors), len(factors)), np.nan)
    for (row, column), change in found.items():
        values[factors.index(row), factors.index(column)] = change.absolute * POINTS
    edges = np.arange(len(factors) + 1) - 0.5
    mesh = axes.pcolormesh(edges, edges, values, cmap=COLOURS, vmin=-reach, vmax=reach, edgecolors="white", linewidth=1.5)
    for (row, column), change in found.items():
        place = (factors.index(column), factors.index(row))
        dark = _luminance(mesh.to_rgba(change.absolute * POINTS)) < DARK
        axes.text(*place, _text(change), ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axes.set_xticks(range(len(factors)), [f"{place}" for place in range(1, len(factors) + 1)])
    axes.set_yticks(range(len(factors)), [f"{name}  {place}" for place, name in enumerate(short_names(factors).values(), 1)])
    axes.set_ylim(len(factors) - 0.5, -0.5)
    axes.grid(False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _luminance(colour: tuple[float, ...]) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def _text(change: Change) -> str:
    """`+1.2 ▲`: points, and the mark of its verdict."""
    number = formats.signed(change.absolute * POINTS, 1)
    return f"{number} {MARKS.get(change.verdict, '').partition(' ')[0]}".rstrip()
