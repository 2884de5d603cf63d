"""Pictures of all tasks: score against size and latency, and the curves of the training loss."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.paired import Spread
from harness.comparison.section import HEADLINE, MAJORITY, Section
from harness.document import Section as Part
from harness.metrics import judged_by
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle, Line
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Curve, Study
from harness.reports.writing.formats import Chapter
from harness.reports.writing.tables import score_title

PARAMETERS = (
    "Score against parameters; error bars are one standard deviation over seeds; all panels span the same number of points"
)
LATENCY = "Score against latency; error bars are one standard deviation over seeds (latency: launches)"
LOSS = "Training loss, mean over seeds at the steps common to all runs; 5 % smoothing window"
Point = tuple[Spread, Spread]
"""Cost and score of an arm."""

LEAST_SPAN = 0.10
"""An axis of scores spans at least 10 points, so that small differences look small."""


def chapter(study: Study) -> Chapter:
    """Empty where there are no numbers for any of the pictures."""
    comparison, drawn = study.comparison, plots.drawn_arms(study.comparison)
    rows = [row for section in comparison.sections for row in section.rows if row.label in drawn]
    curves = study.curves_of([run for row in rows for run in row.runs], "finetune/loss")
    pictures, files = plots.drawn(
        {
            "score_parameters.svg": (PARAMETERS, score_against, comparison, "model/params_total"),
            "score_latency.svg": (LATENCY, score_against, comparison, judged_by("inference/latency_ms_p50", comparison.has)),
            "loss.svg": (LOSS, loss_curves, comparison, curves),
        }
    )
    return Chapter([Part("Pictures", [*plots.drawn_note(comparison), *pictures])] if files else [], files)


def score_against(comparison: Comparison, metric: str) -> Figure | None:
    """Score against `metric`, one panel a section in which arms differ in it; None where no run has both, or none differ."""
    drawn = plots.drawn_arms(comparison)
    panels = {}
    for section in comparison.sections:
        points = {
            row.label: (cost, score)
            for row in section.rows
            if row.label in drawn and (cost := row.spread(metric)) and (score := row.spread(HEADLINE))
        }
        if len(points) == 1 or len({cost.mean for cost, _ in points.values()}) > 1:
            panels[section.name] = points
    if not panels:
        return None
    factor, unit = plots.axis_unit(metric, [cost.mean for points in panels.values() for cost, _ in points.values()])
    sections = {section.name: section for section in comparison.sections}

    def draw(axes: Axes, name: str, points: Mapping[ArmStyle, Point]) -> None:
        for place, (arm, (cost, score)) in enumerate(points.items()):
            point, bars = (cost.mean / factor, score.mean), (_sd(cost, metric) / factor, _sd(score, HEADLINE))
            size = 13 if arm.is_baseline else max(5, 10 - place)  # none hides another one
            look = {"linestyle": "none", "clip_on": False, "markersize": size, "zorder": 3 + place / 100}
            plots.series(axes, arm, *([value] for value in point), *([bar] for bar in bars), **look)
        plots.scale_axis(axes.xaxis, [cost.mean / factor for cost, _ in points.values()])
        axes.margins(x=0.12)
        if axes.get_xscale() == "linear":  # so that costs that are nearly equal look nearly equal
            low, high = axes.get_xlim()
            room = max(0.0, 0.2 * high - (high - low)) / 2
            axes.set_xlim(low - room, high + room)
        axes.set(title=name, ylabel=score_title(sections[name]), xlabel=f"{metrics.get(metric).title} ({unit})")

    levels = {name: constant(sections[name]) for name in panels}
    if figure := plots.panels(comparison.labels, panels, draw, levels, lines=False):
        plots.same_span(figure.axes, LEAST_SPAN, plots.HIGHEST)
    return figure


def constant(section: Section) -> dict[str, float]:
    """The score of the majority baseline by name, where it is known."""
    scores = [score for row in section.rows for score in row.values(MAJORITY).values()]
    return {"majority baseline": max(scores)} if scores else {}


def _sd(spread: Spread, metric: str) -> float:
    """Standard deviation of a measured metric; 0 of a counted one, or of a single value."""
    return 0.0 if metrics.get(metric).deterministic else spread.sd or 0.0


def loss_curves(comparison: Comparison, curves: Curve) -> Figure | None:
    """Training loss by step, mean over replicates, smoothed, and for few arms unsmoothed too; None without curves."""
    panels: dict[str, dict[str, Line]] = {}
    for section in comparison.sections:
        for row in section.rows:
            of_seeds = [curves[run.run_id] for run in row.runs if curves.get(run.run_id)]
            if row.label in plots.drawn_arms(comparison) and of_seeds and len(mean := plots.mean_curve(of_seeds)) > 1:
                panels.setdefault(section.name, {})[row.label] = mean

    def draw(axes: Axes, name: str, lines: Mapping[ArmStyle, Line]) -> None:
        plots.draw_smoothed(axes, lines)
        axes.set(title=name, xlabel="training step", ylabel="training loss", ylim=(min(0, axes.get_ylim()[0]), None))

    return plots.panels(comparison.labels, panels, draw, marked=False, wide=4.2)


CHAPTER = Added(chapter, before=timing.chapter, order=4)
