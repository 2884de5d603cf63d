"""What a terminal shows: tables and numbers, one line that says what happens now, and output whose reader may end first."""

import contextlib
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size

from harness.terminal import console

WIDTH = 100
"""Columns of what is wrapped, at most."""

NARROWEST = 20
"""Columns below which a terminal is taken for this wide: it breaks the lines itself."""

Row = tuple[str, ...]


class Strong(str):
    """A cell that is bold on a terminal."""


DASH = "-"
"""In place of a value that is missing."""


def table(head: Row, rows: Sequence[Row], aligned: str = "lr", keys: int = 1) -> str:
    """Columns under their heads, which may have several lines; the last letter of `aligned` is for all columns that follow.

    `l` to the left, `r` to the right. One that is wider than the terminal is several below each other, each with the first
    `keys` columns. `R`: to the right, and in one of them with the column before.
    """
    aligned = aligned.ljust(len(head), aligned[-1])[: len(head)]
    heads = [cell.split("\n") for cell in head]
    high = max(map(len, heads))
    lines = [*zip(*([""] * (high - len(cell)) + cell for cell in heads), strict=True), *rows]
    padded = []
    for texts, side in zip(zip(*lines, strict=True), aligned, strict=True):
        width = max(map(len, texts))
        filled = [text.ljust(width) if side == "l" else text.rjust(width) for text in texts]
        padded.append([bold(cell) if isinstance(text, Strong) else cell for text, cell in zip(texts, filled, strict=True)])
    blocks = [padded[: keys + 1]]
    for place in range(keys + 1, len(head)):
        if aligned[place] == "R":
            continue
        together = padded[place : place + 1 + (aligned[place + 1 : place + 2] == "R")]
        if _has_width() and _width([*blocks[-1], *together]) > columns():
            blocks.append(padded[:keys])
        blocks[-1] += together
    shown = []
    for block in blocks:
        printed = ["  ".join(line).rstrip() for line in zip(*block, strict=True)]
        shown.append("\n".join([*printed[:high], "-" * _width(block), *printed[high:]]))
    return "\n\n".join(shown)


def _width(block: list[list[str]]) -> int:
    """Characters of a line of these columns."""
    return sum(len(column[0]) + 2 for column in block) - 2


def bold(text: str) -> str:
    """The text in bold, where standard output is a terminal that is not asked to be plain (no-color.org)."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb" or not sys.stdout.isatty()
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def _has_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def columns() -> int:
    """Columns of the terminal that standard output is, or of `COLUMNS`, at least NARROWEST; WIDTH elsewhere."""
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns) if _has_width() else WIDTH


def wrapped(text: str, indent: int = 0, first: str = "", ending: str = "", most: int = WIDTH) -> str:
    """The text, at most `most` and the terminal wide, below an indent which `first` begins; lines but the last have the ending.

    A number stays with its percent sign and its bracket, a mark with its meaning. No-break spaces are kept together.
    """
    bound = re.sub(r" (?=%|\(\d)|(?<=[▲▼≈~†–]) (?=\w)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(bound, min(most, columns()) - indent - len(ending), break_long_words=False, break_on_hyphens=False)
    starts, endings = [first, *[""] * len(lines)], [*[ending] * (len(lines) - 1), ""]
    joined = (f"{start:{indent}}{line}{end}" for start, line, end in zip(starts, lines, endings, strict=False))
    return "\n".join(joined).replace("\N{NO-BREAK SPACE}", " ")


def listed(title: str, lines: Mapping[str, str]) -> str:
    """Names and their meanings, wrapped to the terminal, below a title; empty without any."""
    width = max(map(len, lines), default=0) + 4
    return (
        "\n".join([title, *(wrapped(meaning, width, f"  {name}") or f"  {name}" for name, meaning in lines.items())])
        if lines
        else ""
    )


def counted(number: int, what: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 10 min`, `3 d 4 h`: the two largest units."""
    whole = max(1, round(seconds))
    for name, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scaled(value: float, unit: str) -> str:
    """`3.36 M`, `812 GFLOP`: three digits with a decimal prefix."""
    for factor, prefix in PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}" if value / factor < 999.5 else f"{value / factor:.0f} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


EVERY_S, LINE_EVERY_S = 1.0, 15.0
"""Seconds between two rewrites on a terminal, and between two lines elsewhere."""


class LiveLine:
    """Shows a text from its creation until it is closed; where there is no terminal, as a line from time to time."""

    def __init__(self, text: str) -> None:
        self._text, self._began, self._closed = text, time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._rewrite, name="live line", daemon=True)
        if not console.is_quiet():
            self._thread.start()

    def show(self, text: str) -> None:
        """Replaces the text at the next rewrite."""
        self._text = text

    def close(self) -> None:
        """Removes the line."""
        if self._thread.is_alive():
            self._closed.set()
            self._thread.join()

    def _rewrite(self) -> None:
        if not console.is_live():
            while not self._closed.wait(LINE_EVERY_S):
                print(f"{self._text}, {time.monotonic() - self._began:.0f} s", file=sys.stderr, flush=True)
            return
        while not self._closed.is_set():
            minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
            text, time_so_far = self._text.replace("\n", " "), f", {minutes}:{seconds:02d}"
            width = shutil.get_terminal_size().columns - 1 - len(time_so_far)
            cut = text if cell_len(text) <= width else set_cell_size(text, max(0, width))  # some characters are two wide
            console.live_line(f"{cut}{time_so_far}")
            self._closed.wait(EVERY_S)
        console.live_line("")


OBEYED = re.compile(r"(?!\x1b\[[01]m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys, but for line breaks, tabs and bold, and halves of characters, which cannot be written."""


class Inert:
    """A stream that writes characters which a terminal would obey as Python writes them: what is shown may be of a stranger."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes the text; returns its length, as a stream does."""
        self._stream.write(OBEYED.sub(lambda found: repr(found[0])[1:-1], text))
        return len(text)


@contextlib.contextmanager
def live_line(text: str) -> Iterator[LiveLine]:
    """Shows the text while the block works."""
    line = LiveLine(text)
    try:
        yield line
    finally:
        line.close()


@contextlib.contextmanager
def still_line(text: str) -> Iterator[None]:
    """Shows the text while the block works, without a thread that would rewrite it: the block may fork."""
    live = console.is_live()
    if live:
        console.live_line(text)
    try:
        yield
    finally:
        if live:
            console.live_line("")
