"""What the weather was at the very start, and nothing of import behind it.

The deciding word stands right of [CLS] and far left of the last token. A causal model that is pooled at [CLS] sees [CLS] alone
there, the same in every row: it cannot. Pooled at its last token, as `gpt` and `gpt2` are, it sees everything and solves it as
`base` does: no task that asks one question of a whole text can tell the two apart by sight.
"""

import random

from harness.config.schema import GrammarConfig
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import RAINY, SUNNY, fillers

BEFORE, BEHIND = (0, 2), (8, 16)
"""Fewest and most meaningless words on each side of the deciding one."""


def make(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    words = [*fillers(stream, *BEFORE), stream.choice(SUNNY if label else RAINY), *fillers(stream, *BEHIND)]
    return {"sentence": " ".join(words), "label": label}


def theory(config: GrammarConfig) -> Theory:
    """One word decides."""
    first, last = Steps(1 + BEFORE[0], 1 + BEFORE[1]), Steps(1 + BEHIND[0], 1 + BEHIND[1])
    return Theory(first, last, tokens=first.most + last.most + 1, span=0, unreached=0.5, bag=1.0, linear=1.0)


def oracle(row: Row, config: GrammarConfig) -> int:
    return int(any(word in SUNNY for word in str(row["sentence"]).split()))


FAMILY = Family(make, theory, oracle, steps=64)
