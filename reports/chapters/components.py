"""Parameters by component: where a change of the architecture saves or adds them."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness import metrics
from reports.chapters import component_changes
from reports.comparison.compare import Comparison
from reports.comparison.section import Row, Section
from reports.comparison.selection import selected
from reports.comparison.study import Study
from reports.writing import formats, plots, tables
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape
from reports.writing.plots import axis_unit, grid
from reports.writing.short_names import short_names
from reports.writing.tables import present

COMPONENTS = """\
The components add up to the total; *effective* counts a shared layer once for every use. Where several tasks share a table,
head and total are those of the first."""
PHASES = {"model": "at the dimensions that were run", "published": "at the published dimensions (BERT-base)"}
CAPTIONS = {
    "parameters.svg": "Parameters by component",
    "waterfall.svg": "From the baseline's parameters to the variant's, component by component, of at most "
    f"{component_changes.MOST} variants, those whose total changes most; components that change in none are left out",
}
PART_COLOURS = dict(
    zip(
        metrics.PARAMETER_COMPONENTS,
        ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#F0E442", "#009E73", "#E69F00", "#000000"),
        strict=True,
    )
)
SMALL_COLOUR = "0.6"
LEAST_SHARE = 0.02
"""Of an arm's parameters, below which a component cannot be seen in a bar."""

Group = tuple[str, str, Section]
"""Heading, phase (model or published) and section of one table."""


def chapter(study: Study) -> Chapter:
    """Empty where no run has its components counted."""
    found = groups(study.comparison)
    if not found:
        return Chapter()
    paragraphs = ["## Parameters by component", COMPONENTS]
    for heading, phase, section in found:
        title = f"{heading[0].upper()}{heading[1:]}"
        paragraphs += [f"### {title}", components(section, phase)]
        changes = component_changes.paragraphs(section, phase)
        paragraphs += [f"### {title}: changes by component", *changes] if changes else []
    files = plots.drawn(
        {
            "parameters.svg": plots.draw(parameter_bars, _drawn(found, study.comparison)),
            "waterfall.svg": plots.draw(component_changes.waterfall, found[0][2], found[0][1]),
        }
    )
    return Chapter([*paragraphs, *plots.drawn_note(study.comparison), *plots.pictured(CAPTIONS, files)], files)


def groups(comparison: Comparison) -> list[Group]:
    """One for each distinct table of components; sections with the same rows share one, whatever the size of their heads."""
    found: list[Group] = []
    for phase, where in PHASES.items():
        shared: list[list[Section]] = []
        for section in sorted(selected(comparison), key=lambda section: -len(section.rows)):
            counts = encoder_counts(section, phase)
            home = next((group for group in shared if counts <= encoder_counts(group[0], phase)), None)
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


def encoder_counts(section: Section, phase: str) -> set[tuple[object, ...]]:
    """(label, count of each component but the head) of the rows that have any; empty where no run has them."""
    names = [name for name in component_names(phase) if not name.endswith(("_head", "_total"))]
    rows = {(row.label, *(row.mean(name) for name in names)) for row in section.rows}
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


def _drawn(groups: list[Group], comparison: Comparison) -> list[Group]:
    """The same with the arms that pictures show."""
    chosen = plots.drawn_arms(comparison)
    return [
        (heading, phase, replace(section, rows=tuple(row for row in section.rows if row.label in chosen)))
        for heading, phase, section in groups
    ]


def parameter_bars(panels: list[Group]) -> Figure | None:
    """Parameters stacked by component, one panel for each (title, phase, section); None without components."""
    panels = [panel for panel in panels if _parts(*panel[1:])]
    if not panels:
        return None
    tallest = max(len(section.rows) for _, _, section in panels)
    counts = [_parts(phase, section) for _, phase, section in panels]
    wide = 5.2 + plots.wider(name for parts in counts for name in parts)
    figure, axes = grid(len(panels), wide=wide, high=1.5 + 0.27 * tallest, most=2, margin=0)
    large = _visible(counts)
    for panel, (heading, _, _), parts in zip(axes, panels, counts, strict=True):
        _stack(panel, parts, large)
        panel.set_ylim(tallest - 0.4, -0.6)
        panel.set_title(heading)
    handles = [Patch(color=PART_COLOURS[part], label=metrics.PARAMETER_COMPONENTS[part]) for part in large]
    if len(large) < len(PART_COLOURS):
        handles.append(Patch(color=SMALL_COLOUR, label=f"others, each below {100 * LEAST_SHARE:.0f} %"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, 2 * len(panels)), frameon=False, fontsize=8)
    return figure


def _parts(phase: str, section: Section) -> dict[str, dict[str, float]]:
    """Name in the picture -> parameters of each component, 0 where it has none; only rows that have components at all."""
    short = short_names(row.label for row in section.rows)
    names = {part: f"{phase}/params_component_{part}" for part in metrics.PARAMETER_COMPONENTS}
    return {
        short[row.label]: {part: row.mean(name) or 0.0 for part, name in names.items()}
        for row in section.rows
        if any(row.values(name) for name in names.values())
    }


def _visible(panels: list[dict[str, dict[str, float]]]) -> list[str]:
    """Components that are a share of LEAST_SHARE of any arm; the others are too narrow to be seen."""
    arms = [counts for parts in panels for counts in parts.values()]
    return [part for part in metrics.PARAMETER_COMPONENTS if any(arm[part] >= LEAST_SHARE * sum(arm.values()) for arm in arms)]


def _stack(axes: Axes, parts: dict[str, dict[str, float]], large: list[str]) -> None:
    totals = {label: sum(counts.values()) for label, counts in parts.items()}
    factor, letter = axis_unit("model/params_total", list(totals.values()))
    stacked = [(part, {label: counts[part] for label, counts in parts.items()}) for part in large]
    rest = {label: totals[label] - sum(counts[part] for part in large) for label, counts in parts.items()}
    labels, start = list(parts), np.zeros(len(parts))
    for part, counts in [*stacked, ("", rest)]:
        widths = np.array([counts[label] for label in labels]) / factor
        look = {"color": PART_COLOURS.get(part, SMALL_COLOUR), "edgecolor": "white", "linewidth": 0.4, "height": 0.75}
        axes.barh(labels, widths, left=start, label=metrics.PARAMETER_COMPONENTS.get(part, "others"), **look)
        start += widths
    for position, total in enumerate(start):
        axes.annotate(f"{total:.3g}", (total, position), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.margins(x=0.1)
    axes.set_xlabel(f"parameters ({letter})")
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
