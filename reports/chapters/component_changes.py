"""Where a variant saves or adds parameters: component, original, variant and change, and a waterfall from one to the other."""

import textwrap
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from reports.comparison.section import Row, Section
from reports.writing import formats, plots
from reports.writing.formats import DASH, escape
from reports.writing.plots import COLOURS, axis_unit
from reports.writing.short_names import short_names

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
        """Of the total."""
        return sum(self.after.values()) - sum(self.before.values())

    @property
    def changed(self) -> list[str]:
        """Components whose number differs, in the order of the model."""
        return [part for part in self.before if self.before[part] != self.after[part]]


def changed(section: Section, phase: str) -> list[Parts]:
    """Variants of which some component differs from the baseline's, the largest change of the total first."""
    if section.before is None:
        return []
    before = _counts(section.before, phase)
    found = []
    for row in section.rows:
        after = _counts(row, phase)
        if row is not section.before and before and after:
            shown = [part for part in metrics.PARAMETER_COMPONENTS if before[part] or after[part]]
            found.append(Parts(row.label, *({part: counts[part] for part in shown} for counts in (before, after))))
    return sorted((one for one in found if one.changed), key=lambda one: -abs(one.change))


def _counts(row: Row, phase: str) -> dict[str, float]:
    """Component -> parameters, 0 where it has none; empty where none was counted."""
    means = {part: row.mean(f"{phase}/params_component_{part}") for part in metrics.PARAMETER_COMPONENTS}
    return {part: mean or 0.0 for part, mean in means.items()} if any(mean is not None for mean in means.values()) else {}


def paragraphs(section: Section, phase: str) -> list[str]:
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
