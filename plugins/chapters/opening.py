"""Opening of the report besides its table: a picture of all changes, and a curve along the swept number."""

import math
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from harness.comparison.compare import Comparison
from harness.comparison.paired import grouped
from harness.comparison.verdicts import Verdict
from harness.document import Section
from harness.plugins.chapters import along
from harness.plugins.pictures import plots
from harness.records import shipped
from harness.reports.chapters import Added
from harness.reports.reading.study import Study
from harness.reports.writing import findings, formats
from harness.reports.writing.findings import Effect
from harness.reports.writing.formats import POINTS, SHARES, Chapter
from harness.reports.writing.tables import size_text, verdict_text

CAPTION = (
    "Changes against the baseline with 95 % intervals (90 % where equivalent, as TOST uses), each panel on its own scale. "
    "Filled: better or worse; hollow: inconclusive or equivalent; grey band: changes smaller than one validation item "
    "or, for training memory, than the A/A difference"
)
LOOKS = shipped(__file__, dict[Verdict, tuple[str, dict[str, Any]]])
"""Verdict -> what the legend says, and the look of the mark."""
LEAST = {"score": 2.0, "share": 2.0, "nats": 0.05, "bits/byte": 0.05}
"""Unit -> half the width of its axis at least, so that small changes are shown as small; other units are drawn as ratios."""
LEAST_RATIO = 1.1
MOST_RATIO = 1000.0
"""Times the change itself up to which its interval is drawn: one over few noisy replicates may reach 0, or infinity."""


def chapter(study: Study) -> Chapter:
    """Pictures, of a number that is swept first."""
    comparison = study.comparison
    curves, files = along.curves(comparison)
    changes, of_changes = plots.drawn({"changes.svg": (CAPTION, change_picture, comparison)})
    return Chapter([Section("", [*plots.drawn_note(comparison), *curves, *changes])], files | of_changes)


def change_picture(comparison: Comparison) -> Figure | None:
    """Without what is the same in all arms; None where nothing has changed against a baseline."""
    drawn = plots.drawn_arms(comparison)
    of_metrics = grouped((effect.name, effect) for effect in findings.effects(comparison)).values()
    differing = [of_metric for of_metric in of_metrics if any(effect.change.absolute for effect in of_metric)]
    effects = [effect for of_metric in differing for effect in of_metric if effect.label in drawn]
    if not effects:
        return None
    panels = grouped((effect.name, effect) for effect in effects)
    labels = [label for label in comparison.labels if any(effect.label == label for effect in effects)]
    short = plots.short_names(comparison.labels)
    names = [short[label] for label in labels]
    figure, axes = plots.rows([names] * len(panels), wide=2.9, margin=1.3 + plots.wider(names), most=3, sharey=True)
    figure.set_layout_engine("constrained", w_pad=0.12)  # between the values of a panel and the next one
    for panel, of_metric in zip(axes, panels.values(), strict=True):
        _panel(panel, labels, of_metric)
    looks = dict(LOOKS[effect.change.verdict or Verdict.OPEN] for effect in effects)
    handles: list[Artist] = [Line2D([], [], label=text, linestyle="None", **look) for text, look in looks.items()]
    band = any(effect.change.evidence and effect.change.evidence.least for effect in effects)
    handles += [Patch(color="0.88", label="one item, or A/A difference")] if band else []
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def is_ratio(effect: Effect) -> bool:
    """Whether it is drawn on an axis of ratios."""
    return effect.unit not in LEAST and effect.change.baseline_mean > 0


def ends(effect: Effect) -> list[float]:
    """Places of the change and of its interval's ends: a ratio, points, or its own unit."""
    change = effect.change
    values = (change.absolute, *(change.interval or ()))
    if is_ratio(effect):
        middle, *both = (1 + value / change.baseline_mean for value in values)
        return [middle, *(min(max(end, middle / MOST_RATIO), middle * MOST_RATIO) for end in both)]
    return [POINTS * value if effect.unit in SHARES else value for value in values]


def _panel(axes: Axes, labels: list[str], effects: list[Effect]) -> None:
    """One line for each of the arms."""
    first, by_ratio = effects[0], is_ratio(effects[0])
    axes.axvline(float(by_ratio), color="0.2", linewidth=0.8, zorder=1)
    for effect in effects:
        row, change, (middle, *interval) = labels.index(effect.label), effect.change, ends(effect)
        if change.evidence and change.evidence.least:
            half = POINTS * change.evidence.least if effect.unit in SHARES and not by_ratio else change.evidence.least
            band = (math.exp(-half), math.exp(half)) if by_ratio else (-half, half)
            axes.fill_betweenx([row - 0.4, row + 0.4], *band, color="0.88", linewidth=0, zorder=0)
        look = LOOKS[change.verdict or Verdict.OPEN][1]
        if interval:
            axes.plot(interval, [row, row], color=look["color"], linewidth=1.4, solid_capstyle="butt", zorder=2)
        label = f"{effect.label}\n{size_text(change, effect.unit)} {verdict_text(change, effect.unit)}"
        axes.plot([middle], [row], label=label, linestyle="none", markersize=6.5, zorder=3, clip_on=False, **look)
        number = formats.percent(change.percent) if by_ratio else formats.difference(change.absolute, effect.unit)
        across = axes.get_yaxis_transform()
        axes.annotate(number, (1.02, row), fontsize=7.5, xycoords=across, va="center", annotation_clip=False)
        axes.plot([0, 1.01], [row, row], transform=across, color="0.93", linewidth=0.8, zorder=0, clip_on=False)
    axes.spines["left"].set_visible(False)  # beside it, the values of the panel before would read as its ticks
    axes.tick_params(axis="y", length=0)
    if by_ratio:
        ratios = [1 / LEAST_RATIO, LEAST_RATIO, *(end for effect in effects for end in ends(effect))]
        room = (max(ratios) / min(ratios)) ** 0.06
        axes.set(xscale="log", xlim=(min(ratios) / room, max(ratios) * room))
        decades, as_factors = math.log10(max(ratios) / min(ratios)), min(ratios) < 0.02 or max(ratios) > 9
        powers = FixedLocator([10.0 ** (place * math.ceil(decades / 4)) for place in range(-9, 10)])
        if decades < 0.4:
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))  # all of these have a tick at 1
        else:
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 1.3 else (1, 3)) if decades < 2 else powers)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda ratio, _: _factor(ratio) if as_factors else formats.signed(100 * (ratio - 1), 0))
        unit = "ratio" if as_factors else "%"
    else:
        unit = "points" if first.unit in SHARES else first.unit
        half = 1.12 * max(LEAST.get(first.unit, 0.0), *(abs(end) for effect in effects for end in ends(effect)))
        axes.set_xlim(-half, half)
        axes.locator_params(axis="x", nbins=5)
    axes.set_title(f"{first.name} ({unit})", loc="left", fontsize=9)


def _factor(ratio: float) -> str:
    """`×10`, `×1`, `÷10k`."""
    factor, letter = formats.prefix(max(ratio, 1 / ratio))
    return f"{'÷' if ratio < 1 else '×'}{max(ratio, 1 / ratio) / factor:.3g}{letter}"


CHAPTER = Added(chapter, before=None)
