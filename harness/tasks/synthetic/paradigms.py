"""Generated minimal pairs: templates of English sentences, of which `[good|bad]` marks what the two of a pair differ in.

Names in capitals are slots. `MAN` and `MEN` are one draw in two forms; `MAN2` is a second draw. The templates of a paradigm
mirror each other: what is good in one is bad in another, or both sentences have the same words. So word frequencies alone are
right in half of the pairs, and so is a model that does not see what decides.
"""

import random
import re
from dataclasses import dataclass
from typing import Any

from harness.data.seeds import derive
from harness.errors import InputError

Words = list[tuple[str, ...]]


def _words(text: str) -> Words:
    """`man/men boy/boys` -> [(man, men), (boy, boys)]."""
    return [tuple(forms.split("/")) for forms in text.split()]


NOUNS = _words(
    "man/men woman/women boy/boys girl/girls king/kings lady/ladies friend/friends brother/brothers sister/sisters "
    "father/fathers mother/mothers doctor/doctors soldier/soldiers servant/servants stranger/strangers master/masters "
    "officer/officers child/children prince/princes writer/writers author/authors leader/leaders teacher/teachers "
    "visitor/visitors sailor/sailors player/players student/students priest/priests judge/judges prisoner/prisoners "
    "traveller/travellers poet/poets"
)
HE = _words("man boy king brother father prince husband son uncle gentleman emperor duke lord bishop")
SHE = _words("woman girl queen sister mother lady wife daughter aunt princess widow maid nurse countess")
VERBS = _words(
    "take/took/taken find/found/found make/made/made bring/brought/brought hold/held/held send/sent/sent "
    "carry/carried/carried buy/bought/bought want/wanted/wanted need/needed/needed use/used/used keep/kept/kept "
    "catch/caught/caught throw/threw/thrown wear/wore/worn steal/stole/stolen see/saw/seen choose/chose/chosen"
)
"""They need an object."""
NO_OBJECT = _words("slept died laughed smiled waited arrived wept stayed remained appeared existed lived")
OF_ONESELF = _words(
    "see/saw kill/killed love/loved hate/hated find/found show/showed forget/forgot hide/hid catch/caught blame/blamed "
    "teach/taught lose/lost"
)
STATES = _words(
    "happy alone ill dead afraid tired glad ready silent angry safe pleased sick asleep weak quiet proud sorry pale calm"
)
ADJECTIVES = _words("old young little great good poor strange beautiful fine famous tall rich")
PLACES = _words(
    "house room garden town street city river field village wood boat hall shop forest cave castle tower island valley "
    "carriage train office kitchen school church ship"
)
PRONOUNS = _words("he/him she/her they/them we/us i/me")

OPEN = (NOUNS, HE, SHE, VERBS, NO_OBJECT, OF_ONESELF, STATES, ADJECTIVES, PLACES)
HELD_OUT = {*sorted({forms[0] for words in OPEN for forms in words})[::2]}
"""First forms of the words of validation; train has the others. Pronouns are in both: there are too few."""

SLOTS = {
    "MAN": (NOUNS, 0),
    "MEN": (NOUNS, 1),
    "ONE": (NOUNS, None),
    "KING": (HE, 0),
    "QUEEN": (SHE, 0),
    "ROYAL": (HE + SHE, 0),
    "TAKE": (VERBS, 0),
    "TOOK": (VERBS, 1),
    "TAKEN": (VERBS, 2),
    "SLEPT": (NO_OBJECT, 0),
    "LOVED": (OF_ONESELF, 1),
    "ILL": (STATES, 0),
    "OLD": (ADJECTIVES, 0),
    "HOUSE": (PLACES, 0),
    "HE": (PRONOUNS, 0),
    "HIM": (PRONOUNS, 1),
}
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
    templates: tuple[str, ...]


CONTRASTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "agreement": {
        "agreement_adjacent": (
            1,
            "left",
            "the MAN [was|were] ILL .",
            "the MEN [were|was] ILL .",
            "the MAN [is|are] ILL .",
            "the MEN [are|is] ILL .",
        ),
        "agreement_across_phrase": (
            4,
            "left",
            "the MAN near the ONE2 [was|were] ILL .",
            "the MEN near the ONE2 [were|was] ILL .",
        ),
        "agreement_across_clause": (
            5,
            "left",
            "the MAN who saw the ONE2 [was|were] ILL .",
            "the MEN who saw the ONE2 [were|was] ILL .",
        ),
        "agreement_far": (
            9,
            "left",
            "the MAN who saw the ONE2 in the OLD HOUSE [was|were] ILL .",
            "the MEN who saw the ONE2 in the OLD HOUSE [were|was] ILL .",
        ),
        "determiner_adjacent": (
            1,
            "right",
            "they TOOK [this|these] MAN .",
            "they TOOK [these|this] MEN .",
            "they TOOK [that|those] MAN .",
            "they TOOK [those|that] MEN .",
        ),
        "determiner_far": (3, "right", "they TOOK [this|these] OLD OLD2 MAN .", "they TOOK [these|this] OLD OLD2 MEN ."),
    },
    "anaphora": {
        "reflexive_number": (
            2,
            "left",
            "the KING LOVED [himself|themselves] in the HOUSE .",
            "the MEN LOVED [themselves|himself] in the HOUSE .",
        ),
        "reflexive_gender": (
            2,
            "left",
            "the KING LOVED [himself|herself] in the HOUSE .",
            "the QUEEN LOVED [herself|himself] in the HOUSE .",
        ),
        "reflexive_far": (
            5,
            "left",
            "the KING near the ROYAL2 LOVED [himself|herself] .",
            "the QUEEN near the ROYAL2 LOVED [herself|himself] .",
        ),
    },
    "negative polarity": {
        "polarity_near": (3, "left", "no MAN had [ever|never] TAKEN it .", "the MAN had [never|ever] TAKEN it ."),
        "polarity_far": (
            6,
            "left",
            "no MAN in the HOUSE had [ever|never] TAKEN it .",
            "the MAN in the HOUSE had [never|ever] TAKEN it .",
        ),
    },
    "islands and gaps": {
        "gap_near": (4, "right", "they knew [what|that] the MAN TOOK .", "they knew [that|what] the MAN TOOK it ."),
        "gap_far": (
            8,
            "right",
            "they knew [what|that] the MAN in the OLD HOUSE TOOK .",
            "they knew [that|what] the MAN in the OLD HOUSE TOOK it .",
        ),
        "adjunct_island_near": (
            4,
            "right",
            "what did HE say [that|when] the MAN TOOK ?",
            "what did HE say [when|that] the MAN TOOK it ?",
        ),
        "adjunct_island_far": (
            8,
            "right",
            "what did HE say [that|when] the MAN in the OLD HOUSE TOOK ?",
            "what did HE say [when|that] the MAN in the OLD HOUSE TOOK it ?",
        ),
    },
    "argument structure": {
        "object": (1, "right", "the MAN [TOOK|SLEPT] it .", "the MAN [SLEPT|TOOK] ."),
        "passive_near": (1, "left", "the MAN was [TAKEN|SLEPT] in the HOUSE .", "the MAN had [SLEPT|TAKEN] in the HOUSE ."),
        "passive_far": (
            3,
            "left",
            "the MAN was at last [TAKEN|SLEPT] in the HOUSE .",
            "the MAN had at last [SLEPT|TAKEN] in the HOUSE .",
        ),
        "verb_form_near": (2, "left", "the MAN did not [TAKE|TAKEN] it .", "the MAN had not [TAKEN|TAKE] it ."),
        "verb_form_far": (
            4,
            "left",
            "the MAN did at that time [TAKE|TAKEN] it .",
            "the MAN had at that time [TAKEN|TAKE] it .",
        ),
    },
    "word order": {
        "order_adjective": (1, "both", "the [OLD MAN|MAN OLD] was ILL .", "the [OLD MEN|MEN OLD] were ILL ."),
        "order_auxiliary": (
            1,
            "both",
            "the MAN [has been|been has] TAKEN there .",
            "the MEN [have been|been have] TAKEN there .",
        ),
        "order_preposition": (1, "both", "the MAN was ILL [in the|the in] HOUSE .", "the MEN were ILL [in the|the in] HOUSE ."),
        "order_case": (1, "both", "in the HOUSE [HE TOOK HIM2|HIM2 TOOK HE] ."),
    },
}
"""Phenomenon -> paradigm -> its distance, its side and its templates."""

PARADIGMS = {
    name: Paradigm(phenomenon, distance, side, tuple(templates))
    for phenomenon, paradigms in CONTRASTS.items()
    for name, (distance, side, *templates) in paradigms.items()
}
"""Name -> paradigm."""

PHRASES = (*(template for paradigm in PARADIGMS.values() for template in paradigm.templates),)

WORDS = sorted(
    {word for words, form in SLOTS.values() for forms in words for word in (forms if form is None else [forms[form]])}
    | {word for phrase in PHRASES for word in re.findall(r"(?<![A-Z])[a-z]+", phrase)}
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
    good, bad = (_sentence(re.sub(r"\[(.*?)\|(.*?)\]", side, text)) for side in (r"\1", r"\2"))
    return good, bad


def _sentence(text: str) -> str:
    """`the man was ill .` -> `The man was ill.`"""
    text = re.sub(r"\bi\b", "I", re.sub(r" ([.?])$", r"\1", text))
    return text[0].upper() + text[1:]
