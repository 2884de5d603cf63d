"""Tables and names without what all arms share: it is said once."""

import re
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from harness.document import DASH, Block, Bullets, Picture, Section, Table
from harness.reports.writing.formats import SHARES, escape, prefix

FEWEST = 3
"""Arms from which on names are shortened."""
NUMBER = re.compile(r"(?<==)\d+(?:\.\d+)?(?:e[-+]?\d+)?(?= |$)")
"""A number that a setting in a name has."""
KEY_OF_WORD = re.compile(r"[\w.]+=(?=(?!(?:true|false|null|none)$)[a-z]\w*$)")
"""The key of a setting in a name that has no other part, whose value says alone what it is: `protocol=` of `protocol=bert`."""
SMALL, LARGE, DIGITS = 1e-3, 1e4, 4
"""Numbers below and from which on they are written short, in at most so many letters."""


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Label -> its name without the parts that all labels have, and with short numbers; labels where two would be the same."""
    return _shortened([*labels])[0]


def shared_parts(labels: Iterable[str]) -> str:
    """What the names leave out, in the order of the first label; empty where they leave out nothing."""
    return _shortened([*labels])[1]


def _shortened(labels: list[str]) -> tuple[dict[str, str], str]:
    parts = [{*_parts(label)} for label in labels]
    shared = set.intersection(*parts) if len(parts) >= FEWEST else set()
    names = {label: _without(label, shared) or label for label in labels}
    keys = {found[0] if (found := KEY_OF_WORD.match(name)) else "" for name in names.values()}
    key = keys.pop() if len(keys) == 1 and len(names) >= FEWEST else ""
    names = {label: NUMBER.sub(_short_number, name.removeprefix(key)) for label, name in names.items()}
    if not names or len({*names.values()}) < len(names):
        return {label: label for label in labels}, ""
    kept = {part for label in labels[1:] for part in _parts(names[label])}
    return names, " ".join([*(part for part in _parts(labels[0]) if part in shared - kept), *filter(None, [key])])


def _parts(label: str) -> list[str]:
    """`base`, `mlm`, `rate=0.1` of `base+mlm rate=0.1`."""
    stem, *settings = label.split(" ")
    return [*stem.split("+"), *settings]


def _without(label: str, shared: set[str]) -> str:
    stem, *settings = label.split(" ")
    kept = "+".join(part for part in stem.split("+") if part not in shared)
    return " ".join(filter(None, [kept, *(setting for setting in settings if setting not in shared)]))


def _short_number(found: re.Match[str]) -> str:
    """`12 M` of 12000000, `2e-5` of 0.00002; one of many digits stays unchanged."""
    number = float(found[0])
    factor, letter = prefix(number) if number >= LARGE else (1.0, "")
    places = f"{number:.0e}" if 0 < number < SMALL else f"{number / factor:g}"
    short = places.replace("e-0", "e-")
    return f"{short} {letter}".rstrip() if len(short) <= DIGITS and float(places) * factor == number else found[0]


def concise(section: Section, labels: list[str]) -> Section:
    """The section with short names, and without columns of what is equal for all arms."""
    return _section(section, shortener(labels))


def shortener(labels: Iterable[str]) -> Callable[[str], str]:
    """Puts the short names of the arms into a text; code and what was recorded stay."""
    names = {escape(label): escape(name) for label, name in short_names(labels).items() if name != label}
    each = "|".join(re.escape(label) for label in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(`[^`]*`|^\*\*Hypothesis\*\*.*)|(?<![\w+=.-])({each})(?![\w+=]|[.-]\w)")
    return (lambda text: pattern.sub(lambda found: found[1] or names[found[2]], text)) if names else str


def _section(section: Section, say: Callable[[str], str]) -> Section:
    blocks = [made for block in section.blocks for made in _blocks(block, say)]
    return replace(section, title=say(section.title), blocks=blocks)


def _blocks(block: Block, say: Callable[[str], str]) -> list[Block]:
    if isinstance(block, Section):
        return [_section(block, say)]
    if isinstance(block, Table):
        return [renamed(part, say) if isinstance(part, Table) else say(part) for part in without_constants(block)]
    if isinstance(block, Bullets):
        return [Bullets([*map(say, block.items)])]
    return [replace(block, caption=say(block.caption)) if isinstance(block, Picture) else say(block)]


def renamed(table: Table, say: Callable[[str], str]) -> Table:
    """The table with other names."""
    rows = [[replace(cell, text=say(cell.text), change=say(cell.change)) for cell in row] for row in table.rows]
    return replace(table, head=[*map(say, table.head)], rows=rows)


def without_constants(table: Table) -> tuple[Table | str, ...]:
    """The table without numbers that are equal for all arms, and a sentence with them, alone if all are; scores stay."""
    references = [row for row in table.rows if row[0].text.startswith("*")]
    arms = [row for row in table.rows if row not in references]

    def is_constant(index: int) -> bool:
        first = arms[0][index]
        alike = all((row[index].text, row[index].value) == (first.text, first.value) for row in arms)
        alike &= len({row[index].change for row in arms} - {""}) < 2
        has_none = all(row[index].text == DASH for row in references)
        return first.value is not None and first.unit not in SHARES and alike and has_none

    constant = [*filter(is_constant, range(table.left, len(table.head)))] if table.head[0] == "arm" and len(arms) > 1 else []
    if not constant:
        return (table,)
    kept = [index for index in range(len(table.head)) if index not in constant]
    said = f"Equal for all arms: {'; '.join(f'{table.head[index]} {arms[0][index].text}' for index in constant)}."
    rows = [[row[index] for index in kept] for row in table.rows]
    return (replace(table, head=[table.head[index] for index in kept], rows=rows), said)[len(kept) == 1 :]
