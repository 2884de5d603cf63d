"""The report as one page that loads nothing: tables sort, pictures are in the text, detail folds."""

import base64
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from harness.document import Block, Cell, Document, Picture, Section, Table, unmarked
from harness.reports.html.picture import dark_rules, inline
from harness.reports.writing.tables import MARKS

HERE = Path(__file__).parent
FOLDED_CELLS = 60
"""A part of a chapter folds if it has a table of more cells; those of what the report opens with always do."""
FOLDED_ITEMS = 12
"""A list of more items folds."""
SHORT_LINE, LONG_LINE = 18, 32
"""A change in a short line is not broken, and a number before its verdict alone; a long line is, at any space."""
BACKGROUND, FOREGROUND = (0x16, 0x19, 0x1D), (0xE8, 0xE6, 0xE3)
"""Background and text in the dark, as in page.css."""
NO_BREAK = "\u00a0"
GLUE = re.compile(r"(?<=[\d\]]) (?=%)|(?<=[▲▼≈~†]) (?=\w)")
_MARKS = "".join(mark[0] for mark in MARKS.values())
GLUED = re.compile(rf" (?![{_MARKS}](?: |$))")
"""A space that is not before a verdict in words."""


PARSER = MarkdownIt("commonmark", {"html": False})
"""Emphasis and code; names are escaped, and HTML is shown as text."""


def marked_up(text: str) -> Markup:
    """HTML of a text in inline Markdown."""
    return Markup(GLUE.sub(NO_BREAK, PARSER.renderInline(text)))  # noqa: S704 - the parser escapes what is no markup


def cell_lines(cell: Cell, is_first: bool) -> list[Markup]:
    """HTML of each line: a short number is not broken, and a mark stays with its first word."""
    lines = []
    for number, line in enumerate(cell.lines):
        short = not is_first and cell.value is not None and len(line) <= LONG_LINE and (not number or cell.unit)
        whole = number and len(line) <= SHORT_LINE
        lines.append(marked_up(line.replace(" ", NO_BREAK) if whole else GLUED.sub(NO_BREAK, line) if short else line))
    return lines


def is_long(cell: Cell) -> bool:
    """Whether the cell has a long line, which needs a wide column."""
    return max(map(len, cell.lines)) > LONG_LINE


def is_mixed(column: list[Cell]) -> bool:
    """Whether the column mixes units, such as where arms are columns; it is not sortable then."""
    return len({cell.unit for cell in column if cell.value is not None}) > 1


@dataclass
class Page:
    """What was counted while a page was made: no two elements share an id or a name."""

    files: Mapping[str, bytes]
    ids: set[str] = field(default_factory=set)
    chapters: list[tuple[str, str]] = field(default_factory=list)  # (title, id)
    tables: int = 0
    pictures: int = 0

    def id_of(self, title: str, level: int) -> str:
        """An id for this heading."""
        text = unmarked(title)
        stem = name = re.sub(r"[\W_]+", "-", text.lower()).strip("-") or "part"
        number = 1
        while name in self.ids:
            number += 1
            name = f"{stem}-{number}"
        self.ids.add(name)
        self.chapters += [(text, name)] if level == 2 else []
        return name

    def next_table(self) -> int:
        self.tables += 1
        return self.tables

    def svg(self, picture: Picture) -> Markup:
        """The picture as elements of the page."""
        self.pictures += 1
        return Markup(inline(self.files[picture.file], f"p{self.pictures}", unmarked(picture.caption)))  # noqa: S704 - of XML


def folds(part: Section, level: int, opens: bool, is_detail: bool, is_small: bool) -> bool:
    """Whether a reader opens it: chapters of a small study, parts of the opening and of detail, parts with a large table."""
    if level == 2:
        return is_small or opens
    tables = [block for block in part.blocks if isinstance(block, Table)]
    return part.detail or is_detail or any(len(table.head) * len(table.rows) > FOLDED_CELLS for table in tables)


def kind(block: Block) -> str:
    """The class of the block, for the template."""
    return type(block).__name__


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(HERE)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"marked_up": marked_up, "plain": unmarked, "kind": kind}
    names = {"folds": folds, "is_mixed": is_mixed, "cell_lines": cell_lines, "is_long": is_long}
    environment.globals |= names | {"FOLDED_ITEMS": FOLDED_ITEMS}
    return environment


def page(report: Document, files: Mapping[str, bytes]) -> bytes:
    """The page of a report, with the pictures among `files` that it shows."""
    counts, template = Page(files), _environment().get_template
    body = template("body.html.jinja").render(report=report, page=counts)
    dark = dark_rules(body, BACKGROUND, FOREGROUND)
    css, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    style = f"{css}@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    parts = {"main": Markup(body), "style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704
    names = {"title": unmarked(report.title), "chapters": counts.chapters}
    return template("page.html.jinja").render(names | parts).encode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
