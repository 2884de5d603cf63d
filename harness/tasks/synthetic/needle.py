"""A long document in which one sentence decides, somewhere in its middle half.

Full attention carries it to the pooled token in one layer. A weighted count holds it too, though as one word in `length`:
whether that is learned theory does not say.
"""

import random

from harness.config.schema import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import FILLERS, SAID, VERDICTS

SHORTEST = 16


def refuse(config: GrammarConfig) -> None:
    if config.length < SHORTEST:
        raise InputError(f"task.grammar.length={config.length} must be at least {SHORTEST}")


def make(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    needle = [*SAID, stream.choice(VERDICTS[label])]
    words = stream.choices(FILLERS, k=config.length - len(needle))
    place = stream.randint(config.length // 4, 3 * config.length // 4 - len(needle))
    return {"sentence": " ".join([*words[:place], *needle, *words[place:]]), "label": label}


def theory(config: GrammarConfig) -> Theory:
    """The deciding word is the last one of its sentence."""
    first, last = config.length // 4 + len(SAID) + 1, 3 * config.length // 4
    reach = Steps(config.length + 1 - last, config.length + 1 - first)
    return Theory(Steps(first, last), reach, config.length + 2, span=0, unreached=0.5, bag=1.0, linear=None)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = str(row["sentence"]).split()
    return int(words[words.index(SAID[-1]) + 1] in VERDICTS[1])


FAMILY = Family(make, theory, oracle, refuse, steps=None)
