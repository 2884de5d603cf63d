"""Parameters by component: where a variant saves or adds them."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.section import Row, Section
from harness.document import DASH, Block, Cell, Table
from harness.document import Section as Part
from harness.reports.reading.study import Study
from harness.reports.writing import formats, plots
from harness.reports.writing.formats import Chapter, escape
from harness.reports.writing.plots import axis_unit, grid, short_names
from harness.reports.writing.tables import present

MOST = 3
"""Variants of the table of changes."""
HEADER = ["variant", "component", "original", "variant's", "change", "percent"]
CHOSEN = "Of {count} variants with another number of parameters, the {most} whose total changes most."


@dataclass(frozen=True)
class Parts:
    """Parameters of one variant beside the baseline's; keys are components, those that neither has left out."""

    label: str
    before: dict[str, float]
    after: dict[str, float]

    @property
    def change(self) -> float:
        """Change of the total."""
        return sum(self.after.values()) - sum(self.before.values())

    @property
    def changed(self) -> list[str]:
        """Components whose number differs, in the order of the model."""
        return [part for part in self.before if self.before[part] != self.after[part]]


def changed(section: Section, phase: str) -> list[Parts]:
    """Variants of which some component differs from the baseline's, the largest change of the total first."""
    before = parameters_of(section.before, phase) if section.before else {}
    variants = []
    for row in section.rows if before else ():
        if row is not section.before and (after := parameters_of(row, phase)):
            parts = [part for part in before if before[part] or after[part]]
            variants.append(Parts(row.label, *({part: counts[part] for part in parts} for counts in (before, after))))
    return sorted((variant for variant in variants if variant.changed), key=lambda variant: -abs(variant.change))


def parameters_of(row: Row, phase: str) -> dict[str, float]:
    """Component -> parameters, 0 where it has none; empty where none was counted."""
    means = {part: row.mean(f"{phase}/params_component_{part}") for part in metrics.PARAMETER_COMPONENTS}
    return {part: mean or 0.0 for part, mean in means.items()} if any(mean is not None for mean in means.values()) else {}


def table_of_changes(section: Section, phase: str) -> list[Block]:
    """The table of the variants that change most, and which these are; empty where none differs in any component."""
    variants = changed(section, phase)
    rows = []
    for variant in variants[:MOST]:
        numbers = [(metrics.PARAMETER_COMPONENTS[part], count, variant.after[part]) for part, count in variant.before.items()]
        for name, before, after in [*numbers, ("**total**", sum(variant.before.values()), sum(variant.after.values()))]:
            counts = [formats.cell(count, "parameters") for count in (before, after)]
            change = Cell(formats.difference(after - before, "parameters"), after - before, "parameters")
            share = formats.percent_cell(100 * (after - before) / before if before else None)
            rows.append([escape(variant.label), name, *counts, change, share])
    note = [CHOSEN.format(count=len(variants), most=MOST)] if len(variants) > MOST else []
    return [*note, formats.table(HEADER, rows, left=2)] if rows else []


