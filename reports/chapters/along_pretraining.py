"""The chapter on the score along pretraining: what fine-tuning reaches from weights kept after so many tokens."""

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness import metrics
from reports.comparison.compare import Comparison, Study
from reports.comparison.section import Row, Section
from reports.writing import plots
from reports.writing.formats import Chapter
from reports.writing.plots import ArmStyle, arm_styles, grid, handle, legend
from reports.writing.tables import section_name

SCORE, UNSET = "eval/score", "None"
CAPTION = (
    "Score along pretraining: fine-tuned from the weights kept after so many tokens, mean over seeds; bars reach from the "
    "least to the largest"
)

Line = dict[float, list[float]]
"""Tokens of pretraining -> scores of the seeds, in the order of tokens."""


def chapter(study: Study) -> Chapter:
    """Empty where no arm was fine-tuned from several points of its pretraining."""
    comparison = study.comparison
    found = {section_name(comparison, section): lines for section in comparison.sections if (lines := lines_of(section))}
    if not found:
        return Chapter()
    files = plots.drawn({"along_pretraining.svg": plots.draw(picture, comparison, found)})
    return Chapter(["## Score along pretraining", *plots.pictured({"along_pretraining.svg": CAPTION}, files)], files)


def lines_of(section: Section) -> dict[str, Line]:
    """Label of an arm without its point -> its line, where it has at least two points."""
    lines: dict[str, Line] = {}
    for row in section.rows:
        point = tokens_of(row)
        if point is not None and (scores := list(row.values(SCORE).values())):
            lines.setdefault(without_point(row.label), {}).setdefault(point, []).extend(scores)
    return {label: dict(sorted(line.items())) for label, line in lines.items() if len(line) > 1}


def without_point(label: str) -> str:
    """`base+mlm at=500000 dtype=bf16` -> `base+mlm dtype=bf16`."""
    return re.sub(r" (pretrain\.)?at=\S+", "", label)


def tokens_of(row: Row) -> float | None:
    """Tokens of the pretraining that the row starts from; None without one, or where its budget is not in tokens."""
    params = next(iter(row.runs.values())).params
    text = next((params[key] for key in ("pretrain.at", "pretrain.tokens") if params.get(key, UNSET) != UNSET), UNSET)
    return None if text == UNSET or params.get("pretrain.objective", "none") == "none" else float(text)


def picture(comparison: Comparison, found: dict[str, dict[str, Line]]) -> Figure:
    """One panel a task, one line an arm."""
    labels = list(dict.fromkeys(without_point(label) for label in comparison.labels))
    styles = arm_styles(labels)
    figure, axes = grid(len(found), wide=3.6, high=2.8)
    for panel, (title, lines) in zip(axes, found.items(), strict=True):
        _draw(panel, lines, styles)
        panel.set_title(title)
    shown = [label for label in labels if any(label in lines for lines in found.values())]
    legend(figure, [handle(styles[label], line=True, marked=True) for label in shown])
    return figure


def _draw(axes: Axes, lines: dict[str, Line], styles: dict[str, ArmStyle]) -> None:
    factor, unit = plots.prefix(max(tokens for line in lines.values() for tokens in line))
    for label, line in lines.items():
        arm, means = styles[label], [sum(scores) / len(scores) for scores in line.values()]
        below = [mean - min(scores) for mean, scores in zip(means, line.values(), strict=True)]
        above = [max(scores) - mean for mean, scores in zip(means, line.values(), strict=True)]
        bars = [below, above] if any(len(scores) > 1 for scores in line.values()) else None
        style = {"color": arm.colour, "linestyle": arm.line, "marker": arm.marker, "capsize": 2, "elinewidth": 0.9}
        axes.errorbar([tokens / factor for tokens in line], means, bars, linewidth=1.3, zorder=3, label=label, **style)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    title = metrics.get("pretrain/tokens").title
    axes.set(xlabel=f"{title} ({unit})" if unit else title, ylabel=metrics.get(SCORE).title)
