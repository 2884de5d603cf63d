"""Brackets of two kinds, nested up to `depth` deep: does every closing one fit the one that it closes.

In a wrong row two closing brackets of different kinds have changed places: the words are the same, and so are the places where
brackets open and close, so that neither a bag of words nor the pattern of openings tells. A bounded depth is within reach of
two layers of attention that find the bracket to be closed (arXiv:2105.11115), and one more that gathers what each has found.
"""

import random

from harness.config.schema import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Family, Row, Steps, Theory
from harness.tasks.synthetic.words import CLOSING, OPENING


def refuse(config: GrammarConfig) -> None:
    if config.pairs < 2:
        raise InputError(f"task.grammar.pairs={config.pairs} must be at least 2")
    if not 1 <= config.depth <= config.pairs:
        raise InputError(f"task.grammar.depth={config.depth} must be between 1 and task.grammar.pairs={config.pairs}")


def make(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    pattern = _pattern(stream, config)
    kinds = [0, 1] + [stream.randint(0, 1) for _ in range(config.pairs - 2)]
    stream.shuffle(kinds)
    words, closing, opened = [], [], []
    for opens in pattern:
        if opens:
            opened.append(kinds.pop())
            words.append(OPENING[opened[-1]])
        else:
            closing.append((len(words), opened[-1]))
            words.append(CLOSING[opened.pop()])
    if not label:
        one, other = (stream.choice([place for place, kind in closing if kind == wanted]) for wanted in (0, 1))
        words[one], words[other] = words[other], words[one]
    return {"sentence": " ".join(words), "label": label}


def _pattern(stream: random.Random, config: GrammarConfig) -> list[bool]:
    """Where brackets open (True) and close: all of them closed at the end, nested exactly `depth` deep."""
    while True:
        pattern, heights = [], [0]
        for left in range(2 * config.pairs, 0, -1):
            height = heights[-1]
            may = [True] * (height < min(config.depth, left)) + [False] * (height > 0)
            pattern.append(stream.choice(may))
            heights.append(height + (1 if pattern[-1] else -1))
        if max(heights) == config.depth:
            return pattern


def theory(config: GrammarConfig) -> Theory:
    """One bracket alone says nothing; all 2 * `pairs` of them are needed to be sure."""
    words = 2 * config.pairs
    return Theory(Steps(2, words), Steps(2, words), words + 2, words - 1, unreached=0.5, bag=0.5, linear=0.5, layers=3)


def oracle(row: Row, config: GrammarConfig) -> int:
    opened = []
    for word in str(row["sentence"]).split():
        if word in OPENING:
            opened.append(OPENING.index(word))
        elif not opened or opened.pop() != CLOSING.index(word):
            return 0
    return int(not opened)


FAMILY = Family(make, theory, oracle, refuse, steps=500)
