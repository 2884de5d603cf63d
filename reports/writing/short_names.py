"""Names of arms in pictures, which have room for a line; the tables have them whole."""

import hashlib
from collections import Counter
from collections.abc import Iterable

LONGEST = 40
"""Letters of a name in a picture."""
HASH_DIGITS = 4
ELLIPSIS = "…"


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Label -> its name in a picture: of a longer one than LONGEST the middle is left out.

    Labels that differ in their middles alone end in a hash of the whole, which is the same in every picture.
    """
    whole = list(dict.fromkeys(labels))
    names = {label: _cut(label) for label in whole}
    count = Counter(names.values())
    return {label: name if count[name] == 1 else _cut(label, _hash(label)) for label, name in names.items()}


def _cut(label: str, end: str = "") -> str:
    if len(label) + len(end) <= LONGEST:
        return label + end
    room = LONGEST - len(ELLIPSIS) - len(end)
    tail = _last_words(label, room // 2)
    head = _last_words(label[::-1], room - len(tail))[::-1]
    return f"{head}{ELLIPSIS}{tail}{end}"


def _last_words(text: str, most: int) -> str:
    """Its last letters, from the begin of a word where that leaves at least half of them."""
    _, _, words = text[-most - 1 :].partition(" ")
    return words if 2 * len(words) >= most else text[-most:].lstrip()


def _hash(label: str) -> str:
    return f" #{hashlib.sha256(label.encode()).hexdigest()[:HASH_DIGITS]}"
