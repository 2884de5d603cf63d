"""The true label of a row of a generated task, read off its words: independent of the generators."""

from collections.abc import Callable

from harness.config.choices import Rule
from harness.config.schema import GrammarConfig
from harness.tasks.synthetic.families import (
    BLAME,
    CLOSING,
    HUNTERS,
    OPEN,
    OPENING,
    PRAISE,
    PREY,
    SAID,
    SUNNY,
    SYMBOLS,
    VALUES,
    VERDICTS,
    Row,
    WordSense,
)


def words_of(row: Row) -> list[str]:
    return row["sentence"].split()


def bag(row: Row, config: GrammarConfig) -> bool:
    words = f"{row['sentence1']} {row['sentence2']}".split()
    return sum(word in PRAISE for word in words) > sum(word in BLAME for word in words)


def order(row: Row, config: GrammarConfig) -> bool:
    return next(word for word in words_of(row) if word in HUNTERS or word in PREY) in HUNTERS


def distance(row: Row, config: GrammarConfig) -> bool:
    words = words_of(row)
    return words[0] in OPEN and words[config.distance] in OPEN


def left_context(row: Row, config: GrammarConfig) -> bool:
    return any(word in SUNNY for word in words_of(row))


def pairs(row: Row, config: GrammarConfig) -> bool:
    first, second = ({*row[name].split()} & {*SYMBOLS} for name in ("sentence1", "sentence2"))
    return first == second


def induction(row: Row, config: GrammarConfig) -> bool:
    *words, query = words_of(row)
    return words[words.index(query) + 1] in VALUES[1]


def brackets(row: Row, config: GrammarConfig) -> bool:
    opened = []
    for word in words_of(row):
        if word in OPENING:
            opened.append(OPENING.index(word))
        elif not opened or opened.pop() != CLOSING.index(word):
            return False
    return not opened


def needle(row: Row, config: GrammarConfig) -> bool:
    words = words_of(row)
    return words[words.index(SAID[-1]) + 1] in VERDICTS[1]


def word_sense(row: Row, config: GrammarConfig) -> bool:
    return any(word in WordSense.THING for word in row["words"])


TRUE_LABELS: dict[Rule, Callable[[Row, GrammarConfig], bool]] = {
    Rule.bag: bag,
    Rule.order: order,
    Rule.distance: distance,
    Rule.left_context: left_context,
    Rule.pairs: pairs,
    Rule.induction: induction,
    Rule.brackets: brackets,
    Rule.needle: needle,
    Rule.word_sense: word_sense,
}
