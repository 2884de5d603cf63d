"""Pictures of pretraining: what was learned for how many tokens, seconds and FLOPs.

Curves are read by step; a cumulative curve (tokens, seconds, FLOPs) at the same step of the same run gives the position on the
x axis.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from harness import metrics
from harness.comparison import comparable
from harness.comparison.section import ACCURACY, LOSS, UNIGRAM, Row, Section
from harness.document import Section as Part
from harness.reports.chapters import Added, diagnostics
from harness.reports.chapters.pretraining import objective
from harness.reports.reading.study import Study
from harness.reports.writing import plots
from harness.reports.writing.formats import Chapter
from harness.reports.writing.plots import (
    ArmStyle,
    Line,
    arm_styles,
    axis_unit,
    grid,
    handle,
    legend,
    mean_curve,
    panels_of_lines,
    scale_axis,
)

CAPTIONS = {
    "masked_loss.svg": "Pretraining: loss and accuracy on masked held-out tokens against tokens, and against the time and the "
    "FLOPs where these tell the arms apart otherwise; mean over seeds",
    "pretrain_loss.svg": "Pretraining: training loss against tokens, one panel an objective (losses of two do not compare)",
}

TRAINED, TOKENS = "pretrain/loss", "pretrain/tokens"
COSTS = (TOKENS, "pretrain/duration_s", "pretrain/flops")
MEASURES = (LOSS, ACCURACY)
EMPTY = Line(np.array([]), np.array([]))
HOLLOW = {"color": "0.35", "linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "white"}
"""Marks of an arm whose masked tokens a probe predicts, which does not compare with a trained head."""
APART = 1.1
"""Largest over smallest cost of a token from which the arms differ in it."""
LEAST_SPANS = {LOSS: 0.2, ACCURACY: 0.05}
"""An axis spans at least so much, so that small differences look small."""
FAR = 8
"""Largest over smallest cost of an arm from which an axis of costs is logarithmic."""


def chapter(study: Study) -> Chapter:
    """Empty where nothing was pretrained."""
    files = plots.drawn({"masked_loss.svg": (masked_loss, study), "pretrain_loss.svg": (training_loss, study)})
    return Chapter([Part("", [*plots.pictured(CAPTIONS, files)])] if files else [], files)


def points(row: Row, cost: str, measure: str, study: Study) -> Line:
    """Mean over the seeds at the steps that all have; seeds of as many evaluations are averaged one by one."""
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


Lines = dict[str, Line]
"""Label -> its points."""


def masked_loss(study: Study) -> Figure | None:
    """Held-out masked loss and accuracy, two rows of panels a section, against each cost; None without curves."""
    comparison = study.comparison
    sections = {part.name: part for part in comparison.pretrainings}
    every: dict[str, dict[tuple[str, str], Lines]] = {}
    for name, section in sections.items():
        of_section = {
            (measure, cost): {row.label: line for row in section.rows if len(line := points(row, cost, measure, study))}
            for measure in MEASURES
            for cost in COSTS
        }
        every |= {name: of_section} if any(of_section.values()) else {}
    if not every:
        return None
    costs = [cost for cost in COSTS if cost == TOKENS or any(_differs_by_token(lines, cost) for lines in every.values())]
    of_panels = [(measure, cost) for measure in MEASURES for cost in costs]
    styles = arm_styles(comparison.labels)
    figure, axes = grid(len(of_panels) * len(every), wide=3.3, high=2.7, most=len(costs))
    probed = {row.label for part in sections.values() for row in part.rows if comparable.have_probes(row.runs)}
    entropy: list[Line2D] = []
    labels = {label for of_section in every.values() for panel in of_panels for label in of_section[panel]}
    for place, (name, of_section) in enumerate(every.items()):
        of_name = axes[place * len(of_panels) :][: len(of_panels)]
        for panel, (measure, cost) in zip(of_name, of_panels, strict=True):
            lines = of_section[measure, cost]
            _draw(panel, (cost, measure), lines, styles, probed)
            entropy = _entropy(panel, sections[name], lines) or entropy if measure == LOSS else entropy
            plots.no_closer(panel, LEAST_SPANS[measure])
        of_name[0].set_title(name if len(every) > 1 else "", loc="left")
    handles = []
    for label in (label for label in comparison.labels if label in labels):
        handles.append(handle(styles[label], line=True, marked=True))
        handles[-1].set_markerfacecolor("white" if label in probed else styles[label].colour)
    hollow = [Line2D([], [], label="hollow: by a probe", **HOLLOW)] if probed & labels else []
    legend(figure, handles + entropy + hollow)
    return figure


def _differs_by_token(lines: dict[tuple[str, str], Lines], cost: str) -> bool:
    """Whether arms spend more of it by token than others; where they do not, its panel would repeat that of the tokens."""
    spent, tokens = lines[LOSS, cost], lines[LOSS, TOKENS]
    by_token = [spent[label].x[-1] / tokens[label].x[-1] for label in spent.keys() & tokens.keys()]
    return len(by_token) > 1 and max(by_token) > APART * min(by_token)


def _draw(axes: Axes, names: tuple[str, str], lines: Lines, styles: dict[str, ArmStyle], probed: set[str]) -> None:
    cost, measure = (metrics.get(name) for name in names)
    factor, unit = _scale(axes, cost.name, list(lines.values()))
    for label, line in lines.items():
        arm = styles[label]
        size, front = (9, 4) if arm.is_baseline else (6, 3)
        hollow = {"markerfacecolor": "white", "markeredgecolor": arm.colour, "markeredgewidth": 1.2}
        edge = hollow if label in probed else {"markeredgecolor": "white", "markeredgewidth": 0.3}
        style = arm.line_and_marker | {"linewidth": 1.3, "markersize": size, "zorder": front} | edge
        axes.plot(line.x / factor, line.y, label=label, **style)
    if axes.get_xscale() == "linear":
        axes.set_xlim(left=0)
    axes.set(xlabel=plots.with_unit(cost.title, unit))
    axes.set(ylabel=plots.with_unit(measure.title, measure.unit.removeprefix("share")))


def _scale(axes: Axes, cost: str, lines: list[Line]) -> tuple[float, str]:
    """What to divide costs by and that unit's name; the axis is logarithmic where the ends of the arms are far apart."""
    ends = [end for line in lines if (end := line.x.max()) > 0]
    if not ends:
        return 1.0, metrics.get(cost).unit
    far = max(ends) / min(ends) >= FAR
    factor, unit = axis_unit(cost, [min(ends)] if far else ends)
    scale_axis(axes, [x / factor for line in lines for x in line.x if x > 0] if far else [1.0])
    return factor, unit


