"""Pictures of pretraining: held-out loss against tokens, seconds and FLOPs.

Curves are read by step; a cumulative curve (tokens, seconds, FLOPs) at the same step of the same run gives the x value.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness import metrics
from harness.comparison import comparable
from harness.comparison.plateau import LOSS
from harness.comparison.section import ACCURACY, UNIGRAM, Row
from harness.document import Section as Part
from harness.plugins.chapters.pretraining import objective
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle, Line, mean_curve
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter

HELD_OUT = (
    "Pretraining: loss and accuracy on masked held-out tokens against tokens, and against time and FLOPs "
    "where the cost per token differs; mean over seeds"
)
TRAINING = "Pretraining: training loss against tokens, one panel per objective (not comparable across panels)"

TRAINED, TOKENS = "pretrain/loss", "pretrain/tokens"
COSTS = (TOKENS, "pretrain/duration_s", "pretrain/flops")
EMPTY = Line(np.array([]), np.array([]))
APART = 1.1
"""Largest over smallest cost of a token from which the arms differ in it."""
LEAST_SPANS = {LOSS: 0.2, ACCURACY: 0.05}
"""Measure -> what its axis spans at least, so that small differences look small."""
FAR = 8
"""Largest over smallest cost of an arm from which an axis of costs is logarithmic."""

Lines = Mapping[ArmStyle, Line]
Panel = tuple[str, str, str]
"""Section, measure and cost."""


def chapter(study: Study) -> Chapter:
    """Empty where nothing was pretrained."""
    pictures, files = plots.drawn(
        {"masked_loss.svg": (HELD_OUT, masked_loss, study), "pretrain_loss.svg": (TRAINING, training_loss, study)}
    )
    return Chapter([Part("", [*pictures])] if files else [], files)


def points(row: Row, cost: str, measure: str, study: Study) -> Line:
    """Mean over seeds at the steps common to all; seeds with equally many evaluations are averaged one by one."""
    curves = study.curve(cost), study.curve(measure)
    both = [[curve.get(run.run_id, {}) for curve in curves] for run in row.runs]
    seeds = [{step: (x[step], y[step]) for step in sorted(x.keys() & y.keys())} for x, y in both]
    seeds = [seed for seed in seeds if seed]
    if len({len(seed) for seed in seeds}) == 1:  # a budget in seconds ends at other steps for every seed
        seeds = [dict(enumerate(seed.values())) for seed in seeds]
    shared = sorted(set.intersection(*map(set, seeds))) if seeds else []
    if not shared:
        return EMPTY
    return Line(*np.mean([[seed[step] for step in shared] for seed in seeds], axis=0).T)  # (2, steps)


def masked_loss(study: Study) -> Figure | None:
    """Held-out masked loss and accuracy, two rows of panels a section, against each cost; None without curves."""
    sections = {part.name: part for part in study.comparison.pretrainings}
    every = {
        (name, measure, cost): {row.label: line for row in section.rows if len(line := points(row, cost, measure, study))}
        for name, section in sections.items()
        for measure in LEAST_SPANS
        for cost in COSTS
    }
    names = {name for (name, *_), lines in every.items() if lines}
    costs = [cost for cost in COSTS if cost == TOKENS or any(_differs_by_token(every, name, cost) for name in names)]
    contents = {panel: lines for panel, lines in every.items() if panel[0] in names and panel[2] in costs}
    probed = {row.label for part in sections.values() for row in part.rows if comparable.have_probes(row.runs)}

    def draw(axes: Axes, panel: Panel, lines: Lines) -> None:
        name, measure, cost = panel
        factor, unit = _scale(axes, cost, list(lines.values()))
        for arm, line in lines.items():
            hollow = {"markerfacecolor": "white", "markeredgecolor": arm.colour, "markeredgewidth": 1.2}
            plots.series(axes, arm, line.x / factor, line.y, **(hollow if arm.label in probed else {}))
        if probed & {arm.label for arm in lines}:
            axes.plot([], [], "o", label="hollow: by a probe", color="0.35", markerfacecolor="white")
        if axes.get_xscale() == "linear":
            axes.set_xlim(left=0)
        axes.set(xlabel=plots.with_unit(metrics.get(cost).title, unit))
        axes.set(ylabel=plots.with_unit(metrics.get(measure).title, metrics.get(measure).unit.removeprefix("share")))
        axes.set_title(name if len(names) > 1 and (measure, cost) == (LOSS, TOKENS) else "", loc="left")

    levels = {}
    for panel in contents:
        entropies = [value for row in sections[panel[0]].rows for value in row.values(UNIGRAM).values()]
        if panel[1] == LOSS and entropies:
            levels[panel] = {"unigram entropy": max(entropies)}
    figure = plots.panels(study.comparison.labels, contents, draw, levels, wide=3.3, high=2.7, most=len(costs))
    for panel, axes in zip(contents, figure.axes if figure else (), strict=True):
        plots.same_span([axes], LEAST_SPANS[panel[1]])
    return figure


def _differs_by_token(every: Mapping[Panel, Mapping[str, Line]], name: str, cost: str) -> bool:
    """Whether arms differ in it per token; where they do not, its panel would repeat that of the tokens."""
    spent, tokens = every[name, LOSS, cost], every[name, LOSS, TOKENS]
    by_token = [spent[label].x[-1] / tokens[label].x[-1] for label in spent.keys() & tokens.keys()]
    return len(by_token) > 1 and max(by_token) > APART * min(by_token)


def _scale(axes: Axes, cost: str, lines: list[Line]) -> tuple[float, str]:
    """What to divide costs by and that unit's name; the axis is logarithmic where the ends of the arms are far apart."""
    ends = [end for line in lines if (end := line.x.max()) > 0]
    if not ends:
        return 1.0, metrics.get(cost).unit
    is_far = max(ends) / min(ends) >= FAR
    factor, unit = plots.axis_unit(cost, [min(ends)] if is_far else ends)
    plots.scale_axis(axes.xaxis, [x / factor for line in lines for x in line.x if x > 0], is_far)
    return factor, unit


def training_line(row: Row, study: Study) -> Line:
    """Training loss, mean over seeds at the steps common to all, against tokens, interpolated between steps."""
    losses, tokens = ([curve for run in row.runs if (curve := study.curve(name).get(run.run_id))] for name in (TRAINED, TOKENS))
    if not losses or not tokens:
        return EMPTY
    loss, spent = mean_curve(losses), mean_curve([{0: 0.0} | curve for curve in tokens])
    return Line(np.interp(loss.x, spent.x, spent.y), loss.y)


def training_loss(study: Study) -> Figure | None:
    """Training loss against tokens, one panel per objective; None without curves."""
    comparison = study.comparison
    contents: dict[str, dict[str, Line]] = {}
    for section in comparison.pretrainings:
        for row in section.rows:
            if len(line := training_line(row, study)) > 1:
                where = f", {section.name}" if len(comparison.pretrainings) > 1 else ""
                contents.setdefault(objective(row.first) + where, {})[row.label] = line
    return plots.panels(comparison.labels, contents, _train, marked=False, wide=3.6, high=2.8)


def _train(axes: Axes, title: str, lines: Lines) -> None:
    factor, unit = plots.axis_unit(TOKENS, (line.x.max() for line in lines.values()))
    plots.draw_smoothed(axes, lines, factor)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set(title=title, xlabel=plots.with_unit(metrics.get(TOKENS).title, unit), ylabel="training loss")


CHAPTER = Added(chapter, before=timing.chapter, order=-4)
