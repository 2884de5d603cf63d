"""Variants as published beside the same ones resized to the cost of the baseline: is it the design, or the size?"""

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from harness.comparison import overall
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.paired import Spread
from harness.comparison.runs import Run
from harness.comparison.section import HEADLINE, LOSS
from harness.document import DASH, Cell, Section, Table
from harness.reports.chapters import Added, pretraining
from harness.reports.chapters.overview import cell
from harness.reports.reading.study import Study
from harness.reports.writing import formats, plots
from harness.reports.writing.formats import Chapter, escape

KINDS = {
    "params": ("params", "parameters", "parameters"),
    "flops": ("FLOPs", "forward FLOPs", "FLOP"),
    "memory": ("memory", "memory of a training step, by formula", "bytes"),
    "latency": ("latency", "latency, in a probe before the runs", "ms"),
}
"""match.cost -> its name in the label of an arm, what it is, its unit."""
SIZES = ("model.hidden_size", "model.num_hidden_layers", "model.intermediate_size")
INTRO = """\
Each variant as published, and resized until it costs what the baseline does: a difference that is left at equal cost is no
matter of size. Costs are those that the search compared."""
CAPTION = (
    "{title} against cost, as a share of the baseline's: hollow as published, filled as resized; bars are standard deviations"
)


@dataclass(frozen=True)
class Pair:
    """One variant in both shapes; `published` is None where the study has it resized alone."""

    published: str | None
    matched: str
    run: Run  # of the resized one

    @property
    def cost(self) -> str:
        return self.run.params["match.cost"]

    def value(self, which: str) -> float:
        """`target`, `published` or `reached`, in the unit of the cost."""
        return float(self.run.params[f"matched.{which}"])


def chapter(study: Study) -> Chapter:
    """Empty where no arm was resized."""
    comparison = study.comparison
    variants = pairs(comparison)
    if not variants:
        return Chapter()
    over, name = overall.of_tasks(comparison), HEADLINE
    if not any(over.having(label, HEADLINE) for label in comparison.labels):
        over, name = overall.of_pretrainings(comparison), LOSS
    files = plots.drawn({"matched.svg": (picture, over, name, variants)})
    captions = {"matched.svg": CAPTION.format(title=metrics.get(name).title.capitalize())}
    blocks = [INTRO, table(over, name, variants), *plots.pictured(captions, files)]
    return Chapter([Section("At equal cost", blocks)], files)


def pairs(comparison: Comparison) -> list[Pair]:
    """In the order of the arms."""
    by_label: dict[str, Pair] = {}
    for row in (row for section in comparison.selected for row in section.rows):
        params = row.first.params
        kind = KINDS.get(params.get("match.cost", ""))
        suffix = f" ({kind[0]} as {params.get('match.to')})" if kind else ""
        if suffix and suffix in row.label and "matched.reached" in params:
            published = row.label.replace(suffix, "")
            by_label[row.label] = Pair(published if published in comparison.labels else None, row.label, row.first)
    return [by_label[label] for label in comparison.labels if label in by_label]


def table(over: Overall, name: str, variants: list[Pair]) -> Table:
    """One row a variant, as published and resized side by side."""
    title = "score" if name == HEADLINE else "held-out masked loss"
    head = ["variant", "resized", "cost as published", "cost resized", f"{title} as published", f"{title} resized"]
    baseline = over.comparison.baseline
    rows: list[list[Cell | str]] = [[escape(baseline), DASH, DASH, DASH, cell(over, baseline, name), DASH]]
    for pair in variants:
        before = cell(over, pair.published, name) if pair.published else DASH
        variant = escape(pair.published or pair.matched)
        rows.append([variant, _sizes(over, pair), *_costs(pair), before, cell(over, pair.matched, name)])
    return formats.table(head, rows, left=2)


def _sizes(over: Overall, pair: Pair) -> str:
    """`hidden_size 128 → 194`: the keys that changed, or what they are where the published arm is not there."""
    rows = (row for section in over.sections if pair.published and (row := section.row_of(pair.published)))
    published = next((row.first.params for row in rows), {})
    texts = []
    for key in SIZES:
        before, after = published.get(key), pair.run.params.get(key)
        if after is not None and before != after:
            texts.append(f"{key.partition('.')[2]} {f'{before} → ' if before else ''}{after}")
    return escape(", ".join(texts)) or DASH


def _costs(pair: Pair) -> list[Cell]:
    """As published and resized, with the share by which each is off the baseline."""
    name, unit = KINDS[pair.cost][1:]
    target, noise = pair.value("target"), pair.run.params.get("matched.half_width")
    cells = []
    for which, start in (("published", f"{name}: "), ("reached", "")):
        off = formats.percent(100 * (pair.value(which) / target - 1))
        exact = f", known within ± {100 * float(noise):.1f} %" if noise and which == "reached" else ""
        value = pair.value(which)
        cells.append(Cell(start + formats.value(value, unit), value, unit, change=f"{off}{exact}"))
    return cells


def picture(over: Overall, name: str, variants: list[Pair]) -> Figure | None:
    """One panel: an arrow from each variant as published to its resized shape; None where no arm has a value."""
    baseline = over.comparison.baseline
    middle = over.spread(baseline, name)
    drawn = [pair for pair in variants if over.spread(pair.matched, name)]
    if middle is None or not drawn:
        return None
    styles = plots.arm_styles(over.comparison.labels)
    figure, (axes,) = plots.grid(1, wide=4.6, high=3.2)
    axes.axvline(1, color="0.6", linewidth=0.8, linestyle=":", zorder=1)
    _point(axes, 1.0, middle, styles[baseline], baseline, filled=True)
    labels, reached = [baseline], [1.0]
    for pair in drawn:
        labels.append(pair.published or pair.matched)
        style, after = styles[labels[-1]], over.spread(pair.matched, name)
        before = pair.published and over.spread(pair.published, name)
        start, end = (pair.value(which) / pair.value("target") for which in ("published", "reached"))
        reached += [start, end]
        if before:
            axes.plot([start, end], [before.mean, after.mean], color=style.colour, linewidth=0.9, alpha=0.6, zorder=2)
            _point(axes, start, before, style, pair.published, filled=False)
        _point(axes, end, after, style, pair.matched, filled=True)
    plots.scale_axis(axes, reached)
    costs = sorted({KINDS[pair.cost][1] for pair in drawn})
    axes.set(xlabel=f"{' or '.join(costs)}, share of {styles[baseline].name}", ylabel=metrics.get(name).title)
    plots.legend(figure, [plots.handle(styles[label]) for label in labels])
    return figure


def _point(axes: Axes, x: float, spread: Spread, arm: plots.ArmStyle, label: str, filled: bool) -> None:
    sd = spread.sd if spread.sd is not None and math.isfinite(spread.sd) else 0.0
    style = {"fmt": arm.marker, "color": arm.colour, "markerfacecolor": arm.colour if filled else "white"}
    style |= {"markersize": 7, "capsize": 2, "elinewidth": 0.9, "zorder": 3}
    axes.errorbar([x], [spread.mean], yerr=[sd], label=label, **style)


CHAPTER = Added(chapter, before=pretraining.tasks, order=1)
