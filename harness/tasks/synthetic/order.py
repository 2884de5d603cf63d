"""Does the hunter stand before its prey. Both classes hold the same words, so that counting them is worth nothing."""

import random

from harness.config.schema import GrammarConfig
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import HUNTERS, PREY, VERBS, fillers


def make(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    animals = [stream.choice(HUNTERS), stream.choice(PREY)]
    first, second = animals if label else reversed(animals)
    words = [*fillers(stream, 0, 2), first, stream.choice(VERBS), *fillers(stream, 0, 3), second, *fillers(stream, 0, 3)]
    return {"sentence": " ".join(words), "label": label}


def theory(config: GrammarConfig) -> Theory:
    """The first animal alone tells, and so does the last one: it lacks what decides who sees neither."""
    return Theory(to_first=Steps(1, 8), to_last=Steps(1, 9), tokens=13, span=5, unreached=0.5, bag=0.5, linear=0.5)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = str(row["sentence"]).split()
    return int(next(word for word in words if word in HUNTERS or word in PREY) in HUNTERS)


FAMILY = Family(make, theory, oracle, steps=126, relayed_steps=500)
