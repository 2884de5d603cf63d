"""Keys with their values, then one key again: which value followed it? (arXiv:2209.11895, induction heads)

Half of the values are of each kind, so a bag of words does not predict the label. The model must find the earlier occurrence of
the key and copy the token after it, which takes two attention layers.
"""

import random

from harness.config.texts import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import SYMBOLS, VALUES


def refuse(config: GrammarConfig) -> None:
    if config.pairs < 2 or config.pairs % 2:
        raise InputError(f"task.grammar.pairs={config.pairs} must be even and at least 2: half of the values are of each kind")
    if not config.pairs <= config.symbols <= len(SYMBOLS):
        raise InputError(
            f"task.grammar.symbols={config.symbols} must be between task.grammar.pairs={config.pairs} and {len(SYMBOLS)}"
        )


def make(rng: random.Random, config: GrammarConfig) -> Row:
    keys = rng.sample(SYMBOLS[: config.symbols], config.pairs)
    kinds = [0, 1] * (config.pairs // 2)
    rng.shuffle(kinds)
    words = [word for key, kind in zip(keys, kinds, strict=True) for word in (key, rng.choice(VALUES[kind]))]
    query = rng.randrange(config.pairs)
    return {"sentence": " ".join([*words, keys[query]]), "label": kinds[query]}


def theory(config: GrammarConfig) -> Theory:
    """The queried key is the last word. A model that reaches no other key, the nearest 3 tokens before [SEP], must guess."""
    words = 2 * config.pairs + 1
    return Theory(
        Distance(words, words), Distance(3, words), words + 2, words - 1, unreached=0.5, bag=0.5, linear=0.5, layers=2
    )


def oracle(row: Row, config: GrammarConfig) -> int:
    *words, query = str(row["sentence"]).split()
    return int(words[words.index(query) + 1] in VALUES[1])


FAMILY = Family(make, theory, oracle, refuse, steps=None)
