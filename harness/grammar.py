"""The built-in suite: small generated tasks whose right answer is known beforehand, so that the harness can be tested itself.

- bag: pairs of reviews; is there more praise or more blame in them. Counting words is enough.
- order: does the hunter stand before its prey. Both classes hold the same words, so that counting them is worth nothing.
- distance: are the gate at the start and the gate `distance` tokens later both open. A model whose first token cannot reach
  the second gate does at best as well as from the first gate alone: `ceiling_without_reach`. The reach of windowed attention
  is (window / 2) * layers tokens from the first one.
"""

import random
from collections.abc import Callable

from harness.config import GrammarConfig, Rule
from harness.errors import InputError
from harness.seeds import derive

PRAISE = ["brilliant", "charming", "clever", "delightful", "graceful", "moving", "splendid", "warm"]
BLAME = ["awful", "boring", "clumsy", "dreary", "hollow", "shallow", "tedious", "weak"]
HUNTERS = ["fox", "hawk", "lynx", "owl", "pike", "wolf"]
PREY = ["frog", "hare", "mouse", "perch", "sparrow", "vole"]
OPEN = ["open", "raised", "unlocked"]
SHUT = ["barred", "locked", "shut"]
VERBS = ["follows", "hears", "passes", "sees", "smells", "watches"]
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

Row = dict[str, str | int]


def generate(config: GrammarConfig, split: str) -> list[Row]:
    """Rows of `train` or `validation`, the same for the same config; InputError for a distance that leaves no room."""
    if config.distance < 2:
        raise InputError(f"task.grammar.distance={config.distance} must be at least 2")
    count = {"train": config.train_examples, "validation": config.validation_examples}[split]
    if count < 2:
        raise InputError(f"task.grammar.{split}_examples={count} must be at least 2")
    stream = random.Random(derive(config.seed, config.rule.value, split))
    rule = RULES[config.rule]
    return [{"idx": index, **rule(stream, config)} for index in range(count)]


def ceiling_without_reach(rule: Rule) -> float:
    """Best possible accuracy on `distance` for a model that sees the first gate alone: 3/4, as `_distance` draws."""
    if rule is not Rule.distance:
        raise ValueError(f"only the rule 'distance' has a ceiling, not {rule.value!r}")
    return 0.75


def _fillers(stream: random.Random, low: int, high: int) -> list[str]:
    return stream.choices(FILLERS, k=stream.randint(low, high))


def _bag(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    more, fewer = (PRAISE, BLAME) if label else (BLAME, PRAISE)
    lengths = stream.randint(2, 3), stream.randint(2, 3)
    total = sum(lengths)
    majority = stream.randint(total // 2 + 1, total)
    words = stream.choices(more, k=majority) + stream.choices(fewer, k=total - majority)
    stream.shuffle(words)
    reviews = words[: lengths[0]], words[lengths[0] :]
    texts = []
    for review in reviews:
        text = review + _fillers(stream, 1, 3)
        stream.shuffle(text)
        texts.append(" ".join(text))
    return {"sentence1": texts[0], "sentence2": texts[1], "label": label}


def _order(stream: random.Random, config: GrammarConfig) -> Row:
    label = stream.randint(0, 1)
    animals = [stream.choice(HUNTERS), stream.choice(PREY)]
    first, second = animals if label else reversed(animals)
    words = [*_fillers(stream, 0, 2), first, stream.choice(VERBS), *_fillers(stream, 0, 3), second, *_fillers(stream, 0, 3)]
    return {"sentence": " ".join(words), "label": label}


def _distance(stream: random.Random, config: GrammarConfig) -> Row:
    """Half of the rows have both gates open, a quarter each only one: one gate alone tells 3/4 at best."""
    first, second = stream.choice([(True, True), (True, True), (True, False), (False, True)])
    gates = [stream.choice(OPEN if state else SHUT) for state in (first, second)]
    between = stream.choices(FILLERS, k=config.distance - 1)
    words = [gates[0], *between, gates[1], *_fillers(stream, 0, 3)]
    return {"sentence": " ".join(words), "label": int(first and second)}


RULES: dict[Rule, Callable[[random.Random, GrammarConfig], Row]] = {
    Rule.bag: _bag,
    Rule.order: _order,
    Rule.distance: _distance,
}
