"""Time by component as horizontal bars, PNG and SVG: one bar for each variant, of the forward pass and of the training step."""

import io

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harness.commands.describe.picture import STYLE
from harness.commands.profile.table import number, parts_of
from harness.measure.records import Trace

COLOURS = {
    "embeddings": "#8FBCE0",
    "attention": "#F2A65A",
    "feed-forward": "#86C586",
    "norms": "#E3D15B",
    "head": "#B79AD6",
    "optimiser": "#D98E9F",
    "other": "#BDBDBD",
}
HATCH = "////"
"""Of the backward pass."""

BAR, LEAST = 0.42, 0.05
"""Height of a bar in inches, and the share of the longest bar from which a part is wide enough for its number."""

TITLES = {
    "forward": "forward pass, one text (ms)",
    "training_step": "training step, one batch (ms)",
}


def draw(traced: dict[str, Trace]) -> Figure:
    """Variant -> its trace; one bar a variant, the first on top."""
    panel = BAR * len(traced) + 0.75
    figure = Figure(figsize=(9, 2 * panel + 0.75), layout="constrained")
    figure.suptitle("time by component, under the profiler", fontweight="bold", fontsize=11)
    for axes, (call, title) in zip(figure.subplots(2, 1), TITLES.items(), strict=True):
        _panel(axes, {label: getattr(one, call).parts_ms for label, one in traced.items()})
        axes.set_title(title, loc="left", fontsize=9)
    _legend(figure)
    return figure


def _panel(axes: Axes, variants: dict[str, dict[str, dict[str, float]]]) -> None:
    ends = dict.fromkeys(variants, 0.0)
    longest = max(sum(value for parts in one.values() for value in parts.values()) for one in variants.values())
    for phase, component in parts_of(list(variants.values())):
        for row, (label, parts) in enumerate(variants.items()):
            width = parts.get(phase, {}).get(component, 0.0)
            colour = COLOURS["optimiser" if phase == "optimiser" else component]
            hatch = HATCH if phase == "backward" else None
            axes.barh(row, width, 0.7, left=ends[label], color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
            if width >= LEAST * longest:
                middle = ends[label] + width / 2
                box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
                axes.text(middle, row, number(width), ha="center", va="center", fontsize=8, bbox=box if hatch else None)
            ends[label] += width
    for row, end in enumerate(ends.values()):
        axes.text(end, row, f" {number(end)}", ha="left", va="center", fontsize=8, fontweight="bold")
    axes.set_yticks(range(len(variants)), list(variants))
    axes.set_xlim(0, 1.08 * longest)
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _legend(figure: Figure) -> None:
    patches = [Patch(facecolor=colour, label=name) for name, colour in COLOURS.items()]
    patches.append(Patch(facecolor="#EEEEEE", hatch=HATCH, edgecolor="#888888", label="backward"))
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False, fontsize=8, handlelength=1.2)


def files(traced: dict[str, Trace]) -> dict[str, bytes]:
    """Ending -> content; the same bytes for the same times."""
    contents = {}
    with mpl.rc_context(STYLE):
        figure = draw(traced)
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, metadata=metadata, dpi=150)
            contents[ending] = buffer.getvalue()
    return contents
