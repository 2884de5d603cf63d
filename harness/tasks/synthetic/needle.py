"""A long document in which a single sentence decides, somewhere in the middle half.

Full attention reaches it from the pooled token in one layer. A weighted count of words contains it too, but as one word in
`length`; theory does not say whether that is learned.
"""

import random

from harness.config.texts import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import FILLERS, SAID, VERDICTS

SHORTEST = 16


def refuse(config: GrammarConfig) -> None:
    if config.length < SHORTEST:
        raise InputError(f"task.grammar.length={config.length} must be at least {SHORTEST}")


def make(rng: random.Random, config: GrammarConfig) -> Row:
    label = rng.randint(0, 1)
    needle = [*SAID, rng.choice(VERDICTS[label])]
    words = rng.choices(FILLERS, k=config.length - len(needle))
    place = rng.randint(config.length // 4, 3 * config.length // 4 - len(needle))
    return {"sentence": " ".join([*words[:place], *needle, *words[place:]]), "label": label}


def theory(config: GrammarConfig) -> Theory:
    """The deciding word is the last word of the deciding sentence."""
    first, last = config.length // 4 + len(SAID) + 1, 3 * config.length // 4
    reach = Distance(config.length + 1 - last, config.length + 1 - first)
    return Theory(Distance(first, last), reach, config.length + 2, span=0, unreached=0.5, bag=1.0, linear=None)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = str(row["sentence"]).split()
    return int(words[words.index(SAID[-1]) + 1] in VERDICTS[1])


FAMILY = Family(make, theory, oracle, refuse, steps=None)
