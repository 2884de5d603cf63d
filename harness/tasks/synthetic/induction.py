"""Keys with their values, then one of the keys again: which value stood behind it (arXiv:2209.11895, induction heads).

Half of the values are of one kind and half of the other, so that a bag of words says nothing; a token must be matched with
an earlier one and what stands behind that be copied, which takes two layers of attention.
"""

import random

from harness.config.schema import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import SYMBOLS, VALUES


def refuse(config: GrammarConfig) -> None:
    if config.pairs < 2 or config.pairs % 2:
        raise InputError(f"task.grammar.pairs={config.pairs} must be even and at least 2: half of the values are of each kind")
    if not config.pairs <= config.symbols <= len(SYMBOLS):
        raise InputError(
            f"task.grammar.symbols={config.symbols} must be between task.grammar.pairs={config.pairs} and {len(SYMBOLS)}"
        )


def make(stream: random.Random, config: GrammarConfig) -> Row:
    keys = stream.sample(SYMBOLS[: config.symbols], config.pairs)
    kinds = [0, 1] * (config.pairs // 2)
    stream.shuffle(kinds)
    words = [word for key, kind in zip(keys, kinds, strict=True) for word in (key, stream.choice(VALUES[kind]))]
    asked = stream.randrange(config.pairs)
    return {"sentence": " ".join([*words, keys[asked]]), "label": kinds[asked]}


def theory(config: GrammarConfig) -> Theory:
    """The key that is asked is the last word; from the end, who sees no key beside it guesses, the first one is farthest."""
    words = 2 * config.pairs + 1
    return Theory(Steps(words, words), Steps(3, words), words + 2, words - 1, unreached=0.5, bag=0.5, linear=0.5, layers=2)


def oracle(row: Row, config: GrammarConfig) -> int:
    *words, asked = str(row["sentence"]).split()
    return int(words[words.index(asked) + 1] in VALUES[1])


FAMILY = Family(make, theory, oracle, refuse, steps=None)