def _number_beside(axes: Axes, end: float, place: int, text: str) -> None:
    axes.annotate(text, (end, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)


COMPONENTS = """\
The components add up to the total; *effective* counts a shared layer once for every use. Where several tasks share a table,
head and total are those of the first."""
WEIGHTS = """\
Of arms that start from weights: parameters as in the weights, derived from them because the shape changed, and with random
values. An error is that of a tensor against what it stands for, by the Frobenius norm; `weights.json` of a run names every
tensor."""
ORIGINS = {"model/params_kept": "kept", "model/params_derived": "derived", "model/params_random": "random"}
ORIGIN_COLOURS = {"kept": "#009E73", "derived": "#E69F00", "random": "#000000"}
PHASES = {"model": "at the dimensions that were run", "published": "at the published dimensions (BERT-base)"}
CAPTIONS = {
    "parameters.svg": "Parameters by component",
    "weights.svg": "Parameters of arms on published weights: kept, derived because the shape changed, random",
}
ALIKE = "All arms have the same parameters in every component: there is no picture of them."
PART_COLOURS = dict(
    zip(
        metrics.PARAMETER_COMPONENTS,
        ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#F0E442", "#009E73", "#E69F00", "#000000"),
        strict=True,
    )
)
SMALL_COLOUR = "0.6"
LEAST_SHARE = 0.02
"""Share of an arm's parameters below which a component cannot be seen in a bar."""


def chapter(study: Study) -> Chapter:
    """Empty where no run has its components counted."""
    tables_of_parts = groups(study.comparison)
    if not tables_of_parts:
        return Chapter()
    _, phase, section = tables_of_parts[0]
    pictures = {
        "parameters.svg": (parameter_bars, study.comparison, tables_of_parts),
        "weights.svg": (weights_bars, section),
    }
    files = plots.drawn(pictures)
    drawn = [*plots.drawn_note(study.comparison), *plots.pictured(CAPTIONS, files)] if files else [ALIKE]
    blocks: list[Block] = [COMPONENTS]
    for place, (heading, phase, section) in enumerate(tables_of_parts):
        title = f"{heading[0].upper()}{heading[1:]}"
        table = components(section, phase)
        blocks.append(Part(title, [table, *([] if place else drawn)], detail=bool(place)))
        blocks += [] if place else weights(section)
        if changes := table_of_changes(section, phase):
            blocks.append(Part(f"{title}: changes by component", changes, detail=True))
    return Chapter([Part("Parameters by component", blocks)], files)


def weights(section: Section) -> list[Part]:
    """Where the parameters of arms on changed weights come from; empty where no arm has derived ones.

    What a pretraining of the study made of changed weights is left out: all of it is trained.
    """
    rows = []
    for row in _on_weights(section):
        counts = [row.mean(name) or 0.0 for name in ORIGINS]
        texts = [f"{formats.value(count, 'parameters')} ({100 * count / sum(counts):.3g} %)" for count in counts]
        cells = [Cell(text, count, "parameters") for text, count in zip(texts, counts, strict=True)]
        error = row.mean("model/weights_error")
        rows.append([escape(row.label), *cells, Cell(DASH) if error is None else Cell(f"{100 * error:.3g} %", error, "%")])
    header = ["arm", *ORIGINS.values(), "largest relative error"]
    return [Part("Where the weights come from", [WEIGHTS, formats.table(header, rows)])] if rows else []


def _on_weights(section: Section) -> list[Row]:
    """Arms on weights that are not trained yet; none where no arm has derived ones."""
    counted = [row for row in section.rows if row.mean("model/params_kept") is not None and not _is_trained(row)]
    return counted if any(row.mean("model/params_derived") for row in counted) else []


def _is_trained(row: Row) -> bool:
    return not row.mean("model/params_derived") and any(run.origin is not None for run in row.runs)


def groups(comparison: Comparison) -> list[tuple[str, str, Section]]:
    """(heading, phase, section) of each distinct table of components, `phase` being model or published.

    Sections with the same rows share a table, whatever the size of their heads.
    """
    tables_of_parts = []
    for phase, where in PHASES.items():
        shared: list[tuple[set, list[Section]]] = []
        for section in sorted(comparison.selected, key=lambda section: -len(section.rows)):
            counts = encoder_counts(section, phase)
            same = next((sections for of_first, sections in shared if counts <= of_first), None)
            if same:
                same.append(section)
            elif counts:
                shared.append((counts, [section]))
        for _, sections in shared:
            names = ", ".join(escape(section.name) for section in sections)
            tables_of_parts.append((where + (f": {names}" if len(shared) > 1 else ""), phase, sections[0]))
    return tables_of_parts


def encoder_counts(section: Section, phase: str) -> set[tuple[object, ...]]:
    """(label, count of each component but the head) of the rows that have any; empty where no run has them."""
    counts = {row.label: parameters_of(row, phase) for row in section.rows}
    return {(label, *(count for part, count in of.items() if part != "head")) for label, of in counts.items() if of}


def components(section: Section, phase: str) -> Table:
    """Parameters by component, rows are the arms that have any. `phase` is model or published."""
    parts, total = (
        {f"{phase}/params_component_{part}": name for part, name in metrics.PARAMETER_COMPONENTS.items()},
        f"{phase}/params_total",
    )
    names = present(section, (*parts, total))
    effective = present(section, ["model/params_effective"]) if phase == "model" else []
    header = [
        "arm",
        *((parts | {total: "total"})[name] for name in names),
        "change of total",
        *("effective" for _ in effective),
    ]
    rows = []
    for row in section.rows:
        if any(row.values(name) for name in names):
            means = [row.mean(name) for name in (*names, *effective)]
            counts = [formats.cell(mean, "parameters") for mean in means]
            change = section.change(row, total)
            counts.insert(len(names), formats.percent_cell(change.percent if change else None))
            rows.append([escape(row.label), *counts])
    return formats.table(header, rows)


def parameter_bars(comparison: Comparison, tables_of_parts: list[tuple[str, str, Section]]) -> Figure | None:
    """Parameters stacked by component, one panel for each (title, phase, section) in which arms differ; None without any."""
    drawn, panels = plots.drawn_arms(comparison), {}
    for heading, phase, section in tables_of_parts:
        rows = [row for row in section.rows if row.label in drawn]
        short = short_names(row.label for row in rows)
        panels[heading] = {short[row.label]: counts for row in rows if (counts := parameters_of(row, phase))}
    panels = {heading: arms for heading, arms in panels.items() if arms and not _is_constant(arms)}
    if not panels:
        return None
    every = [counts for arms in panels.values() for counts in arms.values()]
    large = [
        part for part in metrics.PARAMETER_COMPONENTS if any(arm[part] >= LEAST_SHARE * sum(arm.values()) for arm in every)
    ]
    tallest = max(map(len, panels.values()))
    wide = 5.2 + plots.wider(name for arms in panels.values() for name in arms)
    figure, axes = grid(len(panels), wide=wide, high=1.5 + 0.27 * tallest, most=2, margin=0)
    for panel, (heading, arms) in zip(axes, panels.items(), strict=True):
        _stack(panel, arms, {part: PART_COLOURS[part] for part in large})
        panel.set_ylim(tallest - 0.4, -0.6)
        panel.set_title(heading)
    handles = [Patch(color=PART_COLOURS[part], label=metrics.PARAMETER_COMPONENTS[part]) for part in large]
    if len(large) < len(PART_COLOURS):
        handles.append(Patch(color=SMALL_COLOUR, label=f"others, each below {100 * LEAST_SHARE:.0f} %"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, 2 * len(panels)), frameon=False, fontsize=8)
    return figure


def _is_constant(arms: dict[str, dict[str, float]]) -> bool:
    """Whether several arms have the same counts."""
    first, *others = arms.values()
    return bool(others) and all(counts == first for counts in others)


def weights_bars(section: Section) -> Figure | None:
    """Parameters kept from weights, derived from them and random, an arm a bar; None where no arm has derived ones."""
    rows = _on_weights(section)
    if not rows:
        return None
    short = short_names(row.label for row in rows)
    arms = {short[row.label]: {kind: row.mean(name) for name, kind in ORIGINS.items()} for row in rows}
    figure, (axes,) = grid(1, wide=5.2 + plots.wider(arms), high=1.5 + 0.27 * len(arms), margin=0)
    _stack(axes, arms, ORIGIN_COLOURS)
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _stack(axes: Axes, arms: dict[str, dict[str, float]], colours: dict[str, str]) -> None:
    """Bars of parts that have a colour; what is left is grey."""
    totals = [sum(counts.values()) for counts in arms.values()]
    factor, letter = axis_unit("model/params_total", totals)
    stacked = {part: [counts[part] for counts in arms.values()] for part in colours}
    stacked["others"] = np.array(totals) - sum(map(np.array, stacked.values()))
    start = np.zeros(len(arms))
    for part, counts in stacked.items():
        widths = np.array(counts) / factor
        style = {"color": colours.get(part, SMALL_COLOUR), "edgecolor": "white", "linewidth": 0.4, "height": 0.75}
        axes.barh(list(arms), widths, left=start, label=part if widths.any() else "_", **style)
        start += widths
    for place, total in enumerate(start):
        _number_beside(axes, total, place, f"{total:.3g}")
    axes.margins(x=0.1)
    axes.set_xlabel(f"parameters ({letter})")
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
