"""Numbers and names formatted for readers; values come in base units. MB is 10^6 bytes, k, M, G are powers of ten."""

import csv
import html
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from harness.document import DASH, Bullets, Cell, Section, Table, markdown
from harness.errors import on_one_line, some_of
from harness.terminal import PREFIXES

MINUS = "−"
SCALED = {"parameters": "", "bytes": "B", "FLOP": "FLOP", "FLOP/s": "FLOP/s", "tokens": ""}
"""Unit that takes a prefix -> what is written after it."""
SHORT = {"s": ((1e-6, "µs"), (1e-9, "ns")), "ms": ((1e-6, "ns"),)}
"""Unit of time -> those of values below a thousandth of it, by what to divide by."""
WHOLE = ("operators", "examples", "documents", "steps")
"""Units of what is counted one by one, and the same in every replicate."""
SHARES = ("score", "share")
"""Units of which a hundredth is a point."""
SHOWN_VALUES = 5
POINTS = 100
"""Points in one whole score."""
MOST_COLUMNS = 7
MOST_TESTED = 5
"""Most columns of a table on a page 1,000 pixels wide, and where each cell has an interval, a verdict and p."""
FORMULA = tuple("=+-@\t\n＝＋－＠")
"""First characters of what a spreadsheet takes for a formula (CSV injection, OWASP)."""


def escape(text: object) -> str:
    """Text that Markdown shows literally, in tables too: one line, no markup, no `|` that ends a column."""
    line = html.escape(on_one_line(" ".join(str(text).split())), quote=False)
    line = re.sub(r"([\\`*\[\]|])", r"\\\1", line)
    return re.sub(r"(?<![^\W_])_+|_+(?![^\W_])", lambda found: found.group().replace("_", r"\_"), line)


def code(text: str) -> str:
    """A command in backticks, in tables too; a backtick in it would end them, and is a question mark."""
    line = on_one_line(" ".join(text.split()))
    return f"`{line.replace('`', '?')}`".replace("|", r"\|")


def listed(values: Iterable[str], most: int | None = None) -> str:
    """Each value once, escaped; beyond `most` the rest is counted."""
    once = [*map(escape, dict.fromkeys(values))]
    return some_of(once, most or len(once))


