"""What one family of generated tasks states of itself, so that a verdict can be computed and not guessed.

Places count tokens as the tokenizer puts them: 0 is [CLS], a word is one token, [SEP] stands behind every sentence.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from harness.config.schema import GrammarConfig

Row = dict[str, str | int]


@dataclass(frozen=True)
class Steps:
    """Tokens that information must travel to the end named; `least` over all rows, and `most`.

    A model that travels fewer than `least` lacks what decides in every row; one that travels `most` lacks it in none.
    """

    least: int
    most: int


@dataclass(frozen=True)
class Theory:
    """Facts of a task at one difficulty. Scores are accuracies on rows without number; None where theory gives none."""

    to_first: Steps  # from the farthest deciding word to the first token
    to_last: Steps  # from the farthest deciding word to the last token
    tokens: int  # of the longest row, [CLS] and [SEP] counted
    span: int  # most tokens between the first deciding word and the last one
    unreached: float  # best score of a model that lacks what decides in every row
    bag: float | None  # best score by the words without their order, however they are combined
    linear: float | None  # best score by a weighted count of the words
    layers: int = 1  # of attention that a construction needs
    chance: float = 0.5  # of an answer that knows nothing of the text
    ceiling: float = 1.0  # of who applies the rule


@dataclass(frozen=True)
class Family:
    """How rows are drawn, what theory says of them, and who knows the answer."""

    make: Callable[[random.Random, GrammarConfig], Row]
    theory: Callable[[GrammarConfig], Theory]
    oracle: Callable[[Row, GrammarConfig], int]  # the label by the text alone
    refuse: Callable[[GrammarConfig], None] = lambda config: None  # InputError for a difficulty that cannot be drawn
    steps: int | None = None  # optimiser steps in which `base` was seen to solve the task of `conf/task/` at scale tiny
    relayed_steps: int | None = None  # the same of `windowed`, where what decides must be passed on from layer to layer
