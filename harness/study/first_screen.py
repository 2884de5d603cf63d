"""What a sweep shows at its end: the first table of its report, and the report's answer, the score before all else."""

import io
import textwrap
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from harness.document import Screen, unmarked
from harness.terminal import columns, wrapped

WIDE_HEAD = 16
"""Columns that a head takes over narrower cells before it is wrapped."""
GAP = 3
"""Columns between two columns of a table."""


def first_screen(screen: Screen | None) -> str:
    """The opening of a report, as wide as the terminal; empty where it compares no arms."""
    if screen is None:
        return ""
    table = screen.table
    every = [
        Column(unmarked(head), ["\n".join(map(unmarked, cell.lines)) for cell in cells], right=place >= table.left)
        for place, (head, cells) in enumerate(zip(table.head, table.columns, strict=True))
    ]
    return "\n\n".join([_tables(every), *(wrapped(unmarked(text), 0) for text in [*screen.notes[:1], screen.answer])])


@dataclass(frozen=True)
class Column:
    """A column of the table: its head, and its cells, whose lines are not broken where there is space for them."""

    title: str
    cells: list[str]
    right: bool

    @property
    def width(self) -> int:
        """Width of the longest line of its cells, and of its head, wrapped where that is longer."""
        return max(cell_len(line) for text in [self.head, *self.cells] for line in text.splitlines() or [""])

    @property
    def head(self) -> str:
        content = max((cell_len(line) for text in self.cells for line in text.splitlines()), default=0)
        return textwrap.fill(self.title, max(WIDE_HEAD, content), break_long_words=False)


def _tables(every: list[Column]) -> str:
    """As many below each other as the width takes, each with the first column."""
    first, *others = every
    left, blocks = 0, []
    for column in others:
        if not blocks or left < column.width + GAP:
            left = columns() - first.width
            blocks.append([first])
        left -= column.width + GAP
        blocks[-1].append(column)
    return "\n\n".join(map(_table, blocks))


def _table(block: list[Column]) -> str:
    fits = sum(column.width for column in block) + GAP * (len(block) - 1) <= columns()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in block:
        table.add_column(column.head, justify="right" if column.right else "left", overflow="fold", no_wrap=fits)
    for row in zip(*(column.cells for column in block), strict=True):
        table.add_row(*row)
    printed = io.StringIO()
    Console(file=printed, width=columns(), markup=False, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
