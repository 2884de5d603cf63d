"""Pictures of all tasks: score against size and latency, and the curves of the training loss."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness import metrics
from reports import plots
from reports.compare import Comparison, Row, Section
from reports.plots import FAINT_LIMIT, ArmStyle, arm_styles, axis_unit, grid, handle, legend, mean_curve, scale_axis, smooth
from reports.study import Chapter, Curve, Study
from reports.tables import HEADLINE, MAJORITY, score_title

CAPTIONS = {
    "score_parameters.svg": "Score against parameters; error bars are one standard deviation over replicates",
    "score_latency.svg": "Score against latency; error bars are one standard deviation over replicates (latency: launches)",
    "loss.svg": "Training loss, mean over replicates at the steps that all have, smoothed over a twentieth of the curve",
}
TRAINING_LOSS = "finetune/loss"


def chapter(study: Study) -> Chapter:
    """Empty where there are no numbers for any of the pictures."""
    comparison, names = study.comparison, plots.panel_names(study.comparison)
    files = plots.drawn(
        {
            "score_parameters.svg": plots.draw(score_against, comparison, names, "model/params_total"),
            "score_latency.svg": plots.draw(score_against, comparison, names, "inference/latency_ms_p50"),
            "loss.svg": plots.draw(loss_curves, comparison, names, study.curve(TRAINING_LOSS)),
        }
    )
    return Chapter(["## Pictures", *plots.pictured(CAPTIONS, files)], files) if files else Chapter()


def score_against(comparison: Comparison, names: dict[int, str], metric: str) -> Figure | None:
    """Score against `metric`, one panel a section (`names` by its index); None where no run has both."""
    panels = {
        index: [row for row in section.rows if row.spread(HEADLINE) and row.spread(metric)]
        for index, section in enumerate(comparison.sections)
    }
    panels = {index: rows for index, rows in panels.items() if rows}
    if not panels:
        return None
    styles = arm_styles(comparison.labels)
    factor, letter = axis_unit(metric, [row.mean(metric) for rows in panels.values() for row in rows])
    figure, axes = grid(len(panels))
    drawn, constant = {}, []
    for panel, (index, rows) in zip(axes, panels.items(), strict=True):
        for row in rows:
            _point(panel, row, metric, factor, styles[row.label])
            drawn[row.label] = None
        scale_axis(panel, [row.mean(metric) / factor for row in rows])
        section = comparison.sections[index]
        constant = _constant(panel, section, [row.mean(HEADLINE) for row in rows]) or constant
        panel.set(title=names[index], xlabel=f"{metrics.get(metric).title} ({letter})", ylabel=score_title(section))
    legend(figure, [handle(label, styles[label]) for label in comparison.labels if label in drawn] + constant)
    return figure


def _point(axes: Axes, row: Row, metric: str, factor: float, arm: ArmStyle) -> None:
    x, y = row.spread(metric), row.spread(HEADLINE)
    sideways = None if metrics.get(metric).deterministic or x.sd is None else x.sd / factor
    size, front = (13, 4) if arm.marker == "*" else (7, 3)
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.6, "elinewidth": 0.9}
    marks = axes.errorbar(x.mean / factor, y.mean, y.sd, sideways, arm.marker, color=arm.colour, markersize=size, **edge)
    for artist in marks.get_children():
        artist.set(alpha=0.9, zorder=front)


def _constant(axes: Axes, section: Section, scores: list[float]) -> list[Line2D]:
    """The line at the score of the constant answer; a note in place of a line so far below that it would squeeze the points."""
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


def loss_curves(comparison: Comparison, names: dict[int, str], curves: Curve) -> Figure | None:
    """Training loss by step, mean over replicates, smoothed, and for few arms unsmoothed too; None without curves."""
    panels = {}
    for index, section in enumerate(comparison.sections):
        of_rows = {
            row.label: [curves[run.run_id] for run in row.runs.values() if curves.get(run.run_id)] for row in section.rows
        }
        means = {label: mean for label, of_seeds in of_rows.items() if of_seeds and len(mean := mean_curve(of_seeds)) > 1}
        if means:
            panels[index] = means
    if not panels:
        return None
    styles = arm_styles(comparison.labels)
    figure, axes = grid(len(panels), wide=4.2)
    for panel, (index, means) in zip(axes, panels.items(), strict=True):
        for label, mean in means.items():
            if len(means) <= FAINT_LIMIT:
                panel.plot(mean.x, mean.y, color=styles[label].colour, alpha=0.18, linewidth=0.8)
            front = 4 if label == comparison.baseline else 3
            panel.plot(
                mean.x, smooth(mean.y), color=styles[label].colour, linestyle=styles[label].line, linewidth=1.5, zorder=front
            )
        panel.set(title=names[index], xlabel="training step", ylabel="training loss")
    drawn = [label for label in comparison.labels if any(label in means for means in panels.values())]
    legend(figure, [handle(label, styles[label], line=True) for label in drawn])
    return figure
