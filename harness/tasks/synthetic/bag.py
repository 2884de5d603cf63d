"""Pairs of reviews: is there more praise or more blame in them. Counting words is enough."""

import random

from harness.config.schema import GrammarConfig
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import BLAME, PRAISE, fillers


def make(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    more, fewer = (PRAISE, BLAME) if label else (BLAME, PRAISE)
    lengths = stream.randint(2, 3), stream.randint(2, 3)
    total = sum(lengths)
    majority = stream.randint(total // 2 + 1, total)
    words = stream.choices(more, k=majority) + stream.choices(fewer, k=total - majority)
    stream.shuffle(words)
    reviews = words[: lengths[0]], words[lengths[0] :]
    texts = []
    for review in reviews:
        text = review + fillers(stream, 1, 3)
        stream.shuffle(text)
        texts.append(" ".join(text))
    return {"sentence1": texts[0], "sentence2": texts[1], "label": label}


def theory(config: GrammarConfig) -> Theory:
    """One review's words stand at places 1 to 6, the other's up to 13; who sees none of the praise and blame guesses."""
    return Theory(to_first=Steps(1, 13), to_last=Steps(1, 14), tokens=15, span=12, unreached=0.5, bag=1.0, linear=1.0)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = f"{row['sentence1']} {row['sentence2']}".split()
    return int(sum(word in PRAISE for word in words) > sum(word in BLAME for word in words))


FAMILY = Family(make, theory, oracle, steps=64)
