"""The picture of all changes: one panel a metric, one line an arm, ratios on one shared axis."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.comparison.compare import Comparison
from reports.comparison.statistics import Verdict
from reports.writing import findings, formats, plots
from reports.writing.findings import Effect
from reports.writing.formats import POINTS, SHARES
from reports.writing.plots import COLOURS
from reports.writing.short_names import short_names
from reports.writing.verdicts import size_text, verdict_text

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
ROW, HEAD, WIDE = 0.27, 0.85, 2.75


def changes(comparison: Comparison) -> Figure | None:
    """None where nothing has changed against a baseline."""
    chosen = plots.drawn_arms(comparison)
    found = [one for one in findings.effects(comparison) if one.label in chosen]
    names = list(dict.fromkeys(one.name for one in found))
    labels = [label for label in comparison.labels if any(one.label == label for one in found)]
    if not names or not labels:
        return None
    across, down = min(len(names), ACROSS), math.ceil(len(names) / ACROSS)
    short = short_names(comparison.labels)
    wide = WIDE * across + 1.2 + plots.wider(short[label] for label in labels)
    figure = Figure(figsize=(wide, (ROW * len(labels) + HEAD) * down + 0.4), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel().tolist()
    limits = _shared_limits(found)
    for panel, name in zip(panels, names, strict=False):
        _panel(panel, {label: short[label] for label in labels}, [one for one in found if one.name == name], limits)
    for unused in panels[len(names) :]:
        unused.set_visible(False)
    figure.legend(handles=_legend(found), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


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


def _shared_limits(found: list[Effect]) -> tuple[float, float]:
    reached = [end for one in found if is_ratio(one) for end in ends(one)] or [0.0]
    low, high = min(*reached, -LEAST), max(*reached, LEAST)
    room = 0.06 * (high - low)
    return low - room, high + room


def _panel(axes: Axes, arms: dict[str, str], here: list[Effect], limits: tuple[float, float]) -> None:
    """One line for each of the arms, from a label to its name in the picture."""
    axes.axvline(0, color="0.2", linewidth=0.8, zorder=1)
    rows = {label: row for row, label in enumerate(arms)}
    for effect in here:
        row = rows[effect.label]
        _band(axes, effect, row)
        _mark(axes, effect, row)
        axes.annotate(
            _number(effect), (1.02, row), xycoords=axes.get_yaxis_transform(), va="center", fontsize=7.5, annotation_clip=False
        )
    unit = "%" if is_ratio(here[0]) else "points" if here[0].unit in SHARES else here[0].unit
    axes.set_title(f"{here[0].name} ({unit})", loc="left", fontsize=9)
    axes.set_yticks(range(len(arms)), list(arms.values()))
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.grid(False, axis="y")
    if is_ratio(here[0]):
        axes.set_xlim(limits)
        _percent_ticks(axes, limits)
    else:
        reached = max(abs(end) for one in here for end in ends(one))
        half = 1.12 * max(reached, LEAST_POINTS if unit == "points" else LEAST_NATS)
        axes.set_xlim(-half, half)
        axes.locator_params(axis="x", nbins=5)


def _number(effect: Effect) -> str:
    change = effect.change
    return formats.percent(change.percent) if is_ratio(effect) else formats.difference(change.absolute, effect.unit)


def _percent_ticks(axes: Axes, limits: tuple[float, float]) -> None:
    """At most four beside 0, evenly spread over the axis as far as round percentages allow."""
    inside = [tick for tick in TICKS if limits[0] <= math.log1p(tick / 100) <= limits[1]]
    least, kept = (limits[1] - limits[0]) / 4, [0]
    for tick in sorted(inside, key=lambda tick: (abs(tick) not in (50, 90, 100), abs(tick))):
        if all(abs(math.log1p(tick / 100) - math.log1p(other / 100)) >= least for other in kept):
            kept.append(tick)
    axes.set_xticks([math.log1p(tick / 100) for tick in kept], [_tick_text(tick) for tick in kept])


def _tick_text(tick: int) -> str:
    factor, letter = formats.prefix(1 + tick / 100)
    return formats.signed(tick, 0) if tick < 900 else f"×{(1 + tick / 100) / factor:g}{letter}"


def _band(axes: Axes, effect: Effect, row: int) -> None:
    """What equal things may differ by: the noise floor, or one item of the validation data."""
    evidence = effect.change.evidence
    if evidence is None or not evidence.least:
        return
    half = POINTS * evidence.least if effect.unit in SHARES and not evidence.ratio else evidence.least
    axes.fill_betweenx([row - 0.4, row + 0.4], -half, half, color="0.88", linewidth=0, zorder=0)


def _mark(axes: Axes, effect: Effect, row: int) -> None:
    middle, *interval = ends(effect)
    marker, colour, filled, _ = MARKS.get(effect.change.verdict, MARKS[Verdict.OPEN])
    if interval:
        axes.plot(interval, [row, row], color=colour, linewidth=1.4, solid_capstyle="butt", zorder=2)
    face = colour if filled else "white"
    look = {"color": colour, "markerfacecolor": face, "markersize": 6.5, "zorder": 3, "clip_on": False}
    says = f"{size_text(effect.change, effect.unit)} {verdict_text(effect.change, effect.unit)}"
    axes.plot([middle], [row], marker, label=f"{effect.label}\n{says}", **look)


def _legend(found: list[Effect]) -> list[Line2D | Patch]:
    shown = {one.change.verdict for one in found}
    handles = {}
    for verdict, (marker, colour, filled, text) in MARKS.items():
        if verdict in shown and text not in handles:
            face = colour if filled else "white"
            handles[text] = Line2D([], [], linestyle="None", marker=marker, color=colour, markerfacecolor=face, label=text)
    band = any(one.change.evidence and one.change.evidence.least for one in found)
    return [*handles.values(), *([Patch(color="0.88", label="noise floor, or one item")] if band else [])]
