"""Held-out loss against pretraining FLOPs over scales: the exponent of a power law and its picture."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes

from harness import metrics, tags
from harness.comparison.paired import CONFIDENCE, grouped
from harness.comparison.plateau import LOSS
from harness.comparison.section import Section
from harness.document import DASH, Block, Cell, Table
from harness.document import Section as Part
from harness.plugins.chapters.growth import PowerLaw, Replicates, centres, fit
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape, listed

FLOPS = "pretrain/flops"
FEWEST = 3
"""Scales from which on a line is fitted; two always fit exactly."""
LEAST_REACH = 2.0
"""Largest over smallest FLOPs from which on a line is fitted: after equal FLOPs there is none."""
SCALES = "Held-out masked loss against pretraining FLOPs over scales: one point per seed; lines are fitted power laws"
INTRO = """\
Power law L = a C^−b of the held-out masked loss L in the pretraining FLOPs C: least squares on logarithms, one point per scale
(geometric mean of its seeds); in brackets the {level:.0%} t interval of b over scales. It has no irreducible loss, and holds
only for these scales, budgets and recipe: the budgets are not compute-optimal. *Off by*: the largest deviation of a scale."""


@dataclass(frozen=True)
class Law:
    """Losses of one arm over its scales."""

    names: tuple[str, ...]  # of the scales, in the order of FLOPs
    losses: Replicates  # FLOPs -> losses of the seeds
    line: PowerLaw


def chapter(study: Study) -> Chapter:
    """Empty where no arm was pretrained at three scales or more, with different FLOPs."""
    comparison = study.comparison
    panels = {part.name: laws for part in comparison.pretrainings if (laws := laws_of(part))}
    if not panels:
        return Chapter()
    labels = list(dict.fromkeys(without_scale(label) for label in comparison.labels))
    pictures, files = plots.drawn({"scales.svg": (SCALES, partial(plots.panels, wide=4.2), labels, panels, _draw_laws)})
    blocks: list[Block] = [INTRO.format(level=CONFIDENCE)]
    for name, laws in panels.items():
        blocks += [*([escape(name)] if len(panels) > 1 else []), table(laws)]
    return Chapter([Part("Loss against FLOPs over scales", [*blocks, *pictures])], files)


def laws_of(section: Section) -> dict[str, Law]:
    """Label of an arm without its scale -> its law, where it can be fitted."""
    points = grouped(
        (without_scale(row.label), (run.tags.get(tags.SCALE, DASH), (run.metrics[FLOPS], run.metrics[LOSS])))
        for row in section.rows
        for run in row.runs
        if FLOPS in run.metrics and LOSS in run.metrics
    )
    laws = {}
    for label, of_arm in points.items():
        by_scale = grouped(of_arm)
        scales = {round(fmean(flops for flops, _ in pairs)): name for name, pairs in by_scale.items()}
        losses = {flops: [loss for _, loss in by_scale[scales[flops]]] for flops in sorted(scales)}
        enough = len(losses) >= FEWEST and max(losses) >= LEAST_REACH * min(losses)
        if enough and (line := fit(losses)):
            laws[label] = Law(tuple(scales[flops] for flops in losses), losses, line)
    return laws


def without_scale(label: str) -> str:
    """`base+mlm scale=tiny dtype=bf16` -> `base+mlm dtype=bf16`."""
    return re.sub(r" (scale|scale_name)=\S+", "", label)


def table(laws: dict[str, Law]) -> Table:
    """One row per arm."""
    rows = []
    for label, law in laws.items():
        exponent = formats.plain(-law.line.exponent, 3)
        if law.line.interval:
            exponent += f" [{', '.join(formats.plain(-end, 3) for end in reversed(law.line.interval))}]"
        counts, least = sorted({len(losses) for losses in law.losses.values()}), min(law.losses)
        seeds = Cell(" to ".join(map(str, counts)), counts[0])
        ends = Cell(" to ".join(formats.value(flops, "FLOP") for flops in (least, max(law.losses))), least, "FLOP")
        off = Cell(f"{100 * law.line.deviation:.2g} %", law.line.deviation, "%")
        rows.append([escape(label), listed(law.names), seeds, ends, Cell(exponent, -law.line.exponent), off])
    return formats.table(["arm", "scales", "seeds", "FLOPs", "exponent b", "off by"], rows)


def _draw_laws(axes: Axes, title: str, laws: Mapping[ArmStyle, Law]) -> None:
    every = [(flops, loss) for law in laws.values() for flops, losses in law.losses.items() for loss in losses]
    factor, unit = plots.axis_unit(FLOPS, (flops for flops, _ in every))
    for arm, law in laws.items():
        points = [(flops / factor, loss) for flops, losses in law.losses.items() for loss in losses]
        plots.series(axes, arm, *zip(*points, strict=True), linestyle="none", alpha=0.75)
        middles, ends = centres(law.losses), np.array([min(law.losses), max(law.losses)], dtype=float)
        x, y = (fmean(map(math.log, values)) for values in (middles, middles.values()))
        on_line = np.exp(y + law.line.exponent * (np.log(ends) - x))  # the line passes through the centre of the points
        axes.plot(ends / factor, on_line, linewidth=1.2, zorder=2, **arm.line_style)
    plots.scale_axis(axes.xaxis, [flops / factor for flops, _ in every], True)
    plots.scale_axis(axes.yaxis, [loss for _, loss in every], True)
    axes.set(title=title, xlabel=plots.with_unit(metrics.get(FLOPS).title, unit), ylabel=f"{metrics.get(LOSS).title} (nats)")


CHAPTER = Added(chapter, before=timing.chapter, order=1)
