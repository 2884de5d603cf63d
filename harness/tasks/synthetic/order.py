"""Does the hunter come before its prey? Both classes hold the same words, so counting them does not help."""

import random

from harness.config.texts import GrammarConfig
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import HUNTERS, PREY, VERBS, fillers


def make(rng: random.Random, config: GrammarConfig) -> Row:
    label = rng.randint(0, 1)
    animals = [rng.choice(HUNTERS), rng.choice(PREY)]
    first, second = animals if label else reversed(animals)
    words = [*fillers(rng, 0, 2), first, rng.choice(VERBS), *fillers(rng, 0, 3), second, *fillers(rng, 0, 3)]
    return {"sentence": " ".join(words), "label": label}


def theory(config: GrammarConfig) -> Theory:
    """Each animal alone determines the label: only a model that reaches neither must guess."""
    return Theory(to_first=Distance(1, 8), to_last=Distance(1, 9), tokens=13, span=5, unreached=0.5, bag=0.5, linear=0.5)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = str(row["sentence"]).split()
    return int(next(word for word in words if word in HUNTERS or word in PREY) in HUNTERS)


FAMILY = Family(make, theory, oracle, steps=126, relayed_steps=500)
