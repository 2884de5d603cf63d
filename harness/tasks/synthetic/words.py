"""The words of the generated tasks. The lists are disjoint."""

import random

PRAISE = ["brilliant", "charming", "clever", "delightful", "graceful", "moving", "splendid", "warm"]
BLAME = ["awful", "boring", "clumsy", "dreary", "hollow", "shallow", "tedious", "weak"]
HUNTERS = ["fox", "hawk", "lynx", "owl", "pike", "wolf"]
PREY = ["frog", "hare", "mouse", "perch", "sparrow", "vole"]
OPEN = ["open", "raised", "unlocked"]
SHUT = ["barred", "locked", "shut"]
VERBS = ["follows", "hears", "passes", "sees", "smells", "watches"]
SUNNY = ["bright", "clear", "sunny"]
RAINY = ["foggy", "rainy", "stormy"]
SYMBOLS = ["anchor", "basket", "candle", "dagger", "engine", "feather", "goblet", "hammer"]
VALUES = [["red", "crimson"], ["blue", "azure"]]
OPENING = ["enter", "start"]
CLOSING = ["leave", "stop"]
VERDICTS = [["guilty"], ["innocent"]]
SAID = ["the", "verdict", "was"]
FILLERS = [
    "above",
    "again",
    "along",
    "at",
    "before",
    "beneath",
    "beside",
    "between",
    "beyond",
    "by",
    "early",
    "later",
    "near",
    "often",
    "once",
    "past",
    "quietly",
    "slowly",
    "still",
    "there",
    "today",
    "under",
    "while",
    "yonder",
]
WORDS = [*PRAISE, *BLAME, *HUNTERS, *PREY, *OPEN, *SHUT, *VERBS, *SUNNY, *RAINY, *SYMBOLS, *VALUES[0], *VALUES[1]]
WORDS += [*OPENING, *CLOSING, *VERDICTS[0], *VERDICTS[1], *SAID, *FILLERS]


def fillers(rng: random.Random, low: int, high: int) -> list[str]:
    """Between `low` and `high` words without influence on the label."""
    return rng.choices(FILLERS, k=rng.randint(low, high))
