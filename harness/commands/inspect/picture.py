"""The input of a model as boxes: vectors of pieces, segments and positions, one above the other, that are summed.

The manner is that of figure 2 of the BERT paper (arXiv:1810.04805). Lengths are inches; it knows no model.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextPath

from harness.commands.inspect.sequences import NOTHING, InputSequence

STYLE = {"svg.hashsalt": "harness", "font.family": "DejaVu Sans", "font.size": 9, "text.parse_math": False}
FONT = "DejaVu Sans"
ACROSS = 24
"""Pieces side by side."""

WIDTH, HEIGHT, STEP, PLUS, APART = 0.66, 0.3, 0.72, 0.2, 0.1
"""Of a box; from one to the next; between rows that are summed; between the pieces and those."""

LEFT, MARGIN, LINE, LABELS, BETWEEN = 1.7, 0.3, 0.19, 0.26, 0.35
"""Left of the boxes; around all; of a line of text; of the row of labels; between two bands of pieces."""

SMALLEST = 4.5
"""Points of a letter; a piece that needs smaller ones is cut."""

POINT, ROUNDING = 1 / 72, 1.04
INPUT = "#F1EFEA"
COLOURS = {"id": "#F7F1C9", "position": "#E4E4E4"}
SEGMENTS = ("#D3EBD3", "#D6E6F4")
NAMES = {"id": "Token embeddings", "segment": "Segment embeddings", "position": "Position embeddings"}
LETTERS = "AB"


def draw(sequence: InputSequence) -> Figure:
    """Rows of up to ACROSS pieces below each other, the notes above them."""
    count = len(sequence.rows["piece"])
    width = LEFT + STEP * max(12, min(ACROSS, count)) + MARGIN
    notes = [line for note in sequence.notes for line in wrap(drawable(note), int(width * 13))]
    band = _band_height(sequence)
    bands = -(-count // ACROSS)
    height = 0.75 + LINE * len(notes) + bands * (band + BETWEEN)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    title, size = fitted(sequence.title, width - 2 * MARGIN, 13, bold=True)
    axes.text(MARGIN, height - 0.3, title, fontsize=size, fontweight="bold", va="center")
    for number, note in enumerate(notes):
        axes.text(MARGIN, height - 0.6 - LINE * number, note, va="center", color="#444444")
    top = height - 0.7 - LINE * len(notes)
    for number in range(bands):
        pieces = slice(number * ACROSS, (number + 1) * ACROSS)
        Band(axes, sequence, pieces, top - number * (band + BETWEEN)).draw()
    return figure


def _band_height(sequence: InputSequence) -> float:
    rows = 1 + len(sequence.added)
    return rows * HEIGHT + (rows - 2) * PLUS + APART + ("label" in sequence.rows) * LABELS


@dataclass
class Band:
    """Pieces side by side, drawn downward from `y`."""

    axes: Axes
    sequence: InputSequence
    pieces: slice
    y: float

    def draw(self) -> None:
        """The pieces, their labels, and the rows that are summed."""
        self._row("Input", self._texts("piece"), [self._colour("piece", text) for text in self._texts("piece")], False)
        if "label" in self.sequence.rows:
            self._labels(self._texts("label"))
        for number, name in enumerate(self.sequence.added):
            if number:
                self._plus()
            else:
                self.y -= APART
            texts = self._texts(name)
            shown = self._texts("piece") if name == "id" else [_letter(text) for text in texts] if name == "segment" else texts
            self._row(NAMES[name], shown, [self._colour(name, text) for text in texts], True)

    def _texts(self, name: str) -> Sequence[str]:
        return self.sequence.rows[name][self.pieces]

    def _colour(self, name: str, text: str) -> str:
        if name == "segment":
            return SEGMENTS[int(text) % len(SEGMENTS)]
        return INPUT if name == "piece" else COLOURS[name]

    def _row(self, name: str, texts: Sequence[str], colours: Sequence[str], vectors: bool) -> None:
        """Boxes under one name; an E with the text as its index for vectors."""
        middle = self.y - HEIGHT / 2
        self.axes.text(MARGIN, middle, name, va="center", fontsize=8, color="#444444")
        for place, (text, colour) in enumerate(zip(texts, colours, strict=True)):
            x = LEFT + STEP * place
            rounded = FancyBboxPatch((x, self.y - HEIGHT), WIDTH, HEIGHT, "round,pad=0,rounding_size=0.05")
            rounded.set(facecolor=colour, edgecolor="#555555", linewidth=0.7)
            self.axes.add_patch(rounded)
            self._inside(x + WIDTH / 2, middle, text, vectors)
        self.y -= HEIGHT

    def _inside(self, x: float, y: float, text: str, vector: bool) -> None:
        before = breadth("E", 9) if vector else 0.0
        shown, size = fitted(text, WIDTH - 0.08 - before, 7 if vector else 8.5)
        if not vector:
            self.axes.text(x, y, shown, ha="center", va="center", fontsize=size)
            return
        left = x - (before + breadth(shown, size)) / 2
        self.axes.text(left, y + 0.005, "E", va="center_baseline", fontsize=9)
        self.axes.text(left + before, y - 0.045, shown, va="center_baseline", fontsize=size)

    def _labels(self, texts: Sequence[str]) -> None:
        """Below the pieces; a dash for a piece without label."""
        middle = self.y - LABELS / 2
        self.axes.text(MARGIN, middle, "Label", va="center", fontsize=8, color="#444444")
        for place, text in enumerate(texts):
            shown, size = fitted(text, STEP - 0.04, 8, bold=True)
            plain = text in (NOTHING, "O")
            style = {"color": "#999999" if plain else "#A33B00", "fontweight": "normal" if plain else "bold"}
            self.axes.text(LEFT + STEP * place + WIDTH / 2, middle, shown, ha="center", va="center", fontsize=size, **style)
        self.y -= LABELS

    def _plus(self) -> None:
        """Between two rows."""
        for place in range(len(self._texts("piece"))):
            x = LEFT + STEP * place + WIDTH / 2
            self.axes.text(x, self.y - PLUS / 2, "+", ha="center", va="center", fontsize=9, color="#444444")
        self.y -= PLUS


def _letter(text: str) -> str:
    return LETTERS[int(text)] if int(text) < len(LETTERS) else text


def fitted(text: str, width: float, size: float, bold: bool = False) -> tuple[str, float]:
    """The text and its size in points: smaller where it is wider, and cut where it would be too small to read."""
    text = drawable(text)
    size = min(size, size * width / max(breadth(text, size, bold), POINT))
    if size >= SMALLEST:
        return text, size
    while len(text) > 2 and (wide := breadth(text, SMALLEST, bold)) > width:
        text = f"{text[: min(int(len(text) * width / wide) + 1, len(text) - 2)]}…"
    return text, SMALLEST


@lru_cache(maxsize=4096)
def breadth(text: str, size: float, bold: bool = False) -> float:
    """Inches; a little more than the outline, as letters are drawn on whole pixels."""
    if not text.strip():
        return 0.0
    font = FontProperties(family=FONT, weight="bold" if bold else "normal")
    return TextPath((0, 0), text, size=size, prop=font).get_extents().x1 * POINT * ROUNDING


def drawable(text: str) -> str:
    """With a box in the place of each letter that the font lacks."""
    known = _letters()
    return "".join(letter if ord(letter) in known else "□" for letter in text)


@lru_cache(maxsize=1)
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FONT)).get_charmap())


def content(figure: Figure, ending: str) -> bytes:
    """The file of a figure that was drawn under STYLE; the same bytes for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, metadata={"Date": None} if ending == "svg" else {"Software": None}, dpi=150)
    return buffer.getvalue()
