"""A picture of what every arm reaches along the one number that the study sweeps: tokens of its pretraining, or a setting."""

import functools
import re
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.labels import unnamed_settings
from harness.comparison.section import FREQUENCIES, HEADLINE, LOSS, MAJORITY, Section
from harness.document import Picture
from harness.reports.writing import plots
from harness.reports.writing.formats import escape
from harness.reports.writing.plots import ArmStyle, panels_of_lines

TOKENS = "pretrain/tokens"
NUMBERED = re.compile(r" (\S+?)=([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?= |$)")
"""A setting in a label that is a number, such as ` mask_rate=0.3`."""
FEWEST = 3
"""Values of a setting from which on there is a line."""
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
