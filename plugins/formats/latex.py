"""The report's main tables as a LaTeX document, for a paper: booktabs, in landscape, with every column within the page."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from harness.document import Document, Section, Table, unmarked
from harness.reports.render import Format

TEXT_WIDTH = 158
"""Digits that fit side by side on a landscape A4 page; a column takes GAP more than its text."""
GAP = 3
LONGEST = 24
"""Digits of a column at most: a longer line of a cell is broken, a longer word anywhere."""
EM = 0.58
"""Width of a digit in the font's em, and a little more."""
SPECIAL = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, str])
ACCENTED = "àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœ"
"""Letters that LaTeX has in its own fonts; other ones are written as U+4E2D."""
DOCUMENT = r"""% Tables of a study, by `python -m reports --format latex`. Another document that has them needs these packages.
\documentclass[a4paper]{article}
\usepackage[landscape,margin=15mm]{geometry}
\usepackage{amssymb,array,booktabs,longtable}
\newcolumntype{L}[1]{>{\raggedright}p{#1}}
\newcolumntype{R}[1]{>{\raggedleft}p{#1}}
\setlength{\tabcolsep}{0.7em}
\renewcommand{\arraystretch}{1.15}
\setlength{\LTcapwidth}{\textwidth}
\begin{document}
\footnotesize
"""


def document(report: Document) -> bytes:
    """The tables that are of the opening, of a chapter itself, or for a paper; each with its chapter as caption."""
    title = unmarked(report.title)
    tables = [(unmarked(part.title) or title, table) for part in report.sections for table in _of_chapter(part)]
    parts = [part for caption, table in tables for part in _tables(caption, table)]
    return (DOCUMENT + f"\\section*{{{escape(title)}}}\n" + "\n".join(parts) + "\\end{document}\n").encode()


def _of_chapter(section: Section) -> Iterator[Table]:
    for block in section.blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Section) and (block.for_paper or not block.title):
            yield from _of_chapter(block)


def escape(text: str) -> str:
    """Text that LaTeX shows literally; control characters are left out."""
    return "".join(map(_letter, text))


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if letter.isascii():
        return letter if letter.isprintable() else ""
    return letter if letter.lower() in ACCENTED else f"[U+{ord(letter):04X}]"


def _size(text: str) -> float:
    """Width in digits; letters that are not in the fonts are written as U+4E2D."""
    return sum(8.0 if len(_letter(one)) == 8 else 1.7 if one.isupper() or one in "mw%" else 1.0 for one in text)


def _line(text: str) -> str:
    """Where a long word may be broken; a bracket at its beginning is not read as an option of the line break before."""
    words = (escape(word) if _size(word) <= LONGEST else r"\allowbreak{}".join(map(_letter, word)) for word in text.split(" "))
    line = " ".join(words)
    return "{}" + line if line.startswith(("[", "*")) else line


def _tables(caption: str, table: Table) -> Iterator[str]:
    """As many tables as the width of the page needs; each begins with the first column."""
    head = [unmarked(text) for text in table.head]
    cells = [[[*map(unmarked, cell.lines)] for cell in column] for column in table.columns]
    widths = [
        min(LONGEST, max(_size(line) for line in ["mm", *name.split(), *(line for cell in column for line in cell)]))
        for name, column in zip(head, cells, strict=True)
    ]
    groups: list[list[int]] = [[0]]
    for place in range(1, len(head)):
        if sum(widths[of] + GAP for of in [*groups[-1], place]) > TEXT_WIDTH and len(groups[-1]) > 1:
            groups.append([0])
        groups[-1].append(place)
    for number, group in enumerate(groups):
        kinds = "".join(f"{'R' if place >= table.left else 'L'}{{{widths[place] * EM:.2f}em}}" for place in group)
        rows = [_row([[head[place]] for place in group]), "\\midrule\n\\endhead\n"]
        rows += [_row([cells[place][index] for place in group]) for index in range(len(table.rows))]
        yield (
            f"\\begin{{longtable}}{{@{{}}{kinds}@{{}}}}\n\\caption{{{escape(caption)}{' (continued)' * bool(number)}}}"
            f"\\tabularnewline\n\\toprule\n{''.join(rows)}\\bottomrule\n\\end{{longtable}}\n"
        )


def _row(cells: Iterable[list[str]]) -> str:
    return " & ".join(r" \\ ".join(map(_line, cell)) for cell in cells) + " \\tabularnewline\n"


LATEX = Format(lambda report: {"report.tex": document(report.document)})
