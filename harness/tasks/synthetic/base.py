"""What every family of generated tasks provides: a generator, its theoretical properties and an oracle.

Positions count tokens: 0 is [CLS], every word is one token, every sentence ends in [SEP].
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.config.texts import GrammarConfig
from harness.tasks.synthetic.words import WORDS

Row = dict[str, str | int | list[str] | list[int]]


@dataclass(frozen=True)
class Distance:
    """Tokens between the farthest deciding word and the pooled token: the minimum and the maximum over all rows.

    A model with a receptive field below `least` misses a deciding word in every row; one with `most` misses none.
    """

    least: int
    most: int


@dataclass(frozen=True)
class Theory:
    """Properties of a task at one difficulty. Scores are expected accuracies; None where theory gives none."""

    to_first: Distance  # from the farthest deciding word to the first token
    to_last: Distance  # from the farthest deciding word to the last token
    tokens: int  # of the longest row, including [CLS] and [SEP]
    span: int  # maximum number of tokens between the first and the last deciding word
    unreached: float  # best score of a model that misses a deciding word in every row
    bag: float | None  # best score of any function of the bag of words
    linear: float | None  # best score of a weighted count of words
    layers: int = 1  # attention layers that the known construction needs
    chance: float = 0.5  # score of a prediction that ignores the text
    ceiling: float = 1.0  # score of the true rule
    to_right: Distance | None = None  # from a labelled word to the deciding one; None: the pooled vector is labelled


@dataclass(frozen=True)
class Family:
    """Generator, theory and oracle of one family of tasks."""

    make: Callable[[random.Random, GrammarConfig], Row]
    theory: Callable[[GrammarConfig], Theory]
    oracle: Callable[[Row, GrammarConfig], int]  # text -> its true label
    refuse: Callable[[GrammarConfig], None] = lambda config: None  # InputError for a difficulty that cannot be generated
    steps: int | None = None  # optimiser steps in which `base` solved the task of `conf/task/` at scale tiny
    relayed_steps: int | None = None  # the same of `windowed`, where information must pass through several layers
    make_held_out: Callable[[random.Random, GrammarConfig], Row] | None = None  # rows of validation with words of their own
    words: Sequence[str] = tuple(WORDS)  # of which a vocabulary is trained
