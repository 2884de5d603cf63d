"""Are the gate at the start and the gate `distance` tokens later both open?

If the second gate is outside of the receptive field of the first token, a model can do no better than from the first gate
alone. The receptive field of windowed attention is (window / 2) * layers tokens. A bag of words solves the task, because the
open gates can be counted.
"""

import random

from harness.config.texts import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import FILLERS, OPEN, SHUT, fillers

ONE_GATE = 0.75
"""Best accuracy from one gate: both are open in half of the rows, each one alone in a quarter."""


def refuse(config: GrammarConfig) -> None:
    if config.distance < 2:
        raise InputError(f"task.grammar.distance={config.distance} must be at least 2")


def make(rng: random.Random, config: GrammarConfig) -> Row:
    """Half of the rows have both gates open, a quarter only the first, a quarter only the second."""
    first, second = rng.choice([(True, True), (True, True), (True, False), (False, True)])
    gates = [rng.choice(OPEN if state else SHUT) for state in (first, second)]
    between = rng.choices(FILLERS, k=config.distance - 1)
    words = [gates[0], *between, gates[1], *fillers(rng, 0, 3)]
    return {"sentence": " ".join(words), "label": int(first and second)}


def theory(config: GrammarConfig) -> Theory:
    """The second gate is `distance` + 1 tokens after [CLS], the first one up to `distance` + 4 before [SEP]."""
    far = config.distance + 1
    return Theory(Distance(far, far), Distance(far, far + 3), far + 5, config.distance, unreached=ONE_GATE, bag=1.0, linear=1.0)


def oracle(row: Row, config: GrammarConfig) -> int:
    words = str(row["sentence"]).split()
    return int(words[0] in OPEN and words[config.distance] in OPEN)


FAMILY = Family(make, theory, oracle, refuse, steps=64)
