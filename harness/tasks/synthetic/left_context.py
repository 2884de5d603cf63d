"""The weather, named at the start of a text; only fillers follow.

The deciding word is to the right of [CLS] and far to the left of the last token. A causal model pooled at [CLS] attends to
[CLS] alone, which is the same in every row, and cannot solve the task. Pooled at the last token, as `gpt` and `gpt2` are, it
attends to the whole text and solves it as `base` does.
"""

import random

from harness.config.texts import GrammarConfig
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import RAINY, SUNNY, fillers

BEFORE, AFTER = (0, 2), (8, 16)
"""Minimum and maximum number of fillers on each side of the deciding word."""


def make(rng: random.Random, config: GrammarConfig) -> Row:
    label = rng.randint(0, 1)
    words = [*fillers(rng, *BEFORE), rng.choice(SUNNY if label else RAINY), *fillers(rng, *AFTER)]
    return {"sentence": " ".join(words), "label": label}


def theory(config: GrammarConfig) -> Theory:
    """A single word decides."""
    first, last = Distance(1 + BEFORE[0], 1 + BEFORE[1]), Distance(1 + AFTER[0], 1 + AFTER[1])
    return Theory(first, last, tokens=first.most + last.most + 1, span=0, unreached=0.5, bag=1.0, linear=1.0)


def oracle(row: Row, config: GrammarConfig) -> int:
    return int(any(word in SUNNY for word in str(row["sentence"]).split()))


FAMILY = Family(make, theory, oracle, steps=64)
