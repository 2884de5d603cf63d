"""The chapter on held-out loss against pretraining FLOPs over scales: the exponent of a power law and its picture."""

import functools
import math
import re
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from harness import metrics, tags
from harness.comparison.compare import Comparison
from harness.comparison.growth import PowerLaw, Replicates, centres, fit
from harness.comparison.labels import unnamed_settings
from harness.comparison.paired import CONFIDENCE, grouped
from harness.comparison.section import FREQUENCIES, HEADLINE, LOSS, MAJORITY, Section
from harness.document import DASH, Block, Cell, Picture, Table
from harness.document import Section as Part
from harness.reports.reading.study import Study
from harness.reports.writing import formats, plots
from harness.reports.writing.formats import Chapter, escape, listed
from harness.reports.writing.plots import ArmStyle, panels_of_lines

FLOPS, TOKENS = "pretrain/flops", "pretrain/tokens"
NUMBERED = re.compile(r" (\S+?)=([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?= |$)")
"""A setting in a label that is a number, such as ` mask_rate=0.3`."""
FEWEST = 3
"""Scales from which on a line is fitted; two always lie on one."""
LEAST_REACH = 2.0
"""Largest over smallest FLOPs from which on a line is fitted: after equal FLOPs there is none."""
SCALES = "Held-out masked loss against pretraining FLOPs over scales: one point a seed, lines are the fitted power laws"
INTRO = """\
A power law L = a C^−b of the held-out masked loss L in the pretraining FLOPs C: least squares on logarithms, one point a scale
(geometric mean of its seeds), with the {level:.0%} t interval of b over the scales in brackets. It has no irreducible loss, and
holds for these scales, budgets and recipe alone: no budget was chosen to be best for its scale. *Off by* is the largest
distance of a scale from the line."""


@dataclass(frozen=True)
class Law:
    """Losses of one arm over its scales."""

    names: tuple[str, ...]  # of the scales, in the order of FLOPs
    losses: Replicates  # FLOPs -> losses of the seeds
    line: PowerLaw


def scales(study: Study) -> Chapter:
    """Empty where no arm was pretrained at three scales or more, after different FLOPs."""
    comparison = study.comparison
    panels = {escape(part.name): laws for part in comparison.pretrainings if (laws := laws_of(part))}
    if not panels:
        return Chapter()
    labels = list(dict.fromkeys(without_scale(label) for label in comparison.labels))
    files = plots.drawn({"scales.svg": (panels_of_lines, labels, panels, _draw_laws, True, 4.2)})
    blocks: list[Block] = [INTRO.format(level=CONFIDENCE)]
    for name, laws in panels.items():
        blocks += [*([name] if len(panels) > 1 else []), table(laws)]
    blocks += plots.pictured({"scales.svg": SCALES}, files)
    return Chapter([Part("Loss against FLOPs over scales", blocks)], files)


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
    """One row an arm."""
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


def _draw_laws(axes: Axes, laws: dict[str, Law], styles: dict[str, ArmStyle]) -> None:
    factor, unit = plots.axis_unit(FLOPS, (flops for law in laws.values() for flops in law.losses))
    for label, law in laws.items():
        arm = styles[label]
        points = [(flops / factor, loss) for flops, losses in law.losses.items() for loss in losses]
        style = {"color": arm.colour, "markersize": 7 if arm.is_baseline else 5, "alpha": 0.75, "zorder": 3}
        axes.plot(*zip(*points, strict=True), linestyle="None", marker=arm.marker, markeredgewidth=0, label=label, **style)
        middles, ends = centres(law.losses), np.array([min(law.losses), max(law.losses)], dtype=float)
        x, y = (fmean(map(math.log, values)) for values in (middles, middles.values()))
        on_line = np.exp(y + law.line.exponent * (np.log(ends) - x))  # the line passes through the centre of the points
        axes.plot(ends / factor, on_line, linewidth=1.2, zorder=2, **arm.line_style)
        if len(laws) == 1:  # the names of several arms would lie on each other
            for name, (flops, losses) in zip(law.names, law.losses.items(), strict=True):
                place = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "fontsize": 8}
                axes.annotate(name, (flops / factor, max(losses)), **place)
    axes.set(xscale="log", yscale="log", xlabel=plots.with_unit(metrics.get(FLOPS).title, unit))
    axes.set(ylabel=f"{metrics.get(LOSS).title} (nats)")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())


ALONG = (
    "Score along pretraining: fine-tuned from the weights kept after so many tokens, mean over seeds; bars reach from the "
    "least to the largest"
)
SCORED = ". Minimal pairs are scored by these weights as they are, and by word frequencies alone"


class Reference(NamedTuple):
    """A score without a model, which is a line at one height."""

    metric: str
    dashes: tuple[int, tuple[int, int]]


REFERENCES = {
    "guessing": Reference(MAJORITY, (0, (1, 2))),
    "word frequencies": Reference(FREQUENCIES, (0, (5, 3))),
}
"""Title -> reference."""
LEAST_SPAN = 0.10
"""An axis of scores spans at least 10 points, so that small differences look small."""

Line = dict[float, list[float]]
"""Tokens of pretraining -> scores of the seeds, in the order of tokens."""


@dataclass(frozen=True)
class Curves:
    """A picture with its file; none of both where there is nothing to show."""

    pictures: list[Picture]
    files: dict[str, bytes]


