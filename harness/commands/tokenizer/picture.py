"""Tokenizers as a picture: length against words, and in how many pieces words are. The same bytes for the same counts."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.commands.inspect.picture import STYLE, content
from harness.commands.tokenizer.counts import MOST, Counts, Text
from harness.errors import InputError

LINES = (("#000000", "-"), ("#0072B2", "--"), ("#D55E00", "-."), ("#009E73", ":"), ("#7A7A7A", "-"))
GREYS = ("#F2F2F2", "#CFCFCF", "#A3A3A3", "#787878")
"""Of words in 1, 2, ... pieces."""

POINTS = 12
"""Groups of texts by their number of words, each with as many texts."""

ROOM = 0.05
"""Share of all words from which a part of a bar has room for its number."""


def write(counted: Sequence[Counts], text: Text, source: str, out: Path) -> list[str]:
    """The files; InputError where `out` cannot be written."""
    with mpl.rc_context(STYLE):
        figure = draw(counted, text, source)
        try:
            out.mkdir(parents=True, exist_ok=True)
            paths = []
            for ending in ("png", "svg"):
                paths.append(out / f"{source.replace(' ', '-')}.{ending}")
                paths[-1].write_bytes(content(figure, ending))
        except OSError as error:
            raise InputError(f"out={str(out)!r} cannot be written ({error.strerror}); expected a folder") from error
    return list(map(str, paths))


def draw(counted: Sequence[Counts], text: Text, source: str) -> Figure:
    """Lengths to the left, words to the right."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    figure.suptitle(f"Tokenizers on the held-out text of {source}", fontweight="bold", fontsize=12)
    left, right = figure.subplots(1, 2)
    _lengths(left, counted, text)
    _words(right, counted)
    return figure


def groups(lengths: np.ndarray) -> list[np.ndarray]:
    """Places of texts of similar numbers of words, the shortest first; texts of one length are in one group."""
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, POINTS + 1)))
    numbers = np.searchsorted(edges[1:-1], lengths, side="left")
    return [np.flatnonzero(numbers == number) for number in np.unique(numbers)]


def _lengths(axes: Axes, counted: Sequence[Counts], text: Text) -> None:
    axes.set_title("pieces of a text by its words, means", loc="left", fontsize=10)
    parts = groups(text.lengths)
    x = [text.lengths[part].mean() for part in parts]
    ends = []
    for (colour, dashes), one in zip(LINES, counted, strict=False):
        y = [one.lengths[part].mean() for part in parts]
        axes.plot(x, y, color=colour, linestyle=dashes, marker="o", markersize=3, linewidth=1.4)
        ends.append((y[-1], one.name, colour))
    top = max(end for end, *_ in ends)
    axes.set(xlabel="words and punctuation marks", ylabel="pieces", ylim=(0, 1.08 * top), xlim=(0, 1.3 * x[-1]))
    lowest = -np.inf
    for end, name, colour in sorted(ends):
        place = max(end, lowest + 0.055 * top)  # labels below each other
        lowest = place
        link = {"arrowstyle": "-", "color": colour, "linewidth": 0.6}
        where = (1.06 * x[-1], place)
        axes.annotate(name, (x[-1], end), where, color=colour, va="center", fontsize=9, arrowprops=link)
    axes.spines[["top", "right"]].set_visible(False)


def _words(axes: Axes, counted: Sequence[Counts]) -> None:
    axes.set_title("words by their number of pieces, share of all words", loc="left", fontsize=10)
    for row, one in enumerate(counted):
        start = 0.0
        parts = [*zip(GREYS, one.shares, strict=True), ("white", one.unknown_words)]
        for number, (colour, share) in enumerate(parts):
            hatch = "////" if number == MOST else None
            axes.barh(row, share, 0.62, left=start, color=colour, edgecolor="#444444", linewidth=0.6, hatch=hatch)
            if share >= ROOM:
                box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"} if hatch else None
                dark = "white" if number == MOST - 1 else "black"
                axes.text(
                    start + share / 2, row, f"{100 * share:.0f}", ha="center", va="center", color=dark, fontsize=8, bbox=box
                )
            start += share
    axes.set_yticks(range(len(counted)), [f"{one.name}\n{one.pieces_per_word:.2f} a word" for one in counted])
    axes.set(xlim=(0, 1), xlabel="share")
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    names = [*map(str, range(1, MOST)), f"{MOST} or more", "unknown"]
    colours = [*GREYS, "white"]
    patches = [
        mpl.patches.Patch(facecolor=colour, edgecolor="#444444", hatch="////" if name == "unknown" else None, label=name)
        for colour, name in zip(colours, names, strict=True)
    ]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(patches), frameon=False, fontsize=8)
