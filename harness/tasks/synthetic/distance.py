"""Are the gate at the start and the gate `distance` tokens later both open.

A model whose first token cannot reach the second gate does at best as well as from the first gate alone. Windowed attention
carries (window / 2) * layers tokens far. The two gates can be counted, so that a bag of words solves it.
"""

import random

from harness.config.schema import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import FILLERS, OPEN, SHUT, fillers

ONE_GATE = 0.75
"""Best accuracy from one gate alone: of four equally likely states two are both open, one is each gate alone open."""


def refuse(config: GrammarConfig) -> None:
    if config.distance < 2:
        raise InputError(f"task.grammar.distance={config.distance} must be at least 2")


def make(stream: random.Random, config: GrammarConfig) -> Row:
    """Half of the rows have both gates open, a quarter each only one: one gate alone tells 3/4 at best."""
    first, second = stream.choice([(True, True), (True, True), (True, False), (False, True)])
    gates = [stream.choice(OPEN if state else SHUT) for state in (first, second)]
    between = stream.choices(FILLERS, k=config.distance - 1)
    words = [gates[0], *between, gates[1], *fillers(stream, 0, 3)]
    return {"sentence": " ".join(words), "label": int(first and second)}


def theory(config: GrammarConfig) -> Theory:
    """The second gate stands `distance` + 1 behind [CLS], the first one up to `distance` + 4 before [SEP]."""
    far = config.distance + 1
    return Theory(Steps(far, far), Steps(far, far + 3), far + 5, config.distance, unreached=ONE_GATE, bag=1.0, linear=1.0)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = str(row["sentence"]).split()
    return int(words[0] in OPEN and words[config.distance] in OPEN)


FAMILY = Family(make, theory, oracle, refuse, steps=64)
