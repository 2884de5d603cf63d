"""What the generated tasks state of themselves: who knows the answer, and what words, lengths and places alone can tell."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from true_labels import TRUE_LABELS

from harness.config.choices import Rule
from harness.config.schema import GrammarConfig
from harness.errors import InputError
from harness.tasks.synthetic.families import (
    BLAME,
    CLOSING,
    FAMILIES,
    OPENING,
    PRAISE,
    SYMBOLS,
    VERDICTS,
    WORDS,
    WordSense,
    generate,
    theory_of,
)

ROWS = 2000
SHORT = {"length": 24, "train_examples": ROWS, "validation_examples": ROWS}
SENTENCES = ("sentence", "sentence1", "sentence2")
COUNTABLE = [rule for rule in Rule if theory_of(GrammarConfig(rule=rule)).linear == 1.0]
UNCOUNTABLE = [rule for rule in Rule if theory_of(GrammarConfig(rule=rule)).linear == 0.5]


def config(rule: Rule, **keys) -> GrammarConfig:
    return GrammarConfig(**{"rule": rule} | SHORT | keys)


def sentences(row: dict) -> list[str]:
    return [" ".join(row["words"])] if "words" in row else [row[name] for name in SENTENCES if name in row]


def counted_accuracy(rule: Rule, **keys) -> float:
    """Of logistic regression on word counts, on rows that it was not fitted to."""
    splits = [generate(config(rule, **keys), split) for split in ("train", "validation")]
    texts = [[" ".join(sentences(row)) for row in rows] for rows in splits]
    labels = [[row["label"] for row in rows] for rows in splits]
    vectors = CountVectorizer(vocabulary=FAMILIES[rule].words)
    model = LogisticRegression(max_iter=1000).fit(vectors.transform(texts[0]), labels[0])
    return model.score(vectors.transform(texts[1]), labels[1])


def at_most(score: float) -> float:
    return score + 4 * (score * (1 - score) / ROWS) ** 0.5


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("split", ["train", "validation"])
def test_who_reads_the_rule_reaches_the_ceiling(rule, split):
    made = generate(config(rule), split)
    right = sum(TRUE_LABELS[rule](row, config(rule)) == row["label"] for row in made) / len(made)
    assert right == theory_of(config(rule)).ceiling == 1


@pytest.mark.parametrize("rule", UNCOUNTABLE)
def test_counting_words_is_at_chance_where_order_decides(rule):
    assert rule in (Rule.order, Rule.induction, Rule.brackets)
    assert counted_accuracy(rule) <= at_most(0.5)


@pytest.mark.parametrize("rule", COUNTABLE)
def test_counting_words_is_enough_where_theory_says_so(rule):
    assert counted_accuracy(rule) > 0.97


@pytest.mark.parametrize("symbols", [2, 4, 8])
def test_a_weighted_count_of_pairs_is_bounded(symbols):
    assert counted_accuracy(Rule.pairs, symbols=symbols) <= at_most(theory_of(config(Rule.pairs, symbols=symbols)).linear)


@pytest.mark.parametrize("rule", Rule)
def test_length_tells_nothing(rule):
    by_length = defaultdict(Counter)
    for row in generate(config(rule), "train"):
        by_length[tuple(len(text.split()) for text in sentences(row))][row["label"]] += 1
    right = sum(max(labels.values()) for labels in by_length.values())
    chance = sum(sum(labels.values()) / 2 + 2 * sum(labels.values()) ** 0.5 for labels in by_length.values())
    assert right <= chance


@pytest.mark.parametrize("rule", [Rule.pairs, Rule.induction, Rule.brackets])
def test_no_single_place_tells_anything(rule):
    keys = {"pairs": 4, "symbols": 4}
    made = generate(config(rule, **keys), "train")
    counts = defaultdict(Counter)
    for row in made:
        for part, text in enumerate(sentences(row)):
            for place, word in enumerate(text.split()):
                counts[part, place, word][row["label"]] += 1
    for where, labels in counts.items():
        assert abs(labels[0] - labels[1]) < 5 * sum(labels.values()) ** 0.5, where


def test_one_sentence_of_a_pair_tells_nothing():
    made = generate(config(Rule.pairs), "train")
    for name in ("sentence1", "sentence2"):
        texts, labels = [row[name] for row in made], [row["label"] for row in made]
        vectors = CountVectorizer(vocabulary=WORDS).transform(texts)
        half = ROWS // 2
        assert LogisticRegression().fit(vectors[:half], labels[:half]).score(vectors[half:], labels[half:]) < 0.57


@pytest.mark.parametrize(("pairs", "depth"), [(2, 1), (2, 2), (4, 3), (6, 2)])
def test_brackets_open_and_close_alike_in_both_classes_and_nest_as_deep_as_asked(pairs, depth):
    for row in generate(config(Rule.brackets, pairs=pairs, depth=depth), "train"):
        words = row["sentence"].split()
        heights = np.cumsum([1 if word in OPENING else -1 for word in words])
        assert (len(words), heights.min(), heights[-1], heights.max()) == (2 * pairs, 0, 0, depth)
        kinds = Counter(words)
        assert all(kinds[OPENING[kind]] == kinds[CLOSING[kind]] > 0 for kind in (0, 1))


def decisive(rule: Rule, tokens: list[str]) -> list[int]:
    """Places of the words without which the label is not known."""
    words = [word for name in WORDS_OF[rule] for word in name]
    return [place for place, token in enumerate(tokens) if token in words]


WORDS_OF = {
    Rule.bag: (PRAISE, BLAME),
    Rule.left_context: (["bright", "clear", "sunny"], ["foggy", "rainy", "stormy"]),
    Rule.distance: (["open", "raised", "unlocked"], ["barred", "locked", "shut"]),
    Rule.pairs: (SYMBOLS,),
    Rule.needle: VERDICTS,
    Rule.word_sense: (WordSense.ANIMAL, WordSense.THING),
}


@pytest.mark.parametrize("rule", WORDS_OF)
def test_what_decides_stands_as_far_away_as_theory_says(rule):
    grammar = config(rule)
    theory = theory_of(grammar)
    first, last, spans, lengths = [], [], [], []
    for row in generate(grammar, "train"):
        tokens = ["[CLS]"] + [word for text in sentences(row) for word in (*text.split(), "[SEP]")]
        places = decisive(rule, tokens)
        first.append(max(places))
        last.append(len(tokens) - 1 - min(places))
        spans.append(max(places) - min(places))
        lengths.append(len(tokens))
    assert (max(first), max(last), max(lengths)) == (theory.to_first.most, theory.to_last.most, theory.tokens)
    if rule is not Rule.bag:  # whose distances hold for any of its words
        assert (min(first), min(last), max(spans)) == (theory.to_first.least, theory.to_last.least, theory.span)


@pytest.mark.parametrize(
    ("rule", "keys", "message"),
    [
        (Rule.pairs, {"symbols": 9}, r"task\.grammar\.symbols=9 must be between 2 and 8"),
        (Rule.induction, {"pairs": 3}, r"task\.grammar\.pairs=3 must be even"),
        (Rule.induction, {"pairs": 6}, r"task\.grammar\.symbols=4 must be between task\.grammar\.pairs=6 and 8"),
        (Rule.brackets, {"depth": 5}, r"task\.grammar\.depth=5 must be between 1 and task\.grammar\.pairs=4"),
    ],
)
def test_difficulty_that_cannot_be_drawn_is_refused(rule, keys, message):
    with pytest.raises(InputError, match=message):
        generate(config(rule, **keys), "train")
