"""Parameters by component: where a variant saves or adds them."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.section import Row, Section
from harness.document import DASH, Block, Cell, Table
from harness.document import Section as Part
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import axis_unit
from harness.plugins.shared import structure
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape
from harness.reports.writing.tables import present

COMPONENTS = """\
Components add up to the total; below each number is its change from the baseline. *Effective* counts a shared layer once per
use. If several tasks share a table, head and total are those of the first."""
WEIGHTS = """\
For arms that start from a checkpoint: parameters kept from it, derived because the shape changed, and initialized at random.
Errors are relative, by the Frobenius norm of a tensor; `weights.json` of a run lists every tensor."""
ORIGINS = {"model/params_kept": "kept", "model/params_derived": "derived", "model/params_random": "random"}
ORIGIN_COLOURS = {"kept": "#009E73", "derived": "#E69F00", "random": "#000000"}
PHASES = {"model": "at the trained size", "published": "at BERT-base dimensions"}
TITLE = "Parameters by component"
ON_WEIGHTS = "Parameters of arms on published weights: kept, derived because the shape changed, or random"
PART_COLOURS = dict(
    zip(
        metrics.PARAMETER_COMPONENTS,
        ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#F0E442", "#009E73", "#E69F00", "#000000"),
        strict=True,
    )
)
LEAST_SHARE = 0.02
"""Share of an arm's parameters below which a component is invisible in a bar."""


def chapter(study: Study) -> Chapter:
    """Empty where no run has its components counted."""
    tables_of_parts = groups(study.comparison)
    if not tables_of_parts:
        return Chapter()
    _, phase, section = tables_of_parts[0]
    origins = {row.label: {kind: row.mean(name) or 0.0 for name, kind in ORIGINS.items()} for row in _on_weights(section)}
    pictures, files = plots.drawn(
        {
            "parameters.svg": (TITLE, parameter_bars, study.comparison, tables_of_parts),
            "weights.svg": (ON_WEIGHTS, _bars, {"": origins} if origins else {}, ORIGIN_COLOURS),
        }
    )
    drawn: list[Block] = [*plots.drawn_note(study.comparison), *pictures] if files else []
    blocks: list[Block] = [COMPONENTS] * bool(files)
    for place, (heading, phase, section) in enumerate(tables_of_parts):
        title = f"{heading[0].upper()}{heading[1:]}"
        blocks.append(Part(title, [components(section, phase), *([] if place else drawn)], detail=bool(place)))
        blocks += [] if place else weights(section)
    return Chapter([Part(TITLE, blocks)], files)


def parameters_of(row: Row, phase: str) -> dict[str, float]:
    """Component -> parameters, 0 where it has none; empty where none was counted."""
    means = {part: row.mean(f"{phase}/params_component_{part}") for part in metrics.PARAMETER_COMPONENTS}
    return {part: mean or 0.0 for part, mean in means.items()} if any(mean is not None for mean in means.values()) else {}


def weights(section: Section) -> list[Part]:
    """Where the parameters of arms on changed weights come from; empty where no arm has derived ones."""
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
    """Arms on weights that no pretraining of the study has trained yet; none where no arm has derived ones."""
    derived = {row.label: row.mean("model/params_derived") for row in section.rows}
    return [
        row
        for row in section.rows
        if row.mean("model/params_kept") is not None
        and (derived[row.label] or not any(run.origin is not None for run in row.runs))
        and any(derived.values())
    ]


def groups(comparison: Comparison) -> list[tuple[str, str, Section]]:
    """(heading, phase, section) of each distinct table of components, `phase` being model or published.

    Sections with the same rows share a table, whatever the size of their heads.
    """
    tables_of_parts = []
    for phase, where in PHASES.items():
        shared: list[tuple[set[tuple[object, ...]], list[Section]]] = []
        for section in sorted(comparison.selected, key=lambda section: -len(section.rows)):
            parts = {row.label: parameters_of(row, phase) for row in section.rows}
            counts = {(label, *(of | {"head": 0}).values()) for label, of in parts.items() if of}
            same = next((sections for of_first, sections in shared if counts <= of_first), None)
            if same:
                same.append(section)
            elif counts:
                shared.append((counts, [section]))
        for _, sections in shared:
            names = ", ".join(escape(section.name) for section in sections)
            tables_of_parts.append((where + (f": {names}" if len(shared) > 1 else ""), phase, sections[0]))
    return tables_of_parts


