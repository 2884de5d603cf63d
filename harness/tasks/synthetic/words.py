"""The words of the generated tasks; no two lists share one, so that a word always means the same."""

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


def fillers(stream: random.Random, low: int, high: int) -> list[str]:
    """Between `low` and `high` words that mean nothing."""
    return stream.choices(FILLERS, k=stream.randint(low, high))
