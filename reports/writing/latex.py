"""The report's main tables as a LaTeX document, for a paper: booktabs, in landscape, with every column within the page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.document import Document, Section, Table, unmarked

TEXT_WIDTH = 160
"""Digits beside each other on a page of A4 in landscape; a column takes GAP more than its text."""
GAP = 3
LONG_LINE = 18
"""A longer line of a cell may be broken."""
LONG_WORD = 16
"""A longer word may be broken anywhere."""
EM = 0.55
"""Width of a digit in the font's em, and a little more."""
WIDTHS = dict.fromkeys("fijlrt.,:;'|![]() ", 0.7) | dict.fromkeys("mwMW@%▲▼△▽→≈~", 1.7)
"""Widths of letters in digits, where they are not about 1."""
CAPITAL, NUMBERED = 1.5, 8.0
"""Widths of capital letters, and of what is written as U+4E2D."""
SPECIAL = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_"}
SPECIAL |= {"^": r"\textasciicircum{}", "~": r"$\sim$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
SPECIAL |= {'"': "''", "`": r"\textasciigrave{}", "−": "$-$", "–": "--", "±": r"$\pm$", "×": r"$\times$", "≈": r"$\approx$"}
SPECIAL |= {"≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\rightarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "\u00a0": "~"}
SPECIAL |= {"†": r"$\dagger$", "‡": r"$\ddagger$", "∞": r"$\infty$", "…": r"\ldots{}"}
SPECIAL |= {"▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "△": r"$\vartriangle$", "▽": r"$\triangledown$"}
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


@dataclass(frozen=True)
class Column:
    """Texts of the head and of every row, each in lines."""

    head: list[str]
    cells: list[list[str]]
    right: bool

    @cached_property
    def natural(self) -> float:
        """Width of its longest line, or of a word of its head."""
        words = [word for line in self.head for word in line.split()]
        return max(_size(text) for text in ["mm", *words, *(line for cell in self.cells for line in cell)])

    @property
    def least(self) -> float:
        """What it is given at least."""
        return min(self.natural, LONG_LINE)


def _size(text: str) -> float:
    """Width in digits."""
    others = (NUMBERED if _is_numbered(letter) else CAPITAL if letter.isupper() else 1.0 for letter in text)
    return sum(map(WIDTHS.get, text, others), 0.0)


def document(report: Document) -> bytes:
    """The tables that are of the opening, of a chapter itself, or for a paper; each with its chapter as caption."""
    title = unmarked(report.title)
    tables = [(unmarked(part.title) or title, table) for part in report.sections for table in _of_chapter(part)]
    parts = [part for caption, table in tables for part in _tables(caption, _columns(table))]
    return (DOCUMENT + f"\\section*{{{escape(title)}}}\n" + "\n".join(parts) + "\\end{document}\n").encode()


def _of_chapter(section: Section) -> Iterator[Table]:
    for block in section.blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Section) and (block.for_paper or not block.title):
            yield from _of_chapter(block)


def escape(text: str) -> str:
    """Text that LaTeX shows literally; control characters are left out."""
    return " ".join("".join(map(_letter, word)) for word in text.split(" "))


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if letter.isascii():
        return letter if letter.isprintable() else ""
    return f"[U+{ord(letter):04X}]" if _is_numbered(letter) else letter


def _is_numbered(letter: str) -> bool:
    return not (letter.isascii() or letter in SPECIAL or letter.lower() in ACCENTED)


def _breakable(line: str) -> str:
    """The line with places where a long word may be broken; a bracket at its begin is no option of the line break before."""
    words = (escape(word) if len(word) <= LONG_WORD else r"\allowbreak{}".join(map(_letter, word)) for word in line.split(" "))
    text = " ".join(words)
    return "{}" + text if text.startswith(("[", "*")) else text


def _columns(table: Table) -> list[Column]:
    texts = [[[*map(unmarked, cell.lines)] for cell in column] for column in table.columns]
    return [
        Column([unmarked(head)], cells, place >= table.left)
        for place, (head, cells) in enumerate(zip(table.head, texts, strict=True))
    ]


def _tables(caption: str, columns: Sequence[Column]) -> Iterable[str]:
    """As many tables as the width of the page needs; each begins with the first column."""
    first, *others = columns
    groups: list[list[Column]] = [[first]]
    for column in others:
        if _width([*groups[-1], column]) > TEXT_WIDTH and len(groups[-1]) > 1:
            groups.append([first])
        groups[-1].append(column)
    for number, group in enumerate(groups):
        yield _table(escape(caption) + (" (continued)" if number else ""), group)


def _width(columns: Iterable[Column]) -> float:
    return sum(column.least + GAP for column in columns)


def _table(caption: str, columns: Sequence[Column]) -> str:
    room = TEXT_WIDTH - _width(columns)
    widths = []
    for column in columns:
        more = max(0, min(room, column.natural - column.least))
        widths.append((column.least + more) * EM)
        room -= more
    kinds = "".join(f"{'R' if column.right else 'L'}{{{width:.2f}em}}" for column, width in zip(columns, widths, strict=True))
    head = _row([column.head for column in columns])
    rows = "".join(map(_row, zip(*(column.cells for column in columns), strict=True)))
    return (
        f"\\begin{{longtable}}{{@{{}}{kinds}@{{}}}}\n\\caption{{{caption}}}\\tabularnewline\n\\toprule\n{head}\\midrule\n\\endhead\n"
        f"{rows}\\bottomrule\n\\end{{longtable}}\n"
    )


def _row(cells: Iterable[list[str]]) -> str:
    return " & ".join(r" \\ ".join(map(_breakable, cell)) for cell in cells) + " \\tabularnewline\n"
