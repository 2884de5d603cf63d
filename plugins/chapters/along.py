"""A picture of every arm's score along the one number that the study sweeps: pretraining tokens, or a setting."""

import math
import re
from collections.abc import Mapping
from functools import partial
from statistics import fmean

from matplotlib.axes import Axes

from harness import metrics
from harness.comparison.compare import Comparison
from harness.comparison.labels import unnamed_settings
from harness.comparison.plateau import LOSS
from harness.comparison.section import FREQUENCIES, HEADLINE, MAJORITY, Section
from harness.document import Picture
from harness.plugins.pictures import plots
from harness.plugins.pictures.plots import ArmStyle

TOKENS = "pretrain/tokens"
NUMBERED = re.compile(r" (\S+?)=([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?= |$)")
"""A setting in a label that is a number, such as ` mask_rate=0.3`."""
POINT = re.compile(r" (pretrain\.)?at=\S+")
"""In a label the point of the pretraining, as in `base+mlm at=500000 dtype=bf16`."""

FEWEST = 3
"""Values of a setting from which on there is a line."""
REFERENCES = {"guessing": MAJORITY, "word frequencies": FREQUENCIES}
"""Name -> a score without a model."""
LEAST_SPAN = 0.10
"""An axis of scores spans at least 10 points, so that small differences look small."""
BARS = "mean over seeds; bars span minimum to maximum"

Points = dict[float, list[float]]
"""Tokens of pretraining, or value of the setting -> scores of the seeds, in this order."""


Curves = tuple[list[Picture], dict[str, plots.Picture]]
"""A picture and its file; empty where there is nothing to show."""


def curves(comparison: Comparison) -> Curves:
    """Every arm's score along the one number that the study sweeps: pretraining tokens, or a setting."""
    pictures, files = along_pretraining(comparison)
    return (pictures, files) if files else along_setting(comparison)


def along_pretraining(comparison: Comparison) -> Curves:
    """Empty where no arm was fine-tuned from several checkpoints of its pretraining."""
    sections = {section.name: section for section in comparison.sections}
    contents = {name: points for name, section in sections.items() if (points := points_of(section))}
    levels = {name: references(sections[name]) for name in contents}
    caption = f"Score during pretraining: fine-tuned from the checkpoint after that many tokens, {BARS}"
    scored = ". Minimal pairs are scored by the checkpoint itself, and by word frequencies alone"
    caption += scored * any(levels.values())
    return _drawn("along_pretraining.svg", caption, contents, levels, TOKENS, HEADLINE)


def along_setting(comparison: Comparison) -> Curves:
    """Empty where arms do not differ in one setting that is a number, with three values or more."""
    contents = {}
    quality = HEADLINE if comparison.selected_tasks else LOSS
    key, values = _swept(comparison)
    for section in comparison.selected if key else ():
        lines: dict[str, Points] = {}
        for row in section.rows:
            name, value = values.get(row.label, ("", 0.0))
            if name and (reached := [*row.values(LOSS if section.is_pretraining else HEADLINE).values()]):
                lines.setdefault(name, {})[value] = reached
        if lines := {name: line for name, line in lines.items() if len(line) >= FEWEST}:
            contents[section.name] = lines
    return _drawn("along_setting.svg", f"Scores along {key}: {BARS}", contents, {}, key, quality)


def _drawn(
    file: str,
    caption: str,
    contents: dict[str, dict[str, Points]],
    levels: dict[str, dict[str, float]],
    key: str,
    quality: str,
) -> Curves:
    """One panel per section, one line per arm."""

    def draw(axes: Axes, title: str, lines: Mapping[ArmStyle, Points]) -> None:
        places = [place for line in lines.values() for place in line]
        factor, unit = plots.axis_unit(TOKENS, places) if key == TOKENS else (1.0, "")
        for arm, line in lines.items():
            x, reached = zip(*sorted(line.items()), strict=True)
            means = [fmean(values) for values in reached]
            plots.series(axes, arm, [place / factor for place in x], means, y_bars=plots.reaching_bars(means, reached))
        if key == TOKENS:
            axes.set_xlim(left=0)
        plots.scale_axis(axes.xaxis, places, False if key == TOKENS else None)
        plots.same_span([axes], LEAST_SPAN, math.inf if quality == LOSS else plots.HIGHEST)
        xlabel = plots.with_unit(metrics.get(TOKENS).title if key == TOKENS else key, unit)
        axes.set(title=title, xlabel=xlabel, ylabel=metrics.get(quality).title)

    labels = list(dict.fromkeys(label for lines in contents.values() for label in lines))
    return plots.drawn({file: (caption, partial(plots.panels, wide=3.6, high=2.8), labels, contents, draw, levels)})


def _swept(comparison: Comparison) -> tuple[str, dict[str, tuple[str, float]]]:
    """The one setting by which arms differ and that is a number; label -> the arm without it, and the value. Empty without one.

    An arm that keeps the default has it without naming it.
    """
    firsts = {row.label: row.first for section in comparison.selected for row in section.rows}
    by_key: dict[str, dict[str, tuple[str, float]]] = {}
    for label, run in firsts.items():
        text = " ".join([label, *unnamed_settings(run, comparison.labels)])
        for match in NUMBERED.finditer(text):
            rest = " ".join((text[: match.start()] + text[match.end() :]).split())
            by_key.setdefault(match[1], {})[label] = (rest, float(match[2]))
    numbers = {key: arms for key, arms in by_key.items() if len({value for _, value in arms.values()}) >= FEWEST}
    return next(iter(numbers.items())) if len(numbers) == 1 else ("", {})


def points_of(section: Section) -> dict[str, Points]:
    """Label of an arm without its point -> its line, where it has at least two points.

    A point is the tokens of the pretraining that a row starts from, none without one or with a budget that is not in tokens.
    """
    lines: dict[str, Points] = {}
    for row in section.rows:
        setting, scores = row.first.setting, row.values(HEADLINE).values()
        tokens = setting("pretrain.at") or setting("pretrain.tokens")
        if tokens and scores and setting("pretrain.objective") not in (None, "none"):
            lines.setdefault(POINT.sub("", row.label), {}).setdefault(float(tokens), []).extend(scores)
    return {label: line for label, line in lines.items() if len(line) > 1}


def references(section: Section) -> dict[str, float]:
    """Baselines without a model: word frequencies and guessing; empty if these are not scored."""
    scores = {
        name: [run.metrics[metric] for run in section.runs if metric in run.metrics] for name, metric in REFERENCES.items()
    }
    return {name: fmean(of_name) for name, of_name in scores.items()} if all(scores.values()) else {}