def curves(comparison: Comparison) -> Curves:
    """What every arm reaches along the one number that the study sweeps: tokens of its pretraining, or a setting."""
    along = along_pretraining(comparison)
    return along if along.files else along_setting(comparison)


def along_setting(comparison: Comparison) -> Curves:
    """Empty where arms do not differ in one setting that is a number, with three values or more."""
    panels, qualities = {}, set()
    key, values = _swept(comparison)
    for section in comparison.selected if key else ():
        quality, lines = LOSS if section.is_pretraining else HEADLINE, {}
        for row in section.rows:
            name, value = values.get(row.label, ("", 0.0))
            if name and (reached := [*row.values(quality).values()]):
                lines.setdefault(name, {})[value] = reached
        if lines := {name: dict(sorted(line.items())) for name, line in lines.items() if len(line) >= FEWEST}:
            panels[escape(section.name)] = lines
            qualities.add(quality)
    if not panels:
        return Curves([], {})
    labels = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    draw_in = functools.partial(_draw_lines, key=key, quality=HEADLINE if HEADLINE in qualities else LOSS)
    files = plots.drawn({"along_setting.svg": (panels_of_lines, labels, panels, draw_in, True, 3.6, 2.8)})
    caption = f"What arms reach along {key}: mean over seeds; bars reach from the least to the largest"
    return Curves(plots.pictured({"along_setting.svg": caption}, files), files)


def _swept(comparison: Comparison) -> tuple[str, dict[str, tuple[str, float]]]:
    """The one setting by which arms differ and that is a number; label -> the arm without it, and the value. Empty without one.

    An arm that keeps the default has it without naming it.
    """
    firsts = {row.label: row.first for section in comparison.selected for row in section.rows}
    full = {label: " ".join([label, *unnamed_settings(run, comparison.labels)]) for label, run in firsts.items()}
    by_key: dict[str, dict[str, tuple[str, float]]] = {}
    for label, text in full.items():
        for match in NUMBERED.finditer(text):
            rest = " ".join((text[: match.start()] + text[match.end() :]).split())
            by_key.setdefault(match[1], {})[label] = (rest, float(match[2]))
    several = {key: arms for key, arms in by_key.items() if len({value for _, value in arms.values()}) >= FEWEST}
    return next(iter(several.items())) if len(several) == 1 else ("", {})


def along_pretraining(comparison: Comparison) -> Curves:
    """Empty where no arm was fine-tuned from several points of its pretraining."""
    panels = {
        escape(section.name): lines | references(section) for section in comparison.sections if (lines := lines_of(section))
    }
    if not panels:
        return Curves([], {})
    labels = list(dict.fromkeys(without_point(label) for label in comparison.labels))
    files = plots.drawn({"along_pretraining.svg": (panels_of_lines, labels, panels, _draw_lines, True, 3.6, 2.8)})
    caption = ALONG + SCORED * any(references(section) for section in comparison.sections)
    return Curves(plots.pictured({"along_pretraining.svg": caption}, files), files)


def lines_of(section: Section) -> dict[str, Line]:
    """Label of an arm without its point -> its line, where it has at least two points.

    A point is the tokens of the pretraining that a row starts from, none without one or with a budget that is not in tokens.
    """
    lines: dict[str, Line] = {}
    for row in section.rows:
        setting, scores = row.first.setting, row.values(HEADLINE).values()
        tokens = setting("pretrain.at") or setting("pretrain.tokens")
        if tokens and scores and setting("pretrain.objective") not in (None, "none"):
            lines.setdefault(without_point(row.label), {}).setdefault(float(tokens), []).extend(scores)
    return {label: dict(sorted(line.items())) for label, line in lines.items() if len(line) > 1}


def references(section: Section) -> dict[str, Line]:
    """Title -> what needs no model: word frequencies, and guessing beside them; empty where these are not scored."""
    found = {
        title: [run.metrics[reference.metric] for run in section.runs if reference.metric in run.metrics]
        for title, reference in REFERENCES.items()
    }
    return {title: {0.0: [fmean(scores)]} for title, scores in found.items()} if all(found.values()) else {}


def without_point(label: str) -> str:
    """`base+mlm at=500000 dtype=bf16` -> `base+mlm dtype=bf16`."""
    return re.sub(r" (pretrain\.)?at=\S+", "", label)


def _draw_lines(
    axes: Axes, lines: dict[str, Line], styles: dict[str, ArmStyle], key: str = TOKENS, quality: str = HEADLINE
) -> None:
    places = [place for line in lines.values() for place in line]
    factor, unit = plots.axis_unit(TOKENS, places) if key == TOKENS else (1.0, "")
    for label, line in lines.items():
        if label in REFERENCES:
            (height,) = line[0.0]
            axes.axhline(height, color="0.5", linestyle=REFERENCES[label].dashes, linewidth=1, zorder=1, label=label)
            continue
        means = [fmean(scores) for scores in line.values()]
        bars = plots.reaching_bars(means, list(line.values()))
        style = styles[label].line_and_marker | {"capsize": 2, "elinewidth": 0.9, "linewidth": 1.3, "zorder": 3}
        axes.errorbar([tokens / factor for tokens in line], means, bars, label=label, **style)
    plots.no_closer(axes, LEAST_SPAN)
    if key == TOKENS:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6))
    else:
        plots.scale_axis(axes, places)
    title = metrics.get(TOKENS).title if key == TOKENS else key
    axes.set(xlabel=plots.with_unit(title, unit), ylabel=metrics.get(quality).title)
