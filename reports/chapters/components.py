"""Parameters by component: where a change of the architecture saves or adds them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness import metrics
from reports import formats, plots, tables
from reports.compare import Comparison, Row, Section
from reports.formats import DASH, escape
from reports.plots import axis_unit, grid
from reports.study import Chapter, Study
from reports.tables import present

COMPONENTS = "The components add up to the total; *effective* counts a shared layer once for every use."
PHASES = {"model": "at the dimensions that were run", "published": "at the published dimensions (BERT-base)"}
CAPTIONS = {"parameters.svg": "Parameters by component"}
PART_COLOURS = ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#F0E442", "#009E73", "#E69F00", "#000000")

Group = tuple[str, str, Section]
"""Heading, phase (model or published) and section of one table."""


def chapter(study: Study) -> Chapter:
    """Empty where no run has its components counted."""
    found = groups(study.comparison)
    if not found:
        return Chapter()
    paragraphs = ["## Parameters by component", COMPONENTS]
    for heading, phase, section in found:
        paragraphs += [f"### {heading[0].upper()}{heading[1:]}", components(section, phase)]
    files = plots.drawn({"parameters.svg": plots.draw(parameter_bars, found)})
    return Chapter([*paragraphs, *plots.pictured(CAPTIONS, files)], files)


def groups(comparison: Comparison) -> list[Group]:
    """One for each distinct table of components; sections with the same rows share one."""
    found: list[Group] = []
    for phase, where in PHASES.items():
        shared: list[list[Section]] = []
        for section in sorted(comparison.sections, key=lambda section: -len(section.rows)):
            counts = component_counts(section, phase)
            home = next((group for group in shared if counts <= component_counts(group[0], phase)), None)
            if home:
                home.append(section)
            elif counts:
                shared.append([section])
        for group in shared:
            names = ", ".join(tables.section_name(comparison, section) for section in group)
            found.append((where + (f": {names}" if len(shared) > 1 else ""), phase, group[0]))
    return found


def component_names(phase: str) -> dict[str, str]:
    """Metric -> column of a component table; `phase` is model or published."""
    parts = {f"{phase}/params_component_{part}": text for part, text in metrics.PARAMETER_COMPONENTS.items()}
    return parts | {f"{phase}/params_total": "total"}


def component_counts(section: Section, phase: str) -> set[tuple[object, ...]]:
    """(label, count of each component, total) of the rows that have any; empty where no run has them."""
    rows = {(row.label, *(row.mean(name) for name in component_names(phase))) for row in section.rows}
    return {row for row in rows if any(count is not None for count in row[1:])}


def components(section: Section, phase: str) -> str | None:
    """Parameters by component, rows are arms; None where no run has them. `phase` is model or published."""
    parts, total = component_names(phase), f"{phase}/params_total"
    names = present(section, parts)
    if not names:
        return None
    effective = present(section, ["model/params_effective"]) if phase == "model" else []
    header = ["arm", *(parts[name] for name in names), "change of total", *("effective" for _ in effective)]
    rows = [
        [escape(row.label), *_counts(row, names), _reduction(section, row, total), *_counts(row, effective)]
        for row in section.rows
        if any(row.values(name) for name in names)
    ]
    return formats.table(header, rows)


def _counts(row: Row, names: list[str]) -> list[str]:
    means = [row.mean(name) for name in names]
    return [DASH if mean is None else formats.value(mean, "parameters") for mean in means]


def _reduction(section: Section, row: Row, total: str) -> str:
    change = section.change(row, total)
    return formats.percent(change.percent) if change else DASH


def parameter_bars(panels: list[Group]) -> Figure | None:
    """Parameters stacked by component, one panel for each (title, phase, section); None without components."""
    panels = [panel for panel in panels if _parts(*panel[1:])]
    if not panels:
        return None
    tallest = max(len(section.rows) for _, _, section in panels)
    figure, axes = grid(len(panels), wide=5.2, high=1.5 + 0.27 * tallest, most=2, margin=0)
    for panel, (heading, phase, section) in zip(axes, panels, strict=True):
        _stack(panel, _parts(phase, section))
        panel.set_ylim(tallest - 0.4, -0.6)
        panel.set_title(heading)
    handles = [
        Patch(color=colour, label=text)
        for colour, text in zip(PART_COLOURS, metrics.PARAMETER_COMPONENTS.values(), strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _parts(phase: str, section: Section) -> dict[str, list[float]]:
    """Label -> parameters of each component, 0 where it has none; only rows that have components at all."""
    names = [f"{phase}/params_component_{part}" for part in metrics.PARAMETER_COMPONENTS]
    return {
        row.label: [row.mean(name) or 0.0 for name in names] for row in section.rows if any(row.values(name) for name in names)
    }


def _stack(axes: Axes, parts: dict[str, list[float]]) -> None:
    totals = {label: sum(counts) for label, counts in parts.items()}
    factor, letter = axis_unit("model/params_total", list(totals.values()))
    labels, start = list(parts), np.zeros(len(parts))
    for index, colour in enumerate(PART_COLOURS):
        widths = np.array([parts[label][index] for label in labels]) / factor
        axes.barh(labels, widths, left=start, color=colour, edgecolor="white", linewidth=0.4, height=0.75)
        start += widths
    for position, total in enumerate(start):
        axes.annotate(f"{total:.3g}", (total, position), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.margins(x=0.1)
    axes.set_xlabel(f"parameters ({letter})")
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
