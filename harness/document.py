"""A report as objects: what chapters return, and what all formats, the first screen, MLflow's page and archives are made from.

Texts are inline Markdown (emphasis and code) in which names are escaped. Structure, numbers and verdicts are never read back
from text: another process reads the objects themselves, as JSON.
"""

import html
import re
import textwrap
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Union

import msgspec

from harness.errors import some_of
from harness.terminal import Strong, counted, table, wrapped

DASH = "–"
MOST_ARMS = 8
"""Arms of a table at first sight."""
FILE = "report.json"
"""The document next to its report."""


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cell of a table. `value` is its number, in base units, of which `unit` is comparable with those of the same unit."""

    text: str
    value: float | None = None
    unit: str = ""
    change: str = ""  # below the value; may have several lines
    verdict: str = ""  # `better` or `worse`, where that is supported
    best: bool = False  # of its column

    @property
    def lines(self) -> list[str]:
        return [self.text, *(self.change.split("\n") if self.change else [])]


class Table(msgspec.Struct, frozen=True, omit_defaults=True, tag="table"):
    """The first `left` columns are aligned left, the others right."""

    head: list[str]
    rows: list[list[Cell]]
    left: int = 1

    @property
    def columns(self) -> list[list[Cell]]:
        return [[row[index] for row in self.rows] for index in range(len(self.head))]

    @property
    def folded(self) -> list[list[Cell]]:
        """Rows of arms after the first MOST_ARMS; references, in italics, stay."""
        arms = [row for row in self.rows if not row[0].text.startswith("*")] if self.head[0] == "arm" else []
        return arms[MOST_ARMS:]


class Bullets(msgspec.Struct, frozen=True, tag="bullets"):
    """A list."""

    items: list[str]


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """A picture in a file next to the report."""

    file: str
    caption: str


class Section(msgspec.Struct, frozen=True, omit_defaults=True, tag="section"):
    """A heading with its blocks. Without a title, it continues the previous section."""

    title: str = ""
    blocks: list["Block"] = []
    detail: bool = False  # on the page and in LaTeX, and not in report.md
    for_paper: bool = False  # LaTeX has its tables although it is below a chapter


Block = Union[str, Bullets, Table, Picture, Section]  # noqa: UP007 - Section is defined by it
"""A paragraph is a string."""


class Screen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a terminal shows of a report: its answer, and its arms in a table whose last columns matter least."""

    answer: str
    table: Table
    notes: list[str]
    more: list[str] = []  # names of further columns
    as_asked: bool = False  # no column is left out where the terminal is narrow
    noise: list[str] = []  # times that it leaves without a verdict


class Document(msgspec.Struct, frozen=True):
    """A report. Its first section has no title; the chapters of a small study fold."""

    title: str
    sections: list[Section]
    screen: Screen | None = None
    is_small: bool = False


def read(content: bytes) -> Document:
    """The document of a FILE."""
    return msgspec.json.decode(content, type=Document)


def without(section: Section, drops: Callable[[Block], bool]) -> Section:
    """The section, including nested ones, without the blocks that `drops` selects."""
    kept = (block for block in section.blocks if not drops(block))
    blocks = [without(block, drops) if isinstance(block, Section) else block for block in kept]
    return msgspec.structs.replace(section, blocks=blocks)


def is_detail(block: Block) -> bool:
    """Whether the block is a section of details."""
    return isinstance(block, Section) and block.detail


def markdown(block: Block, level: int = 2) -> Iterator[str]:
    """Paragraphs of Markdown; the heading of a section is of this level, and an empty section has none."""
    if isinstance(block, Section):
        parts = [part for inner in block.blocks for part in markdown(inner, level + bool(block.title))]
        yield from [f"{'#' * level} {block.title}"] * bool(block.title and parts)
        yield from parts
    elif isinstance(block, Bullets):
        yield "\n".join(f"- {item}" for item in block.items)
    elif isinstance(block, Picture):
        yield f"![{block.caption}]({block.file})"
        yield f"*{block.caption}.*"
    elif isinstance(block, Table):
        folded = block.folded
        yield _table(block, [row for row in block.rows if row not in folded])
        if folded:
            names = some_of([*dict.fromkeys(row[0].text for row in folded)], MOST_ARMS)
            yield f"<details><summary>{counted(len(folded), 'more row')}: {names}</summary>"
            yield _table(block, folded)
            yield "</details>"
    else:
        yield block


def _table(table: Table, rows: list[list[Cell]]) -> str:
    rule = [":--" if index < table.left else "--:" for index in range(len(table.head))]
    lines = [table.head, rule, *(["<br>".join(cell.lines) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def unmarked(text: str) -> str:
    """The text without its markup, on one line."""
    bare = re.sub(r"(?<!\\)[*`]+", "", " ".join(text.split()))
    return type(text)(html.unescape(re.sub(r"\\([\\`*\[\]|_])", r"\1", bare)))


WIDE_HEAD = 16
"""Columns by which a header may exceed its cells before it wraps."""


def first_screen(screen: Screen | None, command: str = "add", is_last: bool = True) -> str:
    """The table as it fits the terminal, with its legend, and in the last one the answer; empty where there is none.

    `command` prints it anew, with `columns=all` as a whole; after a sweep, which has told the noise, it is another than `add`.
    """
    if screen is None:
        return ""
    shown, more = screen.table, [*screen.more]
    while not screen.as_asked and len(shown.head) > 2 and "\n\n" in "".join(in_terminal(shown)):
        more.insert(0, shown.head[-1].partition(",")[0])
        shown = Table(shown.head[:-1], [row[:-1] for row in shown.rows])
    parts = [*in_terminal(shown), *in_terminal(" ".join([*screen.notes, *screen.noise * (is_last and command == "add")]))]
    if more and is_last:
        columns = wrapped(unmarked(f"More columns: {', '.join(more)}"))
        parts.append(f"{columns}\n  {command} columns=all")
    return "\n\n".join(filter(None, [*parts, *(in_terminal(screen.answer) if is_last else [])]))


def in_terminal(block: Block) -> Iterator[str]:
    """Paragraphs as wide as the terminal, without pictures and detail; the best values of a table are bold."""
    if isinstance(block, Section):
        yield from filter(None, [unmarked(block.title)])
        yield from (part for inner in block.blocks if not is_detail(inner) for part in in_terminal(inner))
    elif isinstance(block, Table):
        rows = [[[Strong(cell.text), *cell.lines[1:]] if cell.best else cell.lines for cell in row] for row in block.rows]
        lines = [tuple(map(unmarked, line)) for row in rows for line in zip_longest(*row, fillvalue="")]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        heads = [
            textwrap.fill(unmarked(head), max(WIDE_HEAD, width), break_long_words=False)
            for head, width in zip(block.head, widths, strict=True)
        ]
        yield table(tuple(heads), lines, "l" * block.left + "r")
    elif not isinstance(block, Picture):
        yield from map(wrapped, map(unmarked, block.items if isinstance(block, Bullets) else [block]))
