"""Brackets of two kinds, nested up to `depth` deep: does every closing bracket match the one that it closes?

In a negative row two closing brackets of different kinds are swapped. The words and the positions of opening and closing
brackets stay the same, so neither a bag of words nor the pattern of openings predicts the label. For a bounded depth two
attention layers find the matching bracket (arXiv:2105.11115), and a third one gathers the results.
"""

import random

from harness.config.texts import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.base import Distance, Family, Row, Theory
from harness.tasks.synthetic.words import CLOSING, OPENING


def refuse(config: GrammarConfig) -> None:
    if config.pairs < 2:
        raise InputError(f"task.grammar.pairs={config.pairs} must be at least 2")
    if not 1 <= config.depth <= config.pairs:
        raise InputError(f"task.grammar.depth={config.depth} must be between 1 and task.grammar.pairs={config.pairs}")


def make(rng: random.Random, config: GrammarConfig) -> Row:
    label = rng.randint(0, 1)
    pattern = _pattern(rng, config)
    kinds = [0, 1] + [rng.randint(0, 1) for _ in range(config.pairs - 2)]
    rng.shuffle(kinds)
    words, closing, opened = [], [], []
    for opens in pattern:
        if opens:
            opened.append(kinds.pop())
            words.append(OPENING[opened[-1]])
        else:
            closing.append((len(words), opened[-1]))
            words.append(CLOSING[opened.pop()])
    if not label:
        one, other = (rng.choice([place for place, kind in closing if kind == swapped]) for swapped in (0, 1))
        words[one], words[other] = words[other], words[one]
    return {"sentence": " ".join(words), "label": label}


def _pattern(rng: random.Random, config: GrammarConfig) -> list[bool]:
    """A balanced sequence of opening (True) and closing brackets, nested exactly `depth` deep."""
    while True:
        pattern, heights = [], [0]
        for left in range(2 * config.pairs, 0, -1):
            height = heights[-1]
            choices = [True] * (height < min(config.depth, left)) + [False] * (height > 0)
            pattern.append(rng.choice(choices))
            heights.append(height + (1 if pattern[-1] else -1))
        if max(heights) == config.depth:
            return pattern


def theory(config: GrammarConfig) -> Theory:
    """A single bracket says nothing about the label; all 2 * `pairs` of them are needed."""
    words = 2 * config.pairs
    return Theory(Distance(2, words), Distance(2, words), words + 2, words - 1, unreached=0.5, bag=0.5, linear=0.5, layers=3)


def oracle(row: Row, config: GrammarConfig) -> int:
    opened = []
    for word in str(row["sentence"]).split():
        if word in OPENING:
            opened.append(OPENING.index(word))
        elif not opened or opened.pop() != CLOSING.index(word):
            return 0
    return int(not opened)


FAMILY = Family(make, theory, oracle, refuse, steps=500)