def _entropy(axes: Axes, section: Section, lines: Lines) -> list[Line2D]:
    """The line at the unigram entropy; a note in place of a line so far above that it would squeeze the curves."""
    entropies = [value for row in section.rows for value in row.values(UNIGRAM).values()]
    if not entropies or not lines:
        return []
    level, (low, high) = max(entropies), axes.get_ylim()
    if level <= high + (high - low) / 2:
        return [axes.axhline(level, color="0.4", linestyle=(0, (4, 3)), linewidth=1, label="unigram entropy")]
    axes.set_ylim(low, high + 0.14 * (high - low))
    place = {"xy": (0.98, 0.98), "xycoords": "axes fraction", "ha": "right", "va": "top"}
    axes.annotate(f"\u2191 unigram entropy {level:.2f}", color="0.35", fontsize=7.5, **place)
    return []


def training_line(row: Row, study: Study) -> Line:
    """Training loss, mean over the seeds at the steps that all have, against tokens, interpolated between steps."""
    losses, tokens = ([curve for run in row.runs if (curve := study.curve(name).get(run.run_id))] for name in (TRAINED, TOKENS))
    if not losses or not tokens:
        return EMPTY
    loss, spent = mean_curve(losses), mean_curve([{0: 0.0} | curve for curve in tokens])
    return Line(np.interp(loss.x, spent.x, spent.y), loss.y)


def training_loss(study: Study) -> Figure | None:
    """Training loss against tokens, one panel an objective (losses of two do not compare); None without curves."""
    comparison, panels = study.comparison, {}
    for section in comparison.pretrainings:
        for row in section.rows:
            line = training_line(row, study)
            if len(line) > 1:
                several = len(comparison.pretrainings) > 1
                of = objective(row.first) + (f", {section.name}" if several else "")
                panels.setdefault(of, {})[row.label] = line
    if not panels:
        return None
    return panels_of_lines(comparison.labels, panels, _train, False, 3.6, 2.8)


def _train(axes: Axes, lines: Lines, styles: dict[str, ArmStyle]) -> None:
    factor, unit = axis_unit(TOKENS, (line.x.max() for line in lines.values()))
    plots.draw_smoothed(axes, lines, styles, factor)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set(xlabel=plots.with_unit(metrics.get(TOKENS).title, unit), ylabel="training loss")


CHAPTER = Added(chapter, before=diagnostics.chapter)