def enumerated(texts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def prefix(value: float) -> tuple[float, str]:
    """The power of ten to divide by and its letter, such as (1e6, 'M')."""
    return next(((factor, letter) for factor, letter in PREFIXES if abs(value) >= factor), (1.0, ""))


def decimals(value: float) -> int:
    """Decimal places for about three significant digits."""
    size = abs(value)
    if size >= 1000 or size == 0:
        return 0
    return next((digits for bound, digits in ((10, 1), (1, 2), (0.1, 3), (0.01, 4)) if size >= bound), 5)


def scaling(unit: str, value: float) -> tuple[float, str, int]:
    """How to show values of this size: what to divide by, the unit after the number, decimal places."""
    if unit in SCALED:
        factor, letter = prefix(value)
        return factor, letter + SCALED[unit], decimals(value / factor) if factor > 1 else 0
    if unit in SHORT and 0 < abs(value) < 1e-3:
        factor, name = next((one for one in SHORT[unit] if abs(value) >= one[0]), SHORT[unit][-1])
        return factor, name, decimals(value / factor)
    digits = 3 if unit in (*SHARES, "loss", "nats", "bits/byte") else 0 if unit in WHOLE else decimals(value)
    return 1.0, "" if unit in (*SHARES, "loss", "1") else unit, digits


def value(number: float, unit: str, sd: float | None = None, scale: tuple[float, str] | None = None) -> str:
    """`12.3 ms`, or `12.3 ± 0.4 ms` with a standard deviation; without the unit where it is that of a `scale`."""
    factor, name, digits = scaling(unit, number)
    if scale:
        digits = digits if name == scale[1] else decimals(number / scale[0])
        factor, name = scale[0], ""
    spread = f" ± {plain(sd / factor, digits)}" if sd is not None else ""
    return f"{plain(number / factor, digits)}{spread} {name}".rstrip()


def cell(number: float | None, unit: str, sd: float | None = None) -> Cell:
    """A value with its unit; a dash where there is none."""
    return Cell(DASH) if number is None else Cell(value(number, unit, sd), number, unit)


def plain(number: float, digits: int) -> str:
    """With thousands separators and a typographic minus."""
    if math.isinf(number):
        return "∞" if number > 0 else f"{MINUS}∞"
    text = f"{round(number, 12):,.{digits}f}"  # a mean in another order of sums may end otherwise
    return text.replace("-", MINUS) if float(text.replace(",", "")) else text.removeprefix("-")


def signed(number: float, digits: int) -> str:
    """A number with its sign, none for what rounds to zero."""
    text = plain(number, digits)
    return f"+{text}" if number > 0 and text.strip("0.,") else text


LARGE = 20
"""Ratio from which on a change is a factor, in both directions: a time then has the number of its rate."""


def is_large(number: float) -> bool:
    """Whether a change of so many percent is by a factor of LARGE or more; −100 % is none."""
    return number >= 100 * (LARGE - 1) or -100 < number <= 100 / LARGE - 100


def times(number: float) -> str:
    """`×21.2` of +2,020 %, `÷20` of −95 %."""
    ratio = 1 + number / 100
    sign, ratio = ("÷", 1 / ratio) if 0 < ratio < 1 else ("×", ratio)
    return f"{sign}{plain(ratio, decimals(ratio))}"


def percent(number: float | None) -> str:
    """`−12.3 %`, a dash where there is none; a factor where it is large."""
    if number is None:
        return DASH
    if is_large(number):
        return times(number)
    return f"{signed(number, 0 if abs(number) >= 1000 else 1 if abs(number) >= 1 or number == 0 else 2)} %"


def chance(share: float) -> str:
    """A probability in percent; what never or always came is not called certain."""
    return "< 1 %" if share < 0.005 else "> 99 %" if share > 0.995 else f"{100 * share:.0f} %"


def percent_cell(number: float | None) -> Cell:
    """A change in percent; a dash where there is none."""
    return Cell(percent(number), number, "%")


def difference(number: float, unit: str, interval: Sequence[float] | None = None) -> str:
    """A signed difference in its unit, scores and shares in points, and its interval in the same scale."""
    largest = max(map(abs, (number, *(interval or ()))))
    factor, name, digits = (1 / POINTS, "points", 1) if unit in SHARES else scaling(unit, largest)
    if interval and interval[0] * interval[-1] > 0:  # no end that is not 0 is written so
        enough = (places for places in range(digits, digits + 3) if all(round(end / factor, places) for end in interval))
        digits = next(enough, digits)
    ends = f" [{', '.join(signed(end / factor, digits) for end in interval)}]" if interval else ""
    return f"{signed(number / factor, digits)}{ends} {name}".rstrip()


def table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> Table:
    """A table of cells, texts (without a number) and integers (counts)."""
    return Table([*head], [[*map(_cell, row)] for row in rows], left)


def _cell(content: object) -> Cell:
    if isinstance(content, Cell):
        return content
    return Cell(f"{content:,}", content) if isinstance(content, int) else Cell(str(content))


def readable(head: Sequence[str], rows: Sequence[Sequence[object]], most: int = MOST_COLUMNS) -> list[Table]:
    """The table, as several of at most so many columns, each with the first one; empty references are left out."""
    count = math.ceil((len(head) - 1) / (most - 1))
    size = math.ceil((len(head) - 1) / count)
    parts = [slice(start, start + size) for start in range(1, len(head), size)]
    lines = [
        [[row[0], *row[part]] for row in rows if not str(row[0]).startswith("*") or {*row[part]} != {DASH}] for part in parts
    ]
    return [table([head[0], *head[part]], of_part) for part, of_part in zip(parts, lines, strict=True)]


def bullets(lines: Iterable[str]) -> list[Bullets]:
    """One list; none without a line."""
    items = [*lines]
    return [Bullets(items)] if items else []


def date(milliseconds: int) -> str:
    """`2026-11-28 04:14 UTC`, of a time in ms since 1970."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def csv_file(lines: Iterable[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    """Content of a CSV file with these columns, empty where there is no value; `'` stands before what looks like a formula."""
    text_file = io.StringIO()
    writer = csv.DictWriter(text_file, columns, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        texts = {column: re.sub("\r\n?", "\n", entry) for column, entry in line.items() if isinstance(entry, str)}
        safe = {column: f"'{text}" if text.startswith(FORMULA) else text for column, text in texts.items()}
        writer.writerow({**line, **safe})  # the csv module would write a bare carriage return as it is
    return text_file.getvalue().encode()


@dataclass(frozen=True)
class Chapter:
    """A part of the report; one without sections is left out."""

    sections: list[Section] = field(default_factory=list)
    files: Mapping[str, bytes] = field(default_factory=dict)  # written beside the report
    summary: list[dict[str, object]] = field(default_factory=list)  # further rows of summary.csv

    @property
    def paragraphs(self) -> list[str]:
        """The chapter as Markdown."""
        return [part for section in self.sections for part in markdown(section)]
