"""Parameters by component: where a variant saves or adds them, as tables and as a waterfall from the baseline."""

import textwrap
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness import metrics
from reports.comparison.compare import Comparison, Study
from reports.comparison.section import Row, Section
from reports.writing import formats, plots, tables
from reports.writing.formats import DASH, Chapter, escape
from reports.writing.plots import COLOURS, axis_unit, grid, short_names
from reports.writing.tables import present

MOST = 3
"""Variants of a table, and panels of its picture: a row that is read on a page."""
LOOKS = {"less": (COLOURS[0], None), "more": (COLOURS[1], "////"), "total": ("0.35", None)}
"""Kind of a bar -> colour and hatch: kinds are told apart in grey too."""
TITLE = 30
"""Letters of a line of a title above a panel."""
HEADER = ("variant", "component", "original", "variant's", "change", "percent")
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
    if section.before is None:
        return []
    before = parameters_of(section.before, phase)
    found = []
    for row in section.rows:
        after = parameters_of(row, phase)
        if row is not section.before and before and after:
            shown = [part for part in metrics.PARAMETER_COMPONENTS if before[part] or after[part]]
            found.append(Parts(row.label, *({part: counts[part] for part in shown} for counts in (before, after))))
    return sorted((one for one in found if one.changed), key=lambda one: -abs(one.change))


def parameters_of(row: Row, phase: str) -> dict[str, float]:
    """Component -> parameters, 0 where it has none; empty where none was counted."""
    means = {part: row.mean(f"{phase}/params_component_{part}") for part in metrics.PARAMETER_COMPONENTS}
    return {part: mean or 0.0 for part, mean in means.items()} if any(mean is not None for mean in means.values()) else {}


def table_of_changes(section: Section, phase: str) -> list[str]:
    """The table of the variants that change most, and which these are; empty where none differs in any component."""
    found = changed(section, phase)
    if not found:
        return []
    rows = [line for one in found[:MOST] for line in _lines(one)]
    return [*chosen_note(found), formats.table(list(HEADER), rows, left=2)]


def chosen_note(found: list[Parts]) -> list[str]:
    """Which variants are shown, where these are not all."""
    return [CHOSEN.format(count=len(found), most=MOST)] if len(found) > MOST else []


def _lines(one: Parts) -> list[list[str]]:
    numbers = [(metrics.PARAMETER_COMPONENTS[part], one.before[part], one.after[part]) for part in one.before]
    numbers.append(("**total**", sum(one.before.values()), sum(one.after.values())))
    return [[escape(one.label), name, *_texts(before, after)] for name, before, after in numbers]


def _texts(before: float, after: float) -> list[str]:
    share = formats.percent(100 * (after - before) / before) if before else DASH
    return [
        *(formats.value(count, "parameters") for count in (before, after)),
        formats.difference(after - before, "parameters"),
        share,
    ]


def waterfall(section: Section, phase: str) -> Figure | None:
    """From the baseline's total to that of each chosen variant, one bar a component that changes in any; None without any."""
    found = changed(section, phase)[:MOST]
    if not found:
        return None
    parts = [part for part in metrics.PARAMETER_COMPONENTS if any(part in one.changed for one in found)]
    factor, letter = axis_unit("model/params_total", [sum(one.before.values()) for one in found])
    across = len(found)
    short = short_names(row.label for row in section.rows)
    wide = 3.3 * across + 1.6 + plots.wider([short[section.baseline]])
    figure = Figure(figsize=(wide, 0.3 * (len(parts) + 2) + 1.1), layout="constrained")
    panels = figure.subplots(1, across, squeeze=False, sharex=True, sharey=True).ravel().tolist()
    for panel, one in zip(panels, found, strict=True):
        _steps(panel, one, parts, factor)
        panel.set_title("\n".join(textwrap.wrap(short[one.label], TITLE)))
        panel.set_xlabel(f"parameters ({letter})")
    names = [short[section.baseline], *(metrics.PARAMETER_COMPONENTS[part] for part in parts), "variant"]
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    panels[0].margins(x=0.22)
    return figure


def _steps(axes: Axes, one: Parts, parts: list[str], factor: float) -> None:
    """Bars from top to bottom, each beginning where the one above ends; its number beside it."""
    level, last = sum(one.before.values()), len(parts) + 1
    bars = [("total", 0.0, level, formats.value(level, "parameters"))]
    for part in parts:
        step = one.after.get(part, 0.0) - one.before.get(part, 0.0)
        low = min(level, level + step)
        bars.append(("less" if step < 0 else "more", low, abs(step), formats.difference(step, "parameters")))
        level += step
    bars.append(("total", 0.0, level, formats.value(level, "parameters")))
    for kind, (colour, hatch) in LOOKS.items():
        places = [place for place, bar in enumerate(bars) if bar[0] == kind and bar[2]]
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4, "height": 0.7, "label": kind}
        if places:
            widths, starts = ([bars[place][index] / factor for place in places] for index in (2, 1))
            axes.barh(places, widths, left=starts, **look)
    for place, (_, start, width, text) in enumerate(bars):
        axes.annotate(
            text, ((start + width) / factor, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8
        )
    for place, (kind, start, width, _) in enumerate(bars[:last]):
        end = (start + width if kind in ("more", "total") else start) / factor
        axes.plot([end, end], [place - 0.35, place + 1.35], color="0.5", linewidth=0.7, zorder=0)
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)


COMPONENTS = """\
The components add up to the total; *effective* counts a shared layer once for every use. Where several tasks share a table,
head and total are those of the first."""
PHASES = {"model": "at the dimensions that were run", "published": "at the published dimensions (BERT-base)"}
CAPTIONS = {
    "parameters.svg": "Parameters by component",
    "waterfall.svg": "From the baseline's parameters to the variant's, component by component, of at most "
    f"{MOST} variants, those whose total changes most; components that change in none are left out",
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
"""Share of an arm's parameters below which a component cannot be seen in a bar."""

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
        changes = table_of_changes(section, phase)
        paragraphs += [f"### {title}: changes by component", *changes] if changes else []
    files = plots.drawn(
        {
            "parameters.svg": (parameter_bars, _drawn(found, study.comparison)),
            "waterfall.svg": (waterfall, found[0][2], found[0][1]),
        }
    )
    return Chapter([*paragraphs, *plots.drawn_note(study.comparison), *plots.pictured(CAPTIONS, files)], files)


def groups(comparison: Comparison) -> list[Group]:
    """One for each distinct table of components; sections with the same rows share one, whatever the size of their heads."""
    found: list[Group] = []
    for phase, where in PHASES.items():
        shared: list[list[Section]] = []
        for section in sorted(comparison.selected, key=lambda section: -len(section.rows)):
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
    """The groups with the arms that pictures show."""
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
