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
    left = LONGEST - len(ELLIPSIS) - len(end)
    head = -(-left // 2)
    return f"{label[:head].rstrip()}{ELLIPSIS}{label[head - left :].lstrip()}{end}"


def _hash(label: str) -> str:
    return f" #{hashlib.sha256(label.encode()).hexdigest()[:HASH_DIGITS]}"
