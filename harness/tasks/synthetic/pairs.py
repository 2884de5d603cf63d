"""Do two sentences name the same thing? One sentence alone does not predict the label; a weighted count of words hardly."""

import random

from harness.config.texts import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import SYMBOLS, fillers


def refuse(config: GrammarConfig) -> None:
    if not 2 <= config.symbols <= len(SYMBOLS):
        raise InputError(f"task.grammar.symbols={config.symbols} must be between 2 and {len(SYMBOLS)}")


def make(rng: random.Random, config: GrammarConfig) -> Row:
    label = rng.randint(0, 1)
    symbols = SYMBOLS[: config.symbols]
    first = rng.choice(symbols)
    second = first if label else rng.choice([symbol for symbol in symbols if symbol != first])
    sentences = [" ".join([*fillers(rng, 0, 1), symbol, *fillers(rng, 0, 1)]) for symbol in (first, second)]
    return {"sentence1": sentences[0], "sentence2": sentences[1], "label": label}


def best_linear_accuracy(symbols: int) -> float:
    """Best accuracy of a weighted count of words.

    An equal pair scores twice its symbol's weight, an unequal pair the sum of two weights. With s of n symbols above half of
    the threshold, s of the n equal pairs are classified correctly, and s * (s - 1) of the n * (n - 1) unequal pairs are not.
    """
    n = symbols
    return 0.5 + max(s / (2 * n) - s * (s - 1) / (2 * n * (n - 1)) for s in range(n + 1))


def theory(config: GrammarConfig) -> Theory:
    """The second symbol is 3 to 6 tokens after [CLS], the first one as many before the last [SEP]; both are needed."""
    return Theory(
        Distance(3, 6), Distance(3, 6), tokens=9, span=4, unreached=0.5, bag=1.0, linear=best_linear_accuracy(config.symbols)
    )


def oracle(row: Row, config: GrammarConfig) -> int:
    first, second = ({*str(row[name]).split()} & {*SYMBOLS} for name in ("sentence1", "sentence2"))
    return int(first == second)


FAMILY = Family(make, theory, oracle, refuse, steps=400)
