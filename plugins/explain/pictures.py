"""Shared by the pictures of all commands: style, files, and text fitted to its place."""

import io
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextPath

from harness import paths
from harness.errors import writing

STYLE = Path(__file__).with_suffix(".mplstyle")
"""Settings of matplotlib under which a picture is drawn and saved."""

CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
"""Alignment of a text whose place is its middle."""

SMALLEST = 4.5
"""Points of a letter; a text that needs smaller ones is cut."""

ROUNDING = 1.04
"""A little more than the outline, as letters are drawn on whole pixels."""


def content(figure: Figure, ending: str) -> bytes:
    """The file of a figure that was drawn under STYLE, the same bytes for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, metadata={"Date": None} if ending == "svg" else {"Software": None}, dpi=150)
    return buffer.getvalue()


def save(figure: Figure, folder: Path, name: str, endings: Iterable[str] = ("png", "svg")) -> str:
    """Writes the figure once an ending; returns the paths, a line each. InputError where the folder cannot be written."""
    files = [folder / f"{name}.{ending}" for ending in endings]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            with paths.replaced(file) as temporary:
                temporary.write_bytes(content(figure, file.suffix[1:]))
    return "\n".join(map(str, files))


def sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with axes that count inches from its lower left corner and draw nothing of themselves."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def rounded(axes: Axes, x: float, y: float, width: float, height: float, edgecolor: str = "#555555", **style: Any) -> None:
    """A rectangle with rounded corners."""
    shape = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch((x, y), width, height, shape, edgecolor=edgecolor, linewidth=0.8, **style))


def fitted(text: str, width: float, size: float) -> tuple[str, float]:
    """The text and its size in points: smaller where it is wider than `width` inches, and cut where nobody could read it.

    A letter that the font lacks is a box.
    """
    font = get_font(findfont("DejaVu Sans"))
    text = "".join(letter if font.get_char_index(ord(letter)) else "□" for letter in text)
    size = min(size, size * width / max(breadth(text, size), 1e-3))
    if size >= SMALLEST:
        return text, size
    while len(text) > 2 and (wide := breadth(text, SMALLEST)) > width:
        text = f"{text[: min(int(len(text) * width / wide) + 1, len(text) - 2)]}…"
    return text, SMALLEST


@lru_cache(maxsize=4096)
def breadth(text: str, size: float) -> float:
    """Inches that the text takes at this size in points, in bold letters."""
    if not text.strip():
        return 0.0
    outline = TextPath((0, 0), text, size=size, prop=FontProperties(weight="bold"))
    return outline.get_extents().x1 / 72 * ROUNDING
