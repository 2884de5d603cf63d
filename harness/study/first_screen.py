"""What a sweep shows at its end: the first table of its report, and what was found, the score before all else."""

import html
import io
import re
import shutil
from itertools import chain

from rich import box
from rich.console import Console
from rich.table import Table

from harness.terminal import WIDTH, wrapped

LEGEND = "▲"
"""The first sign of the paragraph that explains the signs of the table."""


def first_screen(report: str) -> str:
    """From the Markdown of a report, as wide as the terminal; empty where it compares no arms."""
    paragraphs = report.split("\n\n")
    place = next((place for place, text in enumerate(paragraphs) if text.startswith("| arm |")), None)
    if place is None:
        return ""
    head, sides, *rows = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in paragraphs[place].splitlines())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title, side in zip(head, sides, strict=True):
        table.add_column(_plain(title), justify="right" if side.endswith(":") else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_plain, row))
    printed = io.StringIO()
    Console(file=printed, width=shutil.get_terminal_size((WIDTH, 24)).columns, markup=False, highlight=False).print(table)
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    legend = [_wrapped(text) for text in paragraphs[place + 1 : place + 2] if text.startswith(LEGEND)]
    return "\n".join([*lines, *([""] if legend else []), *legend, "", *_found(paragraphs)])


def _found(paragraphs: list[str]) -> list[str]:
    """One line: what the report says of the score, of all arms or of each; else what it says first."""
    first = next((text.splitlines() for text in paragraphs if text.startswith("- **")), [])
    bullets = [line for line in first if re.match(r"- \*\*[^*]+\*\*: ", line)]  # not those of an arm on one task
    whole = [line for line in bullets if line.startswith("- **score**")]
    if whole:
        return [_wrapped(whole[0].removeprefix("- "))]
    said = (line.removeprefix("- ").removesuffix(".").partition(": ") for line in bullets)
    clauses = [(arm, text.split("; ")) for arm, _, text in said if text]
    of_score = [f"{arm}: {next(chain((one for one in parts if 'score' in one), parts))}" for arm, parts in clauses]
    return [_wrapped("; ".join(of_score) + ".")] if of_score else []


def _wrapped(markdown: str) -> str:
    return wrapped(_plain(markdown), 0)


def _plain(markdown: str) -> str:
    """Without markup; line breaks of a cell are line breaks."""
    text = re.sub(r"(?<!\\)\*+", "", markdown).replace("<br>", "\n")
    return html.unescape(re.sub(r"\\(.)", r"\1", text))
