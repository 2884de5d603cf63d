"""Variants as published beside the same ones resized to the cost of the baseline: is it the design, or the size?"""

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness import metrics
from harness.paired import Spread
from reports.chapters.overview import cell
from reports.comparison import overall
from reports.comparison.compare import Comparison, Study
from reports.comparison.overall import Overall
from reports.comparison.section import HEADLINE, LOSS
from reports.reading.store import Run
from reports.writing import formats, plots
from reports.writing.formats import DASH, Chapter, escape

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
    found = pairs(comparison)
    if not found:
        return Chapter()
    over, name = _judged(comparison)
    files = plots.drawn({"matched.svg": (picture, over, name, found)})
    captions = {"matched.svg": CAPTION.format(title=metrics.get(name).title.capitalize())}
    return Chapter(["## At equal cost", INTRO, table(over, name, found), *plots.pictured(captions, files)], files)


def pairs(comparison: Comparison) -> list[Pair]:
    """In the order of the arms."""
    found: dict[str, Pair] = {}
    for section in comparison.selected:
        for row in section.rows:
            run = next(iter(row.runs.values()))
            kind = KINDS.get(run.params.get("match.cost", ""))
            suffix = f" ({kind[0]} as {run.params.get('match.to')})" if kind else ""
            if suffix and suffix in row.label and "matched.reached" in run.params:
                published = row.label.replace(suffix, "")
                found[row.label] = Pair(published if published in comparison.labels else None, row.label, run)
    return [found[label] for label in comparison.labels if label in found]


def _judged(comparison: Comparison) -> tuple[Overall, str]:
    """By the score of the tasks, or the held-out loss where there is none."""
    tasks = overall.of_tasks(comparison)
    if any(tasks.having(label, HEADLINE) for label in comparison.labels):
        return tasks, HEADLINE
    return overall.of_pretrainings(comparison), LOSS


def table(over: Overall, name: str, found: list[Pair]) -> str:
    """One row a variant, as published and resized side by side."""
    title = "score" if name == HEADLINE else "held-out masked loss"
    head = ["variant", "resized", "cost as published", "cost resized", f"{title} as published", f"{title} resized"]
    baseline = over.comparison.baseline
    rows = [[escape(baseline), DASH, DASH, DASH, cell(over, baseline, name), DASH]]
    for pair in found:
        before = cell(over, pair.published, name) if pair.published else DASH
        variant = escape(pair.published or pair.matched)
        rows.append([variant, _sizes(over, pair), *_costs(pair), before, cell(over, pair.matched, name)])
    return formats.table(head, rows, left=2)


def _sizes(over: Overall, pair: Pair) -> str:
    """`hidden_size 128 → 194`: the keys that changed, or what they are where the published arm is not there."""
    published = _run_of(over, pair.published)
    shown = []
    for key in SIZES:
        after = pair.run.params.get(key)
        before = published.params.get(key) if published else None
        if after is not None and (before is None or before != after):
            shown.append(f"{key.partition('.')[2]} {f'{before} → ' if before else ''}{after}")
    return escape(", ".join(shown)) or DASH


def _run_of(over: Overall, label: str | None) -> Run | None:
    rows = [row for section in over.sections if label and (row := section.row_of(label))]
    return next((run for row in rows for run in row.runs.values()), None)


def _costs(pair: Pair) -> list[str]:
    """As published and resized, with the share by which each is off the baseline."""
    name, unit = KINDS[pair.cost][1:]
    target, noise = pair.value("target"), pair.run.params.get("matched.half_width")
    texts = []
    for which in ("published", "reached"):
        off = formats.percent(100 * (pair.value(which) / target - 1))
        exact = f", known within ± {100 * float(noise):.1f} %" if noise and which == "reached" else ""
        texts.append(f"{formats.value(pair.value(which), unit)}<br>{off}{exact}")
    return [f"{name}: {texts[0]}", texts[1]]


def picture(over: Overall, name: str, found: list[Pair]) -> Figure | None:
    """One panel: an arrow from each variant as published to its resized shape; None where no arm has a value."""
    baseline = over.comparison.baseline
    middle = over.spread(baseline, name)
    shown = [pair for pair in found if over.spread(pair.matched, name)]
    if middle is None or not shown:
        return None
    styles = plots.arm_styles(over.comparison.labels)
    figure, (axes,) = plots.grid(1, wide=4.6, high=3.2)
    axes.axvline(1, color="0.6", linewidth=0.8, linestyle=":", zorder=1)
    _point(axes, 1.0, middle, styles[baseline], baseline, filled=True)
    for pair in shown:
        _arrow(axes, over, name, pair, styles[pair.published or pair.matched])
    plots.scale_axis(
        axes, [1.0, *(pair.value(which) / pair.value("target") for pair in shown for which in ("published", "reached"))]
    )
    costs = sorted({KINDS[pair.cost][1] for pair in shown})
    axes.set(xlabel=f"{' or '.join(costs)}, share of {styles[baseline].name}", ylabel=metrics.get(name).title)
    plots.legend(
        figure,
        [plots.handle(styles[label]) for label in (baseline, *(pair.published or pair.matched for pair in shown))],
    )
    return figure


def _arrow(axes: Axes, over: Overall, name: str, pair: Pair, style: plots.ArmStyle) -> None:
    after, before = over.spread(pair.matched, name), pair.published and over.spread(pair.published, name)
    start, end = (pair.value(which) / pair.value("target") for which in ("published", "reached"))
    if before:
        axes.plot([start, end], [before.mean, after.mean], color=style.colour, linewidth=0.9, alpha=0.6, zorder=2)
        _point(axes, start, before, style, pair.published, filled=False)
    _point(axes, end, after, style, pair.matched, filled=True)


def _point(axes: Axes, x: float, spread: Spread, style: plots.ArmStyle, label: str, filled: bool) -> None:
    face = style.colour if filled else "white"
    sd = spread.sd if spread.sd is not None and math.isfinite(spread.sd) else 0.0
    look = {
        "fmt": style.marker,
        "color": style.colour,
        "markerfacecolor": face,
        "markersize": 7,
        "capsize": 2,
        "elinewidth": 0.9,
    }
    axes.errorbar([x], [spread.mean], yerr=[sd], label=label, zorder=3, **look)
