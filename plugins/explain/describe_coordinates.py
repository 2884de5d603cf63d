"""`python -m harness describe coordinates recipe=mup`: whether activations have one size at all widths."""

from dataclasses import replace
from math import log2
from pathlib import Path

from matplotlib.figure import Figure

from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.models import mup
from harness.models.objectives.config import ObjectiveName
from harness.plugins.explain.coordinates import STEPS
from harness.plugins.explain.coordinates import coordinates as sizes_of
from harness.plugins.explain.pictures import save
from harness.terminal import table, wrapped

TIMES = (1, 2, 4)
"""Widths, in hidden sizes of the variant."""

TICKS = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100)

COLOURS = {"attention": "#0072B2", "feed-forward": "#D55E00", "logits": "#000000"}

Sizes = dict[str, list[float]]
"""Place -> mean absolute activation at each width."""


def coordinates(config: RunConfig, out: Path) -> str:
    """What is printed; writes the picture to `out`. InputError for a variant that has no such check."""
    pretrain = config.pretrain
    if pretrain.objective not in (ObjectiveName.none, ObjectiveName.mlm, ObjectiveName.clm) or pretrain.phases:
        raise InputError(f"describe coordinates trains with mlm or clm: expected one of them, not pretrain={pretrain.title}")
    if pretrain.objective is ObjectiveName.none:
        pretrain = replace(pretrain, objective=ObjectiveName.mlm)
    base, widths = pretrain.mup_base_width or config.model.hidden_size, [config.model.hidden_size * times for times in TIMES]
    try:
        mup.refuse_misfit(config.model)
    except ValueError as error:
        raise InputError(str(error)) from error
    found: dict[str, Sizes] = {}
    for value in (None, base):
        with_it = replace(config, pretrain=replace(pretrain, mup_base_width=value))
        by_width = [sizes_of(with_it, times) for times in TIMES]
        title = f"pretrain.mup_base_width={'null' if value is None else value}"
        found[title] = {place: [sizes[place] for sizes in by_width] for place in by_width[0]}
    parts = [f"mean absolute activations of {config.label} after {STEPS} steps at {pretrain.learning_rate:g}, by hidden size"]
    for title, sizes in found.items():
        rows = []
        for place, line in sizes.items():
            growth = log2(line[-1] / line[0]) / log2(TIMES[-1] / TIMES[0])
            rows.append((place, *(f"{one:.3g}" for one in line), f"{growth:+.2f}"))
        parts.append(table((title, *map(str, widths), "growth"), rows))
    note = "growth: power of the width; 0: one size at all widths. Logits begin near 0 in wide models with mup_base_width."
    return "\n\n".join([*parts, wrapped(note), save(_drawn(found, widths), out, "coordinates")])


def _drawn(found: dict[str, Sizes], widths: list[int]) -> Figure:
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    drawn = [size for sizes in found.values() for line in sizes.values() for size in line]
    ticks = [tick for tick in TICKS if min(drawn) / 2 < tick < max(drawn) * 2]
    for axes, (title, sizes) in zip(figure.subplots(1, len(found), sharey=True), found.items(), strict=True):
        axes.set(title=title, xlabel="hidden size", xscale="log", yscale="log")
        axes.set_xticks(widths, [*map(str, widths)])
        axes.set_yticks(ticks, [*map(str, ticks)])
        axes.minorticks_off()
        for place, line in sizes.items():
            kind = place.partition(" ")[0]
            axes.plot(widths, line, color=COLOURS[kind], marker=".", label=kind if place in (kind, f"{kind} 1") else None)
    figure.axes[0].set_ylabel("mean absolute activation")
    figure.axes[0].legend()
    return figure
