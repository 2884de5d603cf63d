"""A figure of matplotlib as an SVG file: in few bytes, and with the values of its marks, which a browser shows."""

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape

import numpy as np
from matplotlib.figure import Figure

from harness.reports.writing import formats

FONTS = "DejaVu Sans, Verdana, sans-serif"
"""Fonts of all texts; the first two are equally wide."""
DECIMALS = 2
"""Digits of coordinates, in 1/72 inch."""
REACH = 6.0
"""Points from the centre of a mark to the edge of the shape that has its values."""
SHAPE = '<rect x="{:.1f}" y="{:.1f}" width="12.0" height="12.0"><title>{}</title></rect>'


def lean(svg: bytes) -> bytes:
    """The picture without comments, metadata, spaces, and ids that nothing refers to; coordinates are rounded.

    `svg` has its texts as texts (`svg.fonttype: none`), not as the outlines of their letters.
    """
    text = re.sub(r"<!--.*?-->|<!DOCTYPE.*?>|<metadata>.*?</metadata>", "", svg.decode(), flags=re.DOTALL)
    text = text.replace('<g id="figure_1">', f'<g font-family="{FONTS}">', 1)
    used = {*re.findall(r'(?:href="#|url\(#)([^")]+)', text)}
    text = re.sub(r"<[^>]+>", lambda tag: _tag(tag[0], used), text)
    text, before = re.sub(r">\s+<", "><", text), ""
    while text != before:  # groups without attributes, the innermost first
        text, before = re.sub(r"<g>((?:[^<]|<(?!/?g\b))*)</g>", r"\1", text), text
    return text.encode()


def _tag(tag: str, used: set[str]) -> str:
    tag = re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in used else "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"| ?font-family:[^;"]*;?', "", tag)
    tag = re.sub(
        rf"-?\d+\.\d{{{DECIMALS + 1},}}", lambda number: f"{float(number[0]):.{DECIMALS}f}".rstrip("0").rstrip("."), tag
    )
    tag = re.sub(r" ?([MLQCz;:]) ", r"\1", " ".join(tag.split()))
    return re.sub(r'(M[^A-Za-z"]*)((?:L[^A-Za-z"]*)+)', lambda line: line[1] + line[2].replace("L", " "), tag)


def with_values(svg: bytes, figure: Figure) -> bytes:
    """The picture with an invisible shape above each mark, of which the title says its values; `figure` is laid out."""
    shapes = "\n".join(SHAPE.format(x - REACH, figure.bbox.height - y - REACH, escape(text)) for x, y, text in marks(figure))
    group = f'<g class="marks" fill="none" pointer-events="all">\n{shapes}\n</g>\n</svg>'
    return group.encode().join(svg.rsplit(b"</svg>", 1)) if shapes else svg


def marks(figure: Figure) -> Iterator[tuple[float, float, str]]:
    """Place of every labelled mark within its panel, in points from the left bottom of the figure, and what it says.

    A label of several lines says all; one of a single line is followed by the values at the axes.
    """
    for axes in figure.axes:
        title = axes.get_title() or axes.get_title(loc="left")
        for line in axes.get_lines():
            label = str(line.get_label())
            if line.get_marker() in ("None", "none", "") or label.startswith("_"):
                continue
            name, *words = label.split("\n")
            for x, y in np.asarray(line.get_xydata(), dtype=float):
                if axes.viewLim.contains(x, y):
                    values = words or [f"{axes.get_xlabel()}: {_number(x)}", f"{axes.get_ylabel()}: {_number(y)}"]
                    yield *axes.transData.transform((x, y)), "\n".join([f"{name}, {title}" if title else name, *values])


def _number(value: float) -> str:
    """About three significant digits; whole numbers whole."""
    return formats.plain(value, 0 if float(value).is_integer() else formats.decimals(value))
