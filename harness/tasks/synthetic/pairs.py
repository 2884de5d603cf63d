"""Do two sentences name the same thing. Neither sentence alone says anything, and a weighted count of words says little."""

import random

from harness.config.schema import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import SYMBOLS, fillers


def refuse(config: GrammarConfig) -> None:
    if not 2 <= config.symbols <= len(SYMBOLS):
        raise InputError(f"task.grammar.symbols={config.symbols} must be between 2 and {len(SYMBOLS)}")


def make(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    symbols = SYMBOLS[: config.symbols]
    first = stream.choice(symbols)
    second = first if label else stream.choice([symbol for symbol in symbols if symbol != first])
    sentences = [" ".join([*fillers(stream, 0, 1), symbol, *fillers(stream, 0, 1)]) for symbol in (first, second)]
    return {"sentence1": sentences[0], "sentence2": sentences[1], "label": label}


def counted(symbols: int) -> float:
    """Best accuracy of a weighted count of words.

    Equal pairs score twice a symbol's weight, other pairs the sum of two: with s symbols above half of the threshold, s of
    n equal pairs are told, and among the others the s * (s - 1) pairs of two such symbols are lost.
    """
    n = symbols
    return 0.5 + max(s / (2 * n) - s * (s - 1) / (2 * n * (n - 1)) for s in range(n + 1))


def theory(config: GrammarConfig) -> Theory:
    """The second symbol is 3 to 6 tokens behind [CLS], the first one as many before the last [SEP]; one says nothing."""
    return Theory(Steps(3, 6), Steps(3, 6), tokens=9, span=4, unreached=0.5, bag=1.0, linear=counted(config.symbols))


def oracle(row: Row, config: GrammarConfig) -> int:
    first, second = ({*str(row[name]).split()} & {*SYMBOLS} for name in ("sentence1", "sentence2"))
    return int(first == second)


FAMILY = Family(make, theory, oracle, refuse, steps=400)