def components(section: Section, phase: str) -> Table:
    """Parameters by component, rows are the arms that have any. `phase` is model or published."""
    titles = {f"{phase}/params_component_{part}": name for part, name in metrics.PARAMETER_COMPONENTS.items()}
    titles |= {f"{phase}/params_total": "total"} | ({"model/params_effective": "effective"} if phase == "model" else {})
    names = present(section, titles)
    said = {row.label: structure.words(row.runs[0].params) for row in section.rows}
    told = any(row.runs[0].setting("model.encoder") and said[row.label] for row in section.rows)  # keys of ours name arms
    rows = [(row.label, [_count(section, row, name) for name in names]) for row in section.rows]
    having = [
        [escape(label), *cells, *([escape(said[label]) or DASH] if told else [])]
        for label, cells in rows
        if any(cell.unit for cell in cells)
    ]
    return formats.table(["arm", *(titles[name] for name in names), *([structure.TITLE] if told else [])], having)


def _count(section: Section, row: Row, name: str) -> Cell:
    """The number, and below it the change: in percent, or of what the baseline lacks in full."""
    count, before = row.mean(name), section.before.mean(name) if section.before else None
    cell = formats.cell(count, "parameters")
    if count is None or before is None or count == before:
        return cell
    change = formats.percent(100 * (count / before - 1)) if before else formats.difference(count, "parameters")
    return Cell(cell.text, cell.value, cell.unit, change)


def parameter_bars(comparison: Comparison, tables_of_parts: list[tuple[str, str, Section]]) -> Figure | None:
    """Parameters stacked by component, one panel for each (title, phase, section) in which arms differ; None without any."""
    drawn, panels = plots.drawn_arms(comparison), {}
    for heading, phase, section in tables_of_parts:
        arms = {row.label: counts for row in section.rows if row.label in drawn and (counts := parameters_of(row, phase))}
        if arms and (len(arms) == 1 or len({*map(tuple, (counts.items() for counts in arms.values()))}) > 1):
            panels[heading] = arms
    every = [counts for arms in panels.values() for counts in arms.values()]
    large = {
        part: colour
        for part, colour in PART_COLOURS.items()
        if any(counts[part] >= LEAST_SHARE * sum(counts.values()) for counts in every)
    }
    return _bars(panels, large)


def _bars(panels: Mapping[str, Mapping[str, Mapping[str, float]]], colours: dict[str, str]) -> Figure | None:
    """Title -> label of an arm -> numbers of its parts: bars of the parts that have a colour; the others are grey together.

    None without a panel.
    """
    if not panels:
        return None
    titles = metrics.PARAMETER_COMPONENTS
    figure, axes = plots.rows_of(panels.values(), 5.2)
    for panel, (title, arms) in zip(axes, panels.items(), strict=True):
        totals = np.array([sum(counts.values()) for counts in arms.values()])
        factor, letter = axis_unit("model/params_total", totals)
        stacked = {part: np.array([counts[part] for counts in arms.values()]) for part in colours}
        stacked["others"] = totals - sum(stacked.values())
        start = np.zeros(len(arms))
        for part, counts in stacked.items():
            colour, label = colours.get(part, "0.6"), titles.get(part, part)
            panel.barh(
                range(len(arms)), counts / factor, 0.75, start, label=label, color=colour, edgecolor="white", linewidth=0.4
            )
            start += counts / factor
        for place, total in enumerate(totals / factor):
            panel.annotate(f"{total:.3g}", (total, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        panel.margins(x=0.1)
        panel.set(title=title, xlabel=f"parameters ({letter})", axisbelow=True)
    shown = colours | ({"others": "0.6"} if any(stacked["others"] > 0) else {})
    handles = [Patch(color=colour, label=titles.get(part, part)) for part, colour in shown.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, 2 * len(panels)), frameon=False, fontsize=8)
    return figure


CHAPTER = Added(chapter, before=timing.chapter)
