"""Pictures of all tasks: score against size and latency, and the curves of the training loss."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.paired import grouped
from harness.comparison.section import HEADLINE, MAJORITY, Row, Section
from harness.document import Section as Part
from harness.metrics import judged_by
from harness.reports.reading.study import Curve, Study
from harness.reports.writing import plots, tables
from harness.reports.writing.formats import Chapter
from harness.reports.writing.plots import (
    ArmStyle,
    arm_styles,
    axis_unit,
    grid,
    handle,
    legend,
    mean_curve,
    same_span,
    scale_axis,
)
from harness.reports.writing.tables import score_title

CAPTIONS = {
    "score_parameters.svg": "Score against parameters; error bars are one standard deviation over replicates; all "
    "panels are equally high in points",
    "score_latency.svg": "Score against latency; error bars are one standard deviation over replicates (latency: launches)",
    "loss.svg": "Training loss, mean over replicates at the steps that all have, smoothed over a twentieth of the curve",
}
TRAINING_LOSS, TOTAL = "finetune/loss", "model/params_total"
ALIKE = "All arms have the same number of parameters, against which no score is drawn."
LEAST_SPAN = 0.10
"""An axis of scores spans at least 10 points, so that small differences look small."""
MARK, BASELINE = 7.0, 13.0
"""Sizes in points of 1/72 inch."""
RING, MOST_RINGS = 3.0, 4
"""How much larger a mark is than the one in front of it at nearly the same place, and up to how many such."""


def chapter(study: Study) -> Chapter:
    """Empty where there are no numbers for any of the pictures."""
    comparison, drawn = study.comparison, plots.drawn_arms(study.comparison)
    rows = [row for section in comparison.sections for row in section.rows if row.label in drawn]
    curves = study.curves_of([run for row in rows for run in row.runs], TRAINING_LOSS)
    files = plots.drawn(
        {
            "score_parameters.svg": (score_against, comparison, TOTAL),
            "score_latency.svg": (score_against, comparison, judged_by("inference/latency_ms_p50", comparison.has)),
            "loss.svg": (loss_curves, comparison, curves),
        }
    )
    having = [[row for row in section.rows if row.spread(TOTAL)] for section in comparison.sections]
    alike = [ALIKE] if "score_parameters.svg" not in files and any(_is_constant(rows, TOTAL) for rows in having) else []
    if not files:
        return Chapter()
    blocks = [*plots.drawn_note(comparison), *plots.pictured(CAPTIONS, files), *alike]
    return Chapter([Part("Pictures", blocks)], files)


def score_against(comparison: Comparison, metric: str) -> Figure | None:
    """Score against `metric`, one panel a section in which arms differ in it; None where no run has both, or none differ."""
    drawn, panels = plots.drawn_arms(comparison), []
    for section in comparison.sections:
        rows = [row for row in section.rows if row.label in drawn and row.spread(HEADLINE) and row.spread(metric)]
        if rows and not _is_constant(rows, metric):
            panels.append((section, {row.label: row for row in rows}))
    if not panels:
        return None
    costs = [row.mean(metric) for _, rows in panels for row in rows.values()]
    styles = arm_styles(comparison.labels)
    factor, letter = axis_unit(metric, costs)
    figure, axes = grid(len(panels))
    reached = [
        [row.mean(HEADLINE) + side * sd(row, HEADLINE) for row in rows.values() for side in (-1, 1)] for _, rows in panels
    ]
    same_span(axes, reached, LEAST_SPAN, highest=1.0)
    constants: list[Line2D] = []
    for panel, (section, rows) in zip(axes, panels, strict=True):
        scale_axis(panel, [row.mean(metric) / factor for row in rows.values()])
        panel.set(title=section.name, ylabel=score_title(section))
        panel.set(xlabel=f"{metrics.get(metric).title} ({letter})")
        _room_at_the_sides(panel, [(row.mean(metric), sd(row, metric)) for row in rows.values()], factor)
        constants += _constant(panel, section)
    handles = [handle(style) for label, style in styles.items() if any(label in rows for _, rows in panels)]
    legend(figure, handles + constants[:1])
    plots.lay_out(figure)  # which marks hide others is known in inches
    for panel, (_, rows) in zip(axes, panels, strict=True):
        points = [(row.mean(metric) / factor, row.mean(HEADLINE)) for row in rows.values()]
        for row, point, rings in zip(rows.values(), points, _rings(panel, points), strict=True):
            _point(panel, row, metric, factor, point, styles[row.label], rings)
    return figure


def _is_constant(rows: list[Row], metric: str) -> bool:
    """Whether several arms have the same value."""
    return len(rows) > 1 and len({row.mean(metric) for row in rows}) == 1


def _rings(axes: Axes, points: list[tuple[float, float]]) -> list[int]:
    """Of each mark how many of the later ones it would be hidden by: it is drawn larger behind them, at its own values."""
    places = axes.transData.transform(points) * 72 / axes.figure.dpi if points else np.empty((0, 2))
    near = np.linalg.norm(places[:, None] - places, axis=2) < MARK / 2
    behind = np.triu(near, 1).sum(axis=1)
    for index in np.flatnonzero(behind > MOST_RINGS):
        if not np.triu(near, 1)[:, index].any():  # the hindmost says how many there are
            text = f"{behind[index] + 1} arms"
            axes.annotate(text, points[index], xytext=(12, 4), textcoords="offset points", fontsize=7.5, color="0.35")
    return behind.clip(max=MOST_RINGS).tolist()


def sd(row: Row, metric: str) -> float:
    """Standard deviation of a measured metric; 0 of a counted one, or of a single value."""
    return 0.0 if metrics.get(metric).deterministic else row.spread(metric).sd or 0.0


def _room_at_the_sides(axes: Axes, bars: list[tuple[float, float]], factor: float) -> None:
    """A tenth of the axis on both sides of the error bars (mean, sd); a linear axis spans at least a fifth of the values."""
    to, back = axes.xaxis.get_transform(), axes.xaxis.get_transform().inverted()
    least = min(mean / factor for mean, _ in bars) / 10
    lowest = min(mean - deviation for mean, deviation in bars) / factor
    highest = max(mean + deviation for mean, deviation in bars) / factor
    low, high = to.transform([max(lowest, least), highest])
    least_room = (0.2 * abs(high) - (high - low)) / 2 if axes.get_xscale() == "linear" else 0.0
    room = max(0.12 * (high - low), least_room) or 1.0
    axes.set_xlim(*back.transform([low - room, high + room]))


def _point(axes: Axes, row: Row, metric: str, factor: float, point: tuple[float, float], arm: ArmStyle, rings: int) -> None:
    size = (BASELINE if arm.is_baseline else MARK) + RING * rings
    style = {"color": arm.colour}
    (x, y), across, up = point, sd(row, metric) / factor, sd(row, HEADLINE)
    if across:  # behind the marks of all arms: one of an equal value would be struck through
        axes.plot([x - across, x + across], [y, y], linewidth=0.9, **style)
    if up:
        axes.plot([x, x], [y - up, y + up], linewidth=0.9, **style)
    style |= {
        "zorder": 4 - rings / (MOST_RINGS + 1),
        "markersize": size,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "clip_on": False,
    }
    values = [f"{metrics.get(name).title}: {tables.value(row, name).text}" for name in (metric, HEADLINE)]
    axes.plot(x, y, arm.marker, label="\n".join([row.label, *values]), **style)


def _constant(axes: Axes, section: Section) -> list[Line2D]:
    """The line at the score of the constant answer; a note in place of a line that would be outside."""
    constants = [score for row in section.rows for score in row.values(MAJORITY).values()]
    if not constants:
        return []
    level = max(constants)
    low, high = axes.get_ylim()
    if low <= level <= high:
        return [axes.axhline(level, color="0.5", linestyle=(0, (4, 3)), linewidth=1, label="constant answer")]
    place = {"xy": (0.98, 0.02), "xycoords": "axes fraction", "ha": "right", "va": "bottom"}
    axes.annotate(f"{'↓' if level < low else '↑'} constant answer {level:.3f}", color="0.35", fontsize=7.5, **place)
    return []


def loss_curves(comparison: Comparison, curves: Curve) -> Figure | None:
    """Training loss by step, mean over replicates, smoothed, and for few arms unsmoothed too; None without curves."""
    panels, kinds, drawn = {}, [], plots.drawn_arms(comparison)
    for section in comparison.sections:
        means = {}
        for row in section.rows:
            of_seeds = [curves[run.run_id] for run in row.runs if curves.get(run.run_id)]
            if row.label in drawn and of_seeds and len(mean := mean_curve(of_seeds)) > 1:
                means[row.label] = mean
        if means:
            panels[section.name] = means
            kinds.append(section.runs[0].params.get("task.kind"))
    if not panels:
        return None
    figure = plots.panels_of_lines(comparison.labels, panels, plots.draw_smoothed, False, 4.2)
    for of_kind in grouped(zip(kinds, figure.axes, strict=False)).values():  # squared errors are larger than cross-entropies
        lows, highs = zip(*(panel.get_ylim() for panel in of_kind), strict=True)
        for panel in of_kind:
            panel.set(ylim=(min(0, *lows), max(highs)), xlabel="training step", ylabel="training loss")
    return figure
