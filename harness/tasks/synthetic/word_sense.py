"""The sense of an ambiguous word, an animal or a thing, which a single word further right decides.

"the jaguar outside was asleep" is an animal, "the jaguar outside was rusty" a thing. The label is that of the word itself
(kind `tokens`), so that a causal model, which has read nothing of what follows, cannot tell: at best it finds the word and is
right in half of the rows. The words of validation do not occur in training, and every word has both senses equally often.
"""

import random

from harness.config.texts import GrammarConfig
from harness.tasks.synthetic.base import Distance, Family, Row, Theory

TRAINED = ["bass", "bat", "beetle", "bug", "crane", "drill", "kite", "mouse", "pointer", "ram", "seal", "slug"]
HELD_OUT = ["fly", "jaguar", "mustang", "pike", "skate", "tick"]
ANIMAL = ["asleep", "blind", "frightened", "hungry", "lame", "pregnant", "starved", "thirsty"]
THING = ["assembled", "dented", "plastic", "polished", "repaired", "rusty", "welded", "wooden"]
BEFORE = [[], ["yesterday"], ["last", "night"]]
BETWEEN = [[], ["outside"], ["over", "there"]]
AFTER = [[], ["again"], ["at", "noon"]]
THE, WAS = "the", "was"
WORDS = [*TRAINED, *HELD_OUT, *ANIMAL, *THING, THE, WAS, *(word for part in (*BEFORE, *BETWEEN, *AFTER) for word in part)]

OUTSIDE, SENSES = 0, (1, 2)
"""Class of all other words, and of an animal and a thing."""


def make(rng: random.Random, config: GrammarConfig) -> Row:
    return _row(rng, TRAINED)


def make_held_out(rng: random.Random, config: GrammarConfig) -> Row:
    return _row(rng, HELD_OUT)


def _row(rng: random.Random, ambiguous: list[str]) -> Row:
    left, word, label = [*rng.choice(BEFORE), THE], rng.choice(ambiguous), rng.randint(0, 1)
    right = [*rng.choice(BETWEEN), WAS, rng.choice(THING if label else ANIMAL), *rng.choice(AFTER)]
    tags = [OUTSIDE] * len(left) + [SENSES[label]] + [OUTSIDE] * len(right)
    return {"words": [*left, word, *right], "tags": tags, "label": label}


def theory(config: GrammarConfig) -> Theory:
    """The scores are entity F1: with every word found, it is the share of right senses."""
    before, between, after = (max(map(len, parts)) for parts in (BEFORE, BETWEEN, AFTER))
    right = Distance(2, 2 + between)  # `was` stands between the word and what decides
    first, last = Distance(2 + right.least, 2 + before + right.most), Distance(1, 1 + after)
    tokens = first.most + last.most + 1
    chance = 2 * 0.5 / (1 + len(BEFORE))  # F1 of one sense at every place where the word may stand
    return Theory(first, last, tokens, span=0, unreached=0.5, bag=1.0, linear=1.0, chance=chance, to_right=right)


def oracle(row: Row, config: GrammarConfig) -> int:
    return int(any(word in THING for word in row["words"]))


FAMILY = Family(make, theory, oracle, steps=None, make_held_out=make_held_out, words=WORDS)
