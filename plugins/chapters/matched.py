"""Variants as published and resized to the cost of the baseline: is it the design, or the size?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from harness.comparison import overall
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.paired import Spread, grouped
from harness.comparison.plateau import LOSS
from harness.comparison.runs import Run
from harness.comparison.section import HEADLINE
from harness.document import DASH, Block, Cell, Section, Table
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle
from harness.reports.chapters import Added, tasks
from harness.reports.chapters.overview import cell
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape

KINDS = {
    "params": ("params", "parameters", "parameters"),
    "flops": ("FLOPs", "forward FLOPs", "FLOP"),
    "memory": ("memory", "memory of a training step, by formula", "bytes"),
    "latency": ("latency", "latency, probed before the runs", "ms"),
}
"""match.cost -> its name in the label of an arm, what it is, its unit."""
SIZES = ("model.hidden_size", "model.num_hidden_layers", "model.intermediate_size")
INTRO = """\
Each variant as published, and resized to the cost of the baseline: a difference at equal cost is not due to size. Costs are
those of the search."""
CAPTION = (
    "{title} against cost, as a share of the baseline's (hollow: as published, filled: resized); bars are standard deviations"
)
Point = tuple[float, str, Spread, bool]
"""Share of the baseline's cost, arm, its scores, and whether it is drawn filled."""


@dataclass(frozen=True)
class Pair:
    """One variant in both shapes; `published` is None where the study has it only resized."""

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
    caption = CAPTION.format(title=metrics.get(name).title.capitalize())
    pictures, files = plots.drawn({"matched.svg": (caption, picture, over, name, variants)})
    blocks: list[Block] = [INTRO, table(over, name, variants), *pictures]
    return Chapter([Section("At equal cost", blocks)], files)


def pairs(comparison: Comparison) -> list[Pair]:
    """In the order of the arms."""
    by_label = {}
    for row in (row for section in comparison.selected for row in section.rows):
        params = row.first.params
        kind = KINDS.get(params.get("match.cost", ""))
        suffix = f" ({kind[0]} as {params.get('match.to')})" if kind else ""
        if suffix and suffix in row.label and "matched.reached" in params:
            published = row.label.replace(suffix, "")
            by_label[row.label] = Pair(published if published in comparison.labels else None, row.label, row.first)
    return [by_label[label] for label in comparison.labels if label in by_label]


def table(over: Overall, name: str, variants: list[Pair]) -> Table:
    """One row per variant, as published and resized side by side."""
    title = "score" if name == HEADLINE else "held-out masked loss"
    head = ["variant", "resized", "cost as published", "cost resized", f"{title} as published", f"{title} resized"]
    baseline = over.comparison.baseline
    rows = [[escape(baseline), DASH, DASH, DASH, cell(over, baseline, name), DASH]]
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
    """As published and resized, with the deviation of each from the baseline."""
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
    """One panel: a line from each variant as published to its resized shape; None where no arm has a value."""
    baseline = over.comparison.baseline
    ends: list[tuple[str, float, str | None]] = [(baseline, 1.0, baseline)]
    for pair in variants:
        for which, arm in (("published", pair.published), ("reached", pair.matched)):
            ends.append((pair.published or pair.matched, pair.value(which) / pair.value("target"), arm))
    resized = {baseline, *(pair.matched for pair in variants)}  # drawn filled
    points = grouped(
        (label, (share, arm, spread, arm in resized))
        for label, share, arm in ends
        if arm and (spread := over.spread(arm, name))
    )
    if len(points) < 2 or baseline not in points:
        return None

    def draw(axes: Axes, _: str, contents: Mapping[ArmStyle, list[Point]]) -> None:
        axes.axvline(1, color="0.6", linewidth=0.8, linestyle=":", zorder=1)
        for style, drawn in contents.items():
            for share, arm, spread, filled in drawn:
                fill = {} if filled else {"markerfacecolor": "white", "markeredgewidth": 1.2}
                look = fill | {"linestyle": "none", "markeredgecolor": style.colour}
                plots.series(axes, replace(style, label=arm), [share], [spread.mean], y_bars=[spread.sd or 0.0], **look)
            means = [spread.mean for _, _, spread, _ in drawn]
            axes.plot([share for share, *_ in drawn], means, color=style.colour, linewidth=0.9, alpha=0.6, zorder=2)
        plots.scale_axis(axes.xaxis, [share for drawn in contents.values() for share, *_ in drawn])
        costs = sorted({KINDS[pair.cost][1] for pair in variants})
        name_of_baseline = next(style.name for style in contents if style.is_baseline)
        axes.set(xlabel=f"{' or '.join(costs)}, share of {name_of_baseline}", ylabel=metrics.get(name).title)

    return plots.panels(over.comparison.labels, {"": points}, draw, lines=False, wide=4.6, high=3.2)


CHAPTER = Added(chapter, before=tasks.chapter, order=1)
