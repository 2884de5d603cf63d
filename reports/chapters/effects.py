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
from reports.writing.formats import POINTS, Chapter, escape, listed
from reports.writing.plots import grid, short_names
from reports.writing.tables import size_text

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
    designs = designs_of(study.comparison)
    if not designs:
        return Chapter()
    paragraphs = ["## Effects of combined changes", INTRO]
    for design in designs:
        paragraphs += [f"### Effects: {escape(design.section.name)}", table(design)]
        names = [" + ".join(sorted(arm)) or design.section.baseline for arm in design.missing]
        paragraphs += [INCOMPLETE.format(missing=listed(names, most=SHOWN))] if names else []
    files = plots.drawn({"effects.svg": (forest, designs), "interactions.svg": (heat_map, designs)})
    return Chapter([*paragraphs, *plots.pictured(CAPTIONS, files)], files)


def designs_of(comparison: Comparison) -> list[Design]:
    """The design of every task that has one; pretrainings have no score."""
    return [design for section in comparison.selected_tasks if (design := factorial.design(section))]


def table(design: Design) -> str:
    """One row an effect."""
    effects = factorial.effects(design)
    counted = tables.present(design.section, COUNTED)
    timed = [judged_by(name, lambda name: tables.present(design.section, [name])) for name in TIMED]
    measured = tables.present(design.section, (HEADLINE, *timed))
    columns = {name: factorial.changes(design, name, effects) for name in measured}
    rows = []
    for effect in effects:
        changes = [tables.difference_text(columns[name][effect.key], metrics.get(name).unit) for name in measured]
        shares = [factorial.exact(design, name, effect) for name in counted]
        percents = [formats.percent(None if share is None else 100 * share) for share in shares]
        rows.append([effect.kind, escape(effect.name), *changes, *percents])
    header = ["effect", "of", *(tables.title(design.section, name) for name in (*measured, *counted))]
    return formats.table(header, rows, left=2)


def forest(designs: list[Design]) -> Figure | None:
    """The effects on the score of every task, one panel a task; None where no effect has an interval."""
    panels: list[tuple[Design, dict[str, Change]]] = []
    for design in designs:
        changes = {f"{effect.kind}: {effect.name}": change for effect, change in _on_score(design)}
        panels += [(design, changes)] if changes else []
    if not panels:
        return None
    tallest = max(len(rows) for _, rows in panels)
    wide = 5.6 + plots.wider(name for _, rows in panels for name in short_names(rows).values())
    figure, axes = grid(len(panels), wide=wide, high=1.1 + 0.24 * tallest, most=2, margin=0)
    ends = [abs(end) * POINTS for _, rows in panels for change in rows.values() for end in change.interval]
    reach = 1.08 * max(LEAST_POINTS, *ends)
    for panel, (design, rows) in zip(axes, panels, strict=True):
        panel.axvline(0, color="0.6", linewidth=1)
        for place, (name, change) in enumerate(rows.items()):
            panel.plot([end * POINTS for end in change.interval], [place, place], color="black", linewidth=1.2)
            label = f"{name}\n{size_text(change, 'score')}"
            panel.plot(change.absolute * POINTS, place, marker="o", color="black", markersize=4.5, label=label)
        panel.set_yticks(range(len(rows)), list(short_names(rows).values()))
        panel.set(xlabel="score (points)", xlim=(-reach, reach), ylim=(tallest - 0.4, -0.6))
        panel.set_title(design.section.name)
        panel.grid(False, axis="y")
    return figure


LEAST_POINTS = 2.0
"""Half the width of an axis of points at least: smaller effects are shown as small."""
LEAST = 1.0
"""Points at which the colours end at least: smaller effects look small."""
DARK = 0.179
"""Relative luminance (WCAG 2.1) below which white text has the higher contrast."""
COLOURS = "PuOr"
"""A diverging scale of Brewer's that colour-blind readers can tell apart; sign and size are also written in every cell."""
CELL = 0.95


def cells(design: Design) -> dict[tuple[str, str], Change]:
    """(row, column) -> change: main effects as (name, name), interactions as (later, earlier name).

    Empty for an incomplete design, or of one seed.
    """
    return {(of.factors[-1], of.factors[0]): change for of, change in _on_score(design) if of.kind in (MAIN, INTERACTION)}


def _on_score(design: Design) -> list[tuple[Effect, Change]]:
    """The effects on the score that have an interval."""
    effects = factorial.effects(design)
    changes = factorial.changes(design, HEADLINE, effects)
    return [(effect, change) for effect in effects if (change := changes[effect.key]) and change.interval]


def heat_map(designs: list[Design]) -> Figure | None:
    """One panel a task, all of one scale of colours; None where no design is complete."""
    panels = [(design, changes) for design in designs if (changes := cells(design))]
    if not panels:
        return None
    most = max(len(design.factors) for design, _ in panels)
    names = max(len(name) for design, _ in panels for name in short_names(design.factors).values()) * plots.LEGEND_LETTER + 0.6
    figure, axes = grid(len(panels), wide=CELL * most + names, high=0.42 * most + 0.9, most=2, margin=0)
    reach = max(LEAST, *(abs(change.absolute) * POINTS for _, changes in panels for change in changes.values()))
    for panel, (design, changes) in zip(axes, panels, strict=True):
        _map_panel(panel, design.factors, changes, reach)
        panel.set_title(f"{design.section.name}, score (points)")
    return figure


def _map_panel(axes: Axes, factors: tuple[str, ...], changes: dict[tuple[str, str], Change], reach: float) -> None:
    values = np.full((len(factors), len(factors)), np.nan)
    for (row, column), change in changes.items():
        values[factors.index(row), factors.index(column)] = change.absolute * POINTS
    edges = np.arange(len(factors) + 1) - 0.5
    mesh = axes.pcolormesh(edges, edges, values, cmap=COLOURS, vmin=-reach, vmax=reach, edgecolors="white", linewidth=1.5)
    for names, change in changes.items():
        row, column = map(factors.index, names)
        value = values[row, column]
        red_green_blue = mesh.to_rgba(value)[:3]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in red_green_blue]
        colour = "white" if np.dot((0.2126, 0.7152, 0.0722), linear) < DARK else "black"
        text = f"{formats.signed(value, 1)} {tables.mark(change)}".rstrip()
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(factors)), [*map(str, range(1, len(factors) + 1))])
    axes.set_yticks(range(len(factors)), [f"{name}  {place}" for place, name in enumerate(short_names(factors).values(), 1)])
    axes.set_ylim(len(factors) - 0.5, -0.5)
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
