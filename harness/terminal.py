"""Plain text for a terminal."""

import re
import textwrap

WIDTH = 100
"""Columns of what is wrapped."""

Row = tuple[str, ...]


def table(head: Row, rows: list[Row], aligned: str) -> str:
    """Columns under their heads, `l` to the left and `r` to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    sides = {"l": str.ljust, "r": str.rjust}
    texts = ([sides[side](text, width) for text, side, width in zip(line, aligned, widths, strict=True)] for line in lines)
    printed = ["  ".join(line).rstrip() for line in texts]
    return "\n".join([printed[0], "-" * (sum(widths) + 2 * len(widths) - 2), *printed[1:]])


def wrapped(text: str, indent: int, first: str = "", ending: str = "") -> str:
    """The text at most WIDTH wide, below an indent which `first` begins; every line but the last has the ending.

    A number stays with its percent sign and with the bracket that says where it holds.
    """
    bound = re.sub(r" (?=%|\(\d)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(bound, WIDTH - indent - len(ending), break_long_words=False, break_on_hyphens=False)
    starts, endings = [first, *[""] * len(lines)], [*[ending] * (len(lines) - 1), ""]
    joined = (f"{start:{indent}}{line}{end}" for start, line, end in zip(starts, lines, endings, strict=False))
    return "\n".join(joined).replace("\N{NO-BREAK SPACE}", " ")
