"""Pairs of reviews: do they hold more words of praise or of blame? Counting words solves it."""

import random

from harness.config.texts import GrammarConfig
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import BLAME, PRAISE, fillers


def make(rng: random.Random, config: GrammarConfig) -> Row:
    label = rng.randint(0, 1)
    more, fewer = (PRAISE, BLAME) if label else (BLAME, PRAISE)
    lengths = rng.randint(2, 3), rng.randint(2, 3)
    total = sum(lengths)
    majority = rng.randint(total // 2 + 1, total)
    words = rng.choices(more, k=majority) + rng.choices(fewer, k=total - majority)
    rng.shuffle(words)
    reviews = words[: lengths[0]], words[lengths[0] :]
    texts = []
    for review in reviews:
        text = review + fillers(rng, 1, 3)
        rng.shuffle(text)
        texts.append(" ".join(text))
    return {"sentence1": texts[0], "sentence2": texts[1], "label": label}


def theory(config: GrammarConfig) -> Theory:
    """The words of the first review are at positions 1 to 6, those of the second up to 13."""
    return Theory(to_first=Distance(1, 13), to_last=Distance(1, 13), tokens=15, span=12, unreached=0.5, bag=1.0, linear=1.0)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = f"{row['sentence1']} {row['sentence2']}".split()
    return int(sum(word in PRAISE for word in words) > sum(word in BLAME for word in words))


FAMILY = Family(make, theory, oracle, steps=64)
