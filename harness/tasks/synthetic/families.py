"""The families of generated tasks: each has a generator and the theory of its task.

Positions count tokens: 0 is [CLS], every word is one token, every sentence ends in [SEP]. The lists of words are disjoint.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.choices import Rule
from harness.config.schema import GrammarConfig
from harness.data.seeds import derive
from harness.errors import InputError


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


PRAISE = words("brilliant charming clever delightful graceful moving splendid warm")
BLAME = words("awful boring clumsy dreary hollow shallow tedious weak")
HUNTERS = words("fox hawk lynx owl pike wolf")
PREY = words("frog hare mouse perch sparrow vole")
OPEN = words("open raised unlocked")
SHUT = words("barred locked shut")
VERBS = words("follows hears passes sees smells watches")
SUNNY = words("bright clear sunny")
RAINY = words("foggy rainy stormy")
SYMBOLS = words("anchor basket candle dagger engine feather goblet hammer")
VALUES = [["red", "crimson"], ["blue", "azure"]]
OPENING = ["enter", "start"]
CLOSING = ["leave", "stop"]
VERDICTS = [["guilty"], ["innocent"]]
SAID = ["the", "verdict", "was"]
FILLERS = words(
    "above again along at before beneath beside between beyond by early later near often once past quietly slowly "
    "still there today under while yonder "
)
WORDS = [*PRAISE, *BLAME, *HUNTERS, *PREY, *OPEN, *SHUT, *VERBS, *SUNNY, *RAINY, *SYMBOLS, *VALUES[0], *VALUES[1]]
WORDS += [*OPENING, *CLOSING, *VERDICTS[0], *VERDICTS[1], *SAID, *FILLERS]


def fillers(rng: random.Random, low: int, high: int) -> list[str]:
    """Between `low` and `high` words without influence on the label."""
    return rng.choices(FILLERS, k=rng.randint(low, high))


Row = dict[str, str | int | list[str] | list[int]]


def sentence(words: Sequence[str], label: int) -> Row:
    """A row of one text."""
    return {"sentence": " ".join(words), "label": label}


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
    bag: float | None = 1.0  # best score of any function of the bag of words
    linear: float | None = 1.0  # best score of a weighted count of words
    unreached: float = 0.5  # best score of a model that misses a deciding word in every row
    layers: int = 1  # attention layers that the known construction needs
    chance: float = 0.5  # score of a prediction that ignores the text
    ceiling: float = 1.0  # score of the true rule
    to_right: Distance | None = None  # from a labelled word to the deciding one; None: the pooled vector is labelled


class Family:
    """Generator and theory of one family of tasks."""

    steps: int | None = None  # optimiser steps in which `base` solved the task of `conf/task/` at scale tiny
    relayed_steps: int | None = None  # those of `windowed`, where information must pass through several layers
    words: Sequence[str] = tuple(WORDS)  # of which a vocabulary is trained
    lengthened_by: str = "rule"  # key of the grammar that says how far away the deciding words are

    def refuse(self, config: GrammarConfig) -> None:
        """InputError for a difficulty that cannot be generated."""

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        """A random row with its label."""
        raise NotImplementedError

    def theory(self, config: GrammarConfig) -> Theory:
        """Theoretical properties of the task at this difficulty."""
        raise NotImplementedError


class Bag(Family):
    """Pairs of reviews: do they hold more words of praise or of blame? Counting words solves it."""

    steps = 64

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        label = rng.randint(0, 1)
        more, fewer = (PRAISE, BLAME) if label else (BLAME, PRAISE)
        lengths = rng.randint(2, 3), rng.randint(2, 3)
        total = sum(lengths)
        majority = rng.randint(total // 2 + 1, total)
        words = rng.choices(more, k=majority) + rng.choices(fewer, k=total - majority)
        rng.shuffle(words)
        reviews = words[: lengths[0]], words[lengths[0] :]
        texts = []
        for review in reviews:
            text = review + fillers(rng, 1, 3)
            rng.shuffle(text)
            texts.append(" ".join(text))
        return {"sentence1": texts[0], "sentence2": texts[1], "label": label}

    def theory(self, config: GrammarConfig) -> Theory:
        """The words of the first review are at positions 1 to 6, those of the second up to 13."""
        return Theory(to_first=Distance(1, 13), to_last=Distance(1, 13), tokens=15, span=12)


class Order(Family):
    """Does the hunter come before its prey? Both classes hold the same words, so counting them does not help."""

    steps = 94
    relayed_steps = 500

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        label = rng.randint(0, 1)
        animals = [rng.choice(HUNTERS), rng.choice(PREY)]
        first, second = animals if label else reversed(animals)
        words = [*fillers(rng, 0, 1), first, rng.choice(VERBS), *fillers(rng, 0, 2), second, *fillers(rng, 0, 3)]
        return sentence(words, label)

    def theory(self, config: GrammarConfig) -> Theory:
        """Each animal alone determines the label: only a model that reaches neither must guess."""
        return Theory(to_first=Distance(1, 6), to_last=Distance(1, 8), tokens=11, span=4, bag=0.5, linear=0.5)


class AtDistance(Family):
    """Are the gate at the start and the gate `distance` tokens later both open?

    If the second gate is outside of the receptive field of the first token, a model can do no better than from the first gate
    alone. The receptive field of windowed attention is (window / 2) * layers tokens. A bag of words solves the task: the open
    gates can be counted.
    """

    steps = 64
    lengthened_by = "distance"
    ONE_GATE = 0.75
    """Best accuracy from one gate: both are open in half of the rows, each one alone in a quarter."""

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        """Half of the rows have both gates open, a quarter only the first, a quarter only the second."""
        first, second = rng.choice([(True, True), (True, True), (True, False), (False, True)])
        gates = [rng.choice(OPEN if state else SHUT) for state in (first, second)]
        words = [gates[0], *rng.choices(FILLERS, k=config.distance - 1), gates[1], *fillers(rng, 0, 3)]
        return sentence(words, int(first and second))

    def theory(self, config: GrammarConfig) -> Theory:
        """The second gate is `distance` + 1 tokens after [CLS], the first one up to `distance` + 4 before [SEP]."""
        far = config.distance + 1
        return Theory(Distance(far, far), Distance(far, far + 3), far + 5, config.distance, unreached=self.ONE_GATE)


class LeftContext(Family):
    """The weather, named at the start of a text; only fillers follow.

    The deciding word is to the right of [CLS] and far to the left of the last token. A causal model pooled at [CLS] attends to
    [CLS] alone, which is the same in every row, and cannot solve the task. Pooled at the last token, as `gpt` and `gpt2` are,
    it attends to the whole text and solves it as `base` does.
    """

    steps = 64
    BEFORE, AFTER = (0, 2), (8, 16)
    """Minimum and maximum number of fillers on each side of the deciding word."""

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        label = rng.randint(0, 1)
        words = [*fillers(rng, *self.BEFORE), rng.choice(SUNNY if label else RAINY), *fillers(rng, *self.AFTER)]
        return sentence(words, label)

    def theory(self, config: GrammarConfig) -> Theory:
        """A single word decides."""
        first, last = Distance(1 + self.BEFORE[0], 1 + self.BEFORE[1]), Distance(1 + self.AFTER[0], 1 + self.AFTER[1])
        return Theory(first, last, tokens=first.most + last.most + 1, span=0)


class Pairs(Family):
    """Do two sentences name the same thing? One sentence alone does not predict the label; a weighted count of words hardly."""

    steps = 400

    def refuse(self, config: GrammarConfig) -> None:
        if config.symbols > len(SYMBOLS):
            raise InputError(f"task.grammar.symbols={config.symbols} must be between 2 and {len(SYMBOLS)}")

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        label = rng.randint(0, 1)
        symbols = SYMBOLS[: config.symbols]
        first = rng.choice(symbols)
        second = first if label else rng.choice([symbol for symbol in symbols if symbol != first])
        sentences = [" ".join([*fillers(rng, 0, 1), symbol, *fillers(rng, 0, 1)]) for symbol in (first, second)]
        return {"sentence1": sentences[0], "sentence2": sentences[1], "label": label}

    def theory(self, config: GrammarConfig) -> Theory:
        """The second symbol is 3 to 6 tokens after [CLS], the first one as many before the last [SEP]; both are needed.

        In a weighted count of words an equal pair scores twice its symbol's weight, an unequal pair the sum of two weights.
        With s of n symbols above half of the threshold, s of the n equal pairs are classified correctly, and s * (s - 1) of
        the n * (n - 1) unequal ones are not.
        """
        n = config.symbols
        linear = 0.5 + max(s / (2 * n) - s * (s - 1) / (2 * n * (n - 1)) for s in range(n + 1))
        return Theory(Distance(3, 6), Distance(3, 6), tokens=9, span=4, linear=linear)


class Induction(Family):
    """Keys with their values, then one key again: which value followed it? (arXiv:2209.11895, induction heads)

    Half of the values are of each kind, so a bag of words does not predict the label. The model must find the earlier
    occurrence of the key and copy the token after it, which takes two attention layers.
    """

    lengthened_by = "pairs"

    def refuse(self, config: GrammarConfig) -> None:
        if config.pairs % 2:
            raise InputError(
                f"task.grammar.pairs={config.pairs} must be even and at least 2: half of the values are of each kind"
            )
        if not config.pairs <= config.symbols <= len(SYMBOLS):
            raise InputError(
                f"task.grammar.symbols={config.symbols} must be between task.grammar.pairs={config.pairs} and {len(SYMBOLS)}"
            )

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        keys = rng.sample(SYMBOLS[: config.symbols], config.pairs)
        kinds = [0, 1] * (config.pairs // 2)
        rng.shuffle(kinds)
        words = [word for key, kind in zip(keys, kinds, strict=True) for word in (key, rng.choice(VALUES[kind]))]
        query = rng.randrange(config.pairs)
        return sentence([*words, keys[query]], kinds[query])

    def theory(self, config: GrammarConfig) -> Theory:
        """The queried key is the last word. A model that reaches no other one, the nearest 3 tokens before [SEP], guesses."""
        words = 2 * config.pairs + 1
        return Theory(Distance(words, words), Distance(3, words), words + 2, words - 1, bag=0.5, linear=0.5, layers=2)


class Brackets(Family):
    """Brackets of two kinds, nested up to `depth` deep: does every closing bracket match the one that it closes?

    In a negative row two closing brackets of different kinds are swapped. The words and the positions of opening and closing
    brackets stay the same, so neither a bag of words nor the pattern of openings predicts the label. For a bounded depth two
    attention layers find the matching bracket (arXiv:2105.11115), and a third one gathers the results.
    """

    steps = 500
    MOST_DRAWS = 10_000
    """Random patterns for one row, after which the depth counts as too rare."""

    def refuse(self, config: GrammarConfig) -> None:
        if config.depth > config.pairs:
            raise InputError(f"task.grammar.depth={config.depth} must be between 1 and task.grammar.pairs={config.pairs}")

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        label = rng.randint(0, 1)
        pattern = self._pattern(rng, config)
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
        return sentence(words, label)

    def _pattern(self, rng: random.Random, config: GrammarConfig) -> list[bool]:
        """A balanced sequence of opening (True) and closing brackets, nested exactly `depth` deep."""
        for _ in range(self.MOST_DRAWS):
            pattern, heights = [], [0]
            for left in range(2 * config.pairs, 0, -1):
                height = heights[-1]
                choices = [True] * (height < min(config.depth, left)) + [False] * (height > 0)
                pattern.append(rng.choice(choices))
                heights.append(height + (1 if pattern[-1] else -1))
            if max(heights) == config.depth:
                return pattern
        depth, pairs = f"task.grammar.depth={config.depth}", f"task.grammar.pairs={config.pairs}"
        raise InputError(f"{depth} is too rare with {pairs}: expected less depth, or many more pairs")

    def theory(self, config: GrammarConfig) -> Theory:
        """A single bracket does not determine the label; all 2 * `pairs` of them are needed."""
        words = 2 * config.pairs
        return Theory(Distance(2, words), Distance(2, words), words + 2, words - 1, bag=0.5, linear=0.5, layers=3)


class Needle(Family):
    """A long document in which a single sentence decides, somewhere in the middle half.

    Full attention reaches it from the pooled token in one layer. A weighted count of words contains it too, but as one word in
    `length`; theory does not say whether that is learned.
    """

    lengthened_by = "length"

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        label = rng.randint(0, 1)
        needle = [*SAID, rng.choice(VERDICTS[label])]
        words = rng.choices(FILLERS, k=config.length - len(needle))
        place = rng.randint(config.length // 4, 3 * config.length // 4 - len(needle))
        return sentence([*words[:place], *needle, *words[place:]], label)

    def theory(self, config: GrammarConfig) -> Theory:
        """The deciding word is the last word of the deciding sentence."""
        first, last = config.length // 4 + len(SAID) + 1, 3 * config.length // 4
        reach = Distance(config.length + 1 - last, config.length + 1 - first)
        return Theory(Distance(first, last), reach, config.length + 2, span=0, linear=None)


class WordSense(Family):
    """The sense of an ambiguous word, an animal or a thing, which a single word further right decides.

    "the jaguar outside was asleep" is an animal, "the jaguar outside was rusty" a thing. The label is that of the word itself
    (kind `tokens`), so that a causal model, which has read nothing of what follows, cannot tell: at best it finds the word and
    is right in half of the rows. The words of validation do not occur in training; every word has both senses equally often.
    """

    TRAINED = words("bass bat beetle bug crane drill kite mouse pointer ram seal slug")
    HELD_OUT = words("fly jaguar mustang pike skate tick")
    ANIMAL = words("asleep blind frightened hungry lame pregnant starved thirsty")
    THING = words("assembled dented plastic polished repaired rusty welded wooden")
    BEFORE, BETWEEN, AFTER = ("", "yesterday", "last night"), ("", "outside", "over there"), ("", "again", "at noon")
    words = (*TRAINED, *HELD_OUT, *ANIMAL, *THING, "the", "was", *" ".join((*BEFORE, *BETWEEN, *AFTER)).split())

    OUTSIDE, SENSES = 0, (1, 2)
    """Class of all other words, and of an animal and a thing."""

    def __init__(self, ambiguous: Sequence[str] = TRAINED) -> None:
        self.ambiguous = ambiguous

    def make(self, rng: random.Random, config: GrammarConfig) -> Row:
        left, word, label = [*rng.choice(self.BEFORE).split(), "the"], rng.choice(self.ambiguous), rng.randint(0, 1)
        right = [
            *rng.choice(self.BETWEEN).split(),
            "was",
            rng.choice(self.THING if label else self.ANIMAL),
            *rng.choice(self.AFTER).split(),
        ]
        tags = [self.OUTSIDE] * len(left) + [self.SENSES[label]] + [self.OUTSIDE] * len(right)
        return {"words": [*left, word, *right], "tags": tags, "label": label}

    def theory(self, config: GrammarConfig) -> Theory:
        """The scores are entity F1: with every word found, it is the share of right senses."""
        before, between, after = (max(len(part.split()) for part in parts) for parts in (self.BEFORE, self.BETWEEN, self.AFTER))
        right = Distance(2, 2 + between)  # `was` stands between the word and what decides
        first, last = Distance(2 + right.least, 2 + before + right.most), Distance(1, 1 + after)
        tokens = first.most + last.most + 1
        chance = 2 * 0.5 / (1 + len(self.BEFORE))  # F1 of one sense at every place where the word may stand
        return Theory(first, last, tokens, span=0, chance=chance, to_right=right)


FAMILIES: dict[Rule, Family] = {
    Rule.bag: Bag(),
    Rule.order: Order(),
    Rule.distance: AtDistance(),
    Rule.left_context: LeftContext(),
    Rule.pairs: Pairs(),
    Rule.induction: Induction(),
    Rule.brackets: Brackets(),
    Rule.needle: Needle(),
    Rule.word_sense: WordSense(),
}


def generate(config: GrammarConfig, split: str) -> list[Row]:
    """Rows of `train` or `validation`, the same for the same config; InputError for a difficulty that cannot be generated."""
    family = FAMILIES[config.rule]
    family.refuse(config)
    count = {"train": config.train_examples, "validation": config.validation_examples}[split]
    made = WordSense(WordSense.HELD_OUT) if (config.rule, split) == (Rule.word_sense, "validation") else family
    rng = random.Random(derive(config.seed, config.rule.value, split))
    return [{"idx": index, **made.make(rng, config)} for index in range(count)]


def refuse_cut(config: GrammarConfig, max_length: int) -> None:
    """InputError where texts of so many tokens end before what decides their label, in every row."""
    needed = theory_of(config).to_first.least + 2  # [CLS] and [SEP]
    if needed > max_length:
        key = FAMILIES[config.rule].lengthened_by
        value = getattr(config, key)
        raise InputError(
            f"task.grammar.{key}={getattr(value, 'value', value)} needs {needed} tokens to decide a label, "
            f"but task.max_length={max_length}: set it to {needed} or more"
        )


def theory_of(config: GrammarConfig) -> Theory:
    """Theoretical properties of the task at this difficulty; InputError for a difficulty that cannot be generated."""
    family = FAMILIES[config.rule]
    family.refuse(config)
    return family.theory(config)
