"""What a table's cell is sorted by: the number that it begins with, in base units."""

import re

from reports.writing.formats import MINUS, PREFIXES, SCALED

_NUMBER = rf"[+\-{MINUS}]?\d[\d,]*(?:\.\d+)?"
_LETTERS = "".join(letter for _, letter in PREFIXES)
_UNITS = "|".join(sorted((re.escape(unit) for unit in SCALED.values() if unit), key=len, reverse=True))
LEADING = re.compile(
    rf"(?:[≤≥<>×↑↓≈~]\s*)*(?P<number>{_NUMBER})"  # `≤ 12.3`, `× ≥ 1.20`
    rf"(?:\s±\s{_NUMBER})?(?:\s\[[^\]]*\])?"  # ` ± 0.4`, ` [−2.3, +35.2]`
    rf"(?:\s(?P<prefix>[{_LETTERS}])(?:{_UNITS})?)?(?![\w.:/-])"  # ` MB`, ` k`; nothing that makes it a date or a name
)


def sort_value(text: str) -> float | None:
    """`45.6 ± 0.3 MB` -> 45.6e6, `−12.3 % ▲ better` -> -12.3; None for a text that begins with no number."""
    found = LEADING.match(text.strip())
    if found is None:
        return None
    number = float(found["number"].replace(MINUS, "-").replace(",", ""))
    return number * next((factor for factor, letter in PREFIXES if letter == found["prefix"]), 1.0)
