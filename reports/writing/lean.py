"""A picture of matplotlib in fewer bytes, which looks the same."""

import re

FONTS = "DejaVu Sans, Verdana, sans-serif"
"""Fonts of all texts; the first two are equally wide."""
DECIMALS = 2
"""Digits of coordinates, in 1/72 inch."""


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
