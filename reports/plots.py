"""The report's pictures, as SVG that is the same byte for byte for the same numbers.

A variant has one colour, marker and line style in all pictures; the baseline is black. Colours are Okabe and Ito's, which
colour-blind readers can tell apart, and markers repeat with another period than colours do.
"""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from harness import metrics
from reports.compare import Comparison, Row, Section
from reports.formats import prefix
from reports.tables import HEADLINE, MAJORITY, score_title

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
PART_COLOURS = ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#F0E442", "#009E73", "#E69F00", "#000000")
STYLE = {"svg.hashsalt": "reports", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}
STYLE |= {"text.parse_math": False}
LOG_RANGE = 5
"""Largest over smallest value from which an axis is logarithmic."""
LOG_TICKS = ((20, (1, 2, 3, 5, 7)), (200, (1, 2, 5)))
"""Largest over smallest value below which a logarithmic axis has these ticks in every power of ten."""
CURVE_POINTS = 200
LEGEND_ROWS = 20
FAINT_LIMIT = 8
"""Up to so many variants the unsmoothed curves are drawn as well."""


@dataclass(frozen=True)
class Look:
    """How one variant is drawn."""

    colour: str
    marker: str
    line: str


def looks(labels: list[str]) -> dict[str, Look]:
    """A look for every label; the first label is the baseline's."""
    looks = {labels[0]: Look("black", "*", "-")}
    for index, label in enumerate(labels[1:]):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        looks[label] = Look(colour, marker, LINES[index // len(COLOURS) % len(LINES)])
    return looks


def panel_names(comparison: Comparison) -> dict[int, str]:
    """A title for each section's panel: its task, and its protocol where the task has several."""
    tasks = [section.task for section in comparison.sections]
    return {
        index: f"{section.task} ({section.protocol})" if tasks.count(section.task) > 1 else section.task
        for index, section in enumerate(comparison.sections)
    }


def svg(figure: Figure) -> bytes:
    """The picture without the date, so that equal numbers give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def grid(count: int, wide: float = 3.7, high: float = 3.1, most: int = 3, margin: float = 1.9) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels in rows of at most `most`, sizes in inches; `margin` is room for the legend."""
    across = min(count, most)
    down = math.ceil(count / across)
    figure = Figure(figsize=(wide * across + margin, high * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def scale_axis(axes: Axes, values: list[float]) -> None:
    """Logarithmic where the range is large, with plain numbers at the ticks."""
    if min(values) <= 0 or max(values) / min(values) < LOG_RANGE:
        axes.xaxis.set_major_locator(MaxNLocator(6))
        return
    axes.set_xscale("log")
    reach = max(values) / min(values)
    axes.xaxis.set_major_locator(LogLocator(subs=next((ticks for most, ticks in LOG_TICKS if reach < most), (1,))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, handles: list[Line2D]) -> None:
    """Outside of all panels, in columns of at most LEGEND_ROWS."""
    figure.legend(
        handles=handles, loc="outside right center", ncols=math.ceil(len(handles) / LEGEND_ROWS), frameon=False, fontsize=8
    )


def score_against(comparison: Comparison, names: dict[int, str], metric: str) -> Figure | None:
    """Score against `metric`, one panel a section (`names` by its index); None where no run has both."""
    panels = {
        index: [row for row in section.rows if row.spread(HEADLINE) and row.spread(metric)]
        for index, section in enumerate(comparison.sections)
    }
    panels = {index: rows for index, rows in panels.items() if rows}
    if not panels:
        return None
    look = looks(comparison.labels)
    factor, letter = _axis_unit(metric, [row.mean(metric) for rows in panels.values() for row in rows])
    figure, axes = grid(len(panels))
    drawn, constant = {}, []
    for panel, (index, rows) in zip(axes, panels.items(), strict=True):
        for row in rows:
            _point(panel, row, metric, factor, look[row.label])
            drawn[row.label] = None
        scale_axis(panel, [row.mean(metric) / factor for row in rows])
        section = comparison.sections[index]
        constant = _constant(panel, section, [row.mean(HEADLINE) for row in rows]) or constant
        panel.set(title=names[index], xlabel=f"{metrics.get(metric).title} ({letter})", ylabel=score_title(section))
        panel.grid(alpha=0.25)
    legend(figure, [handle(label, look[label]) for label in comparison.labels if label in drawn] + constant)
    return figure


def _axis_unit(metric: str, values: list[float]) -> tuple[float, str]:
    unit = metrics.get(metric).unit
    if unit != "parameters":
        return 1.0, unit
    factor, letter = prefix(max(values))
    return factor, {"": "count", "k": "thousands", "M": "millions", "G": "billions", "T": "trillions"}[letter]


def _point(axes: Axes, row: Row, metric: str, factor: float, look: Look) -> None:
    x, y = row.spread(metric), row.spread(HEADLINE)
    sideways = None if metrics.get(metric).deterministic or x.sd is None else x.sd / factor
    size, front = (13, 4) if look.marker == "*" else (7, 3)
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.6, "elinewidth": 0.9}
    marks = axes.errorbar(x.mean / factor, y.mean, y.sd, sideways, look.marker, color=look.colour, markersize=size, **edge)
    for artist in marks.get_children():
        artist.set(alpha=0.9, zorder=front)


def _constant(axes: Axes, section: Section, scores: list[float]) -> list[Line2D]:
    """The line at the score of the constant answer; none, but a word, where one so far below would squeeze the points."""
    constants = [score for row in section.rows for score in row.values(MAJORITY).values()]
    if not constants:
        return []
    level = max(constants)
    low, high = axes.get_ylim()
    if level >= min(scores) - (high - low):
        return [axes.axhline(level, color="0.5", linestyle=(0, (4, 3)), linewidth=1, label="constant answer")]
    axes.set_ylim(low - 0.12 * (high - low), high)
    place = {"xy": (0.98, 0.02), "xycoords": "axes fraction", "ha": "right", "va": "bottom"}
    axes.annotate(f"↓ constant answer {level:.3f}", color="0.35", fontsize=7.5, **place)
    return []


def handle(label: str, look: Look, line: bool = False, marked: bool = False) -> Line2D:
    """A legend's entry: a marker, or a line, which is marked only where that is asked for."""
    style = {"linestyle": look.line if line else "None", "marker": look.marker if marked or not line else "None"}
    return Line2D([], [], color=look.colour, markersize=9 if look.marker == "*" else 6, label=label, **style)


def mean_curve(curves: list[dict[int, float]]) -> pd.Series:
    """Step -> mean over the curves, at the steps that all of them have, in at most CURVE_POINTS bins."""
    shared = pd.DataFrame([pd.Series(curve) for curve in curves]).T.dropna().mean(axis=1).sort_index()
    if len(shared) <= CURVE_POINTS:
        return shared
    bins = np.arange(len(shared)) * CURVE_POINTS // len(shared)
    steps = pd.Series(shared.index, index=shared.index).groupby(bins).mean()
    return pd.Series(shared.groupby(bins).mean().to_numpy(), index=steps.to_numpy())


def smooth(curve: pd.Series) -> pd.Series:
    """Centred running mean over a twentieth of the curve."""
    return curve.rolling(max(1, len(curve) // 20), center=True, min_periods=1).mean()


def loss_curves(comparison: Comparison, names: dict[int, str], curves: dict[str, dict[int, float]]) -> Figure | None:
    """Training loss by step, mean over seeds, smoothed and (for few variants) as it was; None without curves."""
    panels = {}
    for index, section in enumerate(comparison.sections):
        seen = {row.label: [curves[run.run_id] for run in row.runs.values() if curves.get(run.run_id)] for row in section.rows}
        means = {label: mean for label, of_seeds in seen.items() if of_seeds and len(mean := mean_curve(of_seeds)) > 1}
        if means:
            panels[index] = means
    if not panels:
        return None
    look = looks(comparison.labels)
    figure, axes = grid(len(panels), wide=4.2)
    for panel, (index, means) in zip(axes, panels.items(), strict=True):
        for label, mean in means.items():
            if len(means) <= FAINT_LIMIT:
                panel.plot(mean.index, mean, color=look[label].colour, alpha=0.18, linewidth=0.8)
            front = 4 if label == comparison.baseline else 3
            panel.plot(
                mean.index, smooth(mean), color=look[label].colour, linestyle=look[label].line, linewidth=1.5, zorder=front
            )
        panel.set(title=names[index], xlabel="training step", ylabel="training loss")
        panel.grid(alpha=0.25)
    drawn = [label for label in comparison.labels if any(label in means for means in panels.values())]
    legend(figure, [handle(label, look[label], line=True) for label in drawn])
    return figure


def parameter_bars(panels: list[tuple[str, str, Section]]) -> Figure | None:
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
    factor, letter = _axis_unit("model/params_total", list(totals.values()))
    labels, start = list(parts), np.zeros(len(parts))
    for index, colour in enumerate(PART_COLOURS):
        widths = np.array([parts[label][index] for label in labels]) / factor
        axes.barh(labels, widths, left=start, color=colour, edgecolor="white", linewidth=0.4, height=0.75)
        start += widths
    for position, total in enumerate(start):
        axes.annotate(f"{total:.3g}", (total, position), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.margins(x=0.1)
    axes.set_xlabel(f"parameters ({letter})")
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)


def draw(make: Callable[..., Figure | None], *arguments: object) -> bytes | None:
    """The picture that `make` gives, as SVG in the report's style; None where it gives none."""
    with mpl.rc_context(STYLE):
        figure = make(*arguments)
        return svg(figure) if figure else None
