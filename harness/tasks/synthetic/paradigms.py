"""Generated minimal pairs: templates of English sentences, of which `[good|bad]` marks what the two of a pair differ in.

Names in capitals are slots. `MAN` and `MEN` are one draw in two forms; `MAN2` is a second draw. The templates of a paradigm
mirror each other: what is good in one is bad in another, or both sentences have the same words. So word frequencies alone are
right in half of the pairs, and so is a model that does not see what decides.
"""

import random
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.data.seeds import derive
from harness.errors import InputError

Words = list[tuple[str, ...]]

DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
LISTS: dict[str, Words] = {name: [tuple(forms.split("/")) for forms in text.split()] for name, text in DATA["words"].items()}
"""Name -> words, each with its forms."""

PRONOUNS = LISTS.pop("pronouns")
HELD_OUT = {*sorted({forms[0] for words in LISTS.values() for forms in words})[::2]}
"""First forms of the words of validation; train has the others. Pronouns are in both: there are too few."""

LISTS |= {"pronouns": PRONOUNS, "royal": LISTS["he"] + LISTS["she"]}
SLOTS: dict[str, tuple[Words, int | None]] = {name: (LISTS[words], form) for name, (words, form) in DATA["slots"].items()}
"""Name of a slot -> its words, and which of their forms it takes; None: either."""

SLOT = re.compile(r"([A-Z]+)(\d?)")


@dataclass(frozen=True)
class Paradigm:
    """A contrast, and what a model must reach to decide it.

    `distance` is that between the differing words and what decides, in tokens, where every word is one. `side` is where it is,
    seen from the differing words: `left`, `right`, or `both` for a change of order, which the neighbours on either side
    show. A causal model that scores whole sentences reads what is on the right, too, in the tokens that follow.
    """

    phenomenon: str
    distance: int
    side: str
    templates: list[str]


PARADIGMS = {
    name: Paradigm(phenomenon, **paradigm)
    for phenomenon, paradigms in DATA["paradigms"].items()
    for name, paradigm in paradigms.items()
}
"""Name -> paradigm."""

WORDS = sorted(
    {word for words, form in SLOTS.values() for forms in words for word in (forms if form is None else [forms[form]])}
    | {word for known in PARADIGMS.values() for word in re.findall(r"(?<![A-Z])[a-z]+", " ".join(known.templates))}
)
"""All words of the sentences, in lower case."""

MOST_DRAWS = 1000
"""Draws for one new pair, after which there are no more."""


def generate(count: int, split: str) -> list[dict[str, str]]:
    """So many different pairs of each paradigm, the paradigms in turn: `sentence_good`, `sentence_bad`, `UID`, as in BLiMP.

    The words of train and validation differ, but for pronouns and the fixed words of a template. InputError where a paradigm
    has fewer pairs.
    """
    rng, held_out = random.Random(derive(0, "minimal_pairs", split)), split == "validation"
    rows, drawn = [], set()
    for number in range(count):
        for name, paradigm in PARADIGMS.items():
            template = paradigm.templates[number % len(paradigm.templates)]
            for _ in range(MOST_DRAWS):
                pair = _filled(rng, template, held_out)
                if pair and pair not in drawn:
                    break
            else:
                raise InputError(f"task.pairs={count} is more than paradigm {name} has: reduce it")
            drawn.add(pair)
            rows.append({"sentence_good": pair[0], "sentence_bad": pair[1], "UID": name})
    return rows


def _filled(rng: random.Random, template: str, held_out: bool) -> tuple[str, str] | None:
    """The good and the bad sentence of a random filling; None for one that has a word twice."""
    draws: dict[tuple[int, str], tuple[str, ...]] = {}

    def word(match: re.Match[str]) -> str:
        words, form = SLOTS[match[1]]
        own = [forms for forms in words if words is PRONOUNS or (forms[0] in HELD_OUT) == held_out]
        forms = draws.setdefault((id(words), match[2]), rng.choice(own))
        return rng.choice(forms) if form is None else forms[form]

    text = SLOT.sub(word, template)
    if len({*draws.values()}) < len(draws):
        return None
    text = re.sub(r"\bi\b", "I", re.sub(r" ([.?])$", r"\1", text))
    sides = (re.sub(r"\[(.*?)\|(.*?)\]", side, text) for side in (r"\1", r"\2"))
    good, bad = (side[0].upper() + side[1:] for side in sides)  # `the man was ill.` -> `The man was ill.`
    return good, bad
