"""The report's main tables in LaTeX, for a paper: all in one document, and one file per table to \\input; by booktabs."""

import itertools
import re
from collections.abc import Iterable, Iterator

from harness.document import Document, Section, Table, unmarked
from harness.records import shipped
from harness.reports.render import Format
from harness.reports.screen import WARNED

TEXT_WIDTH = 158
"""Digits that fit side by side on a landscape A4 page; a column takes GAP more than its text."""
GAP = 3
LONGEST = 24
"""Digits of a column at most: a longer line of a cell is broken, a longer word anywhere."""
EM = 0.58
"""Width of a digit in the font's em, and a little more."""
SPECIAL = shipped(__file__, dict[str, str])
ACCENTED = "àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœ"
"""Letters that LaTeX has in its own fonts; other ones are written as U+4E2D."""
DOCUMENT = r"""% Tables of a study, by `python -m reports format=latex`. Another document that has them needs these packages.
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


ALONE = r"""% Compiles alone. In a paper: \input{tables/@NAME@}, with booktabs, graphicx and amssymb in its preamble.
\expandafter\ifx\csname @nodocument\endcsname\relax\let\EndOfTable\relax\else
\documentclass{article}
\usepackage{amssymb,booktabs,graphicx}
\begin{document}
\def\EndOfTable{\end{document}}
\fi
\begin{table}
\centering\small
\caption{@CAPTION@}
\label{tab:@NAME@}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{@{}@KINDS@@{}}
\toprule
@ROWS@\bottomrule
\end{tabular}}
\end{table}
\EndOfTable
"""
"""One table: its preamble is skipped after \\begin{document}, where \\@nodocument is \\relax."""


def alone(name: str, caption: str, table: Table) -> bytes:
    """One table with its label `tab:NAME`; wider ones are scaled to the text."""
    kinds = ["l" if place < table.left else "r" for place in range(len(table.head))]
    rows = [_stacked([[unmarked(text)] for text in table.head], kinds), "\\midrule\n"]
    rows += [_stacked([[*map(unmarked, cell.lines)] for cell in row], kinds) for row in table.rows]
    parts = {"NAME": name, "CAPTION": escape(caption), "KINDS": "".join(kinds), "ROWS": "".join(rows)}
    return re.sub("@([A-Z]+)@", lambda match: parts[match[1]], ALONE).encode()


def _stacked(cells: list[list[str]], kinds: list[str]) -> str:
    """A row; lines of a cell one above the other."""
    texts = []
    for cell, kind in zip(cells, kinds, strict=True):
        lines = r" \\ ".join(map(_line, cell))
        texts.append(f"\\shortstack[{kind}]{{{lines}}}" if len(cell) > 1 else lines)
    return " & ".join(texts) + " \\\\\n"


def files(report: Document) -> dict[str, bytes]:
    """`report.tex`, and in `tables` one file per table: `overview.tex` is that of the terminal, with its `columns=`."""
    found = {"report.tex": document(report)}
    every = [(caption, caption, table) for caption, table in _captioned(report)]
    if report.screen and report.screen.table:
        legend = " ".join(map(unmarked, report.screen.notes)).replace(WARNED, "† Training warning.")
        study = unmarked(report.title).removeprefix("Report: ")
        every.insert(0, ("overview", f"Study {study}. {legend}".rstrip(), report.screen.table))
    for called, caption, table in every:
        slug = "-".join(re.findall("[a-z0-9]+", called.lower())) or "table"
        names = itertools.chain([slug], (f"{slug}-{number}" for number in itertools.count(2)))
        name = next(one for one in names if f"tables/{one}.tex" not in found)
        found[f"tables/{name}.tex"] = alone(name, caption, table)
    return found


def _captioned(report: Document) -> list[tuple[str, Table]]:
    title = unmarked(report.title)
    return [(unmarked(part.title) or title, table) for part in report.sections for table in _of_chapter(part)]


def document(report: Document) -> bytes:
    """The tables that are of the opening, of a chapter itself, or for a paper; each with its chapter as caption."""
    title = unmarked(report.title)
    parts = [part for caption, table in _captioned(report) for part in _tables(caption, table)]
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
    groups = [[0]]
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


LATEX = Format(lambda report: files(report.document))
