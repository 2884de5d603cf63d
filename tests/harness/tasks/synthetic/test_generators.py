"""The built-in tasks: labels follow the stated rule, and what a model can know without understanding is bounded."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from harness import paths
from harness.config.choices import Rule
from harness.config.schema import GrammarConfig, RunConfig
from harness.errors import InputError
from harness.tasks import prepared
from harness.tasks.rows import load_table
from harness.tasks.synthetic.families import (
    OPEN,
    SHUT,
    WORDS,
    WordSense,
    generate,
    refuse_cut,
    theory_of,
)


def rows(rule: Rule, split: str = "train", **keys) -> list[dict]:
    return generate(GrammarConfig(rule=rule, **keys), split)


def texts(row: dict) -> list[str]:
    if "words" in row:
        return [" ".join(row["words"])]
    return [row[name] for name in ("sentence", "sentence1", "sentence2") if name in row]


def spoken(config: RunConfig, split: str) -> list[list[str]]:
    """The texts of each row, lists of words joined."""
    columns = load_table(config, split).columns
    rows = zip(*(columns[name] for name in config.task.fields), strict=True)
    return [[text if isinstance(text, str) else " ".join(text) for text in row] for row in rows]


@pytest.mark.parametrize("rule", Rule)
def test_a_seed_gives_as_many_rows_as_asked_for_and_always_the_same(rule):
    few = {"train_examples": 37, "validation_examples": 11}
    assert rows(rule, **few) == rows(rule, **few) != rows(rule, seed=1, **few)
    assert [row["idx"] for row in rows(rule, **few)] == list(range(37))
    assert len(rows(rule, "validation", **few)) == 11


@pytest.mark.parametrize("rule", Rule)
def test_train_and_validation_are_drawn_apart(rule):
    train, validation = ([texts(row) for row in rows(rule, split)] for split in ("train", "validation"))
    assert train[: len(validation)] != validation
    if rule not in (Rule.order, Rule.pairs, Rule.induction, Rule.brackets):  # short sentences of few words do repeat
        train_rows = {tuple(row) for row in train}
        assert sum(tuple(row) in train_rows for row in validation) < len(validation) / 20


@pytest.mark.parametrize("rule", Rule)
def test_labels_are_balanced(rule):
    labels = [row["label"] for row in rows(rule)]
    assert 0.45 < sum(labels) / len(labels) < 0.55


def test_lists_of_words_do_not_overlap():
    assert len(set(WORDS)) == len(WORDS)


@pytest.mark.long
def test_first_gate_alone_gives_three_quarters_at_best():
    made = rows(Rule.distance, train_examples=20000)
    labels = Counter((row["sentence"].split()[0] in OPEN, row["label"]) for row in made)
    best = sum(max(labels[state, 0], labels[state, 1]) for state in (True, False)) / len(made)
    assert best == pytest.approx(theory_of(GrammarConfig(rule=Rule.distance)).unreached, abs=0.015)


@pytest.mark.parametrize(
    ("rule", "deciding"),
    [(Rule.order, []), (Rule.distance, [*OPEN, *SHUT]), (Rule.word_sense, [*WordSense.ANIMAL, *WordSense.THING])],
)
def test_no_other_word_tells_anything(rule, deciding):
    total = {label: Counter() for label in (0, 1)}
    for row in rows(rule, train_examples=4000):
        total[row["label"]].update(" ".join(texts(row)).split())
    for word in {*total[0], *total[1]} - {*deciding}:
        both = total[0][word] + total[1][word]
        assert abs(total[0][word] - total[1][word]) < 5 * both**0.5, word


@pytest.fixture
def generated(compose, tmp_path) -> Callable[..., RunConfig]:
    """A run on the task of a rule, which is composed once; keywords are keys of its grammar."""

    def config_of(rule: Rule, **grammar: int) -> RunConfig:
        (config,) = compose(f"task={rule.value}", f"output={tmp_path}")
        return replace(config, task=replace(config.task, grammar=replace(config.task.grammar, **grammar)))

    return config_of


@pytest.mark.long
@pytest.mark.parametrize("rule", Rule)
def test_every_word_is_one_piece_of_the_trained_tokenizer(generated, rule):
    assert theory_of(generated(rule).task.grammar).tokens <= generated(rule).task.max_length  # no row is cut
    config = generated(rule, train_examples=100)
    built = trained_vocabulary(config)
    for row in (*spoken(config, "train"), *spoken(config, "validation")):
        for text in row:
            assert built.encode(text, add_special_tokens=False).tokens == text.split()


def trained_vocabulary(config: RunConfig) -> Tokenizer:
    return Tokenizer.from_file(str(paths.data_folder(config.output, prepared.prepare(config)) / "tokenizer.json"))


@pytest.mark.long
@pytest.mark.parametrize("settings", [[], ["tokenizer=bpe"], ["tokenizer=unigram"], ["tokenizer.min_frequency=9"]], ids=str)
def test_generated_tasks_that_label_a_text_have_one_vocabulary(compose, generated, settings):
    """So that a variant has one shape on all of them, and is timed once."""
    (chosen,) = compose("task=bag", *settings)
    rules = [rule for rule in Rule if rule is not Rule.word_sense]
    small = [generated(rule, train_examples=30, validation_examples=10) for rule in rules]
    configs = [replace(config, tokenizer=chosen.tokenizer) for config in small]
    first, *others = [trained_vocabulary(config).get_vocab() for config in configs]
    assert len(others) == len(rules) - 1
    assert all(vocabulary == first for vocabulary in others)
    if settings != ["tokenizer=unigram"]:
        assert {word.removeprefix("Ġ") for word in first} >= set(WORDS)


def test_what_decides_the_sense_stands_right_of_a_word_that_training_never_shows():
    made = {split: rows(Rule.word_sense, split, train_examples=2000) for split in ("train", "validation")}
    ambiguous = {split: Counter(row["words"][place(row)] for row in found) for split, found in made.items()}
    assert set(ambiguous["train"]) == set(WordSense.TRAINED)
    assert set(ambiguous["validation"]) == set(WordSense.HELD_OUT)
    right = theory_of(GrammarConfig(rule=Rule.word_sense)).to_right
    deciding = {*WordSense.ANIMAL, *WordSense.THING}
    for row in (*made["train"], *made["validation"]):
        (found,) = (number for number, word in enumerate(row["words"]) if word in deciding)
        assert right.least <= found - place(row) <= right.most


def place(row: dict) -> int:
    """Of the one labelled word."""
    (found,) = (number for number, tag in enumerate(row["tags"]) if tag)
    assert row["tags"][found] == WordSense.SENSES[row["label"]]
    return found


@pytest.mark.slow
def test_full_attention_solves_distance_and_a_window_that_does_not_reach_cannot(run_harness, output):
    """The right answer is known: windowed at scale mini reaches (8 / 2) * 4 = 16 tokens, the second gate is 20 away."""
    arguments = ["-m", "model=base,windowed", "seed=0", "task=distance", "measure=none", "study=reach", f"output={output}"]
    done = run_harness(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr

    def accuracy(model: str) -> float:
        (folder,) = Path(output, "reach").glob(f"{model}-*")
        return json.loads((folder / "result.json").read_text())["metrics"]["eval/accuracy"]

    assert accuracy("base") > 0.95
    assert accuracy("windowed") <= 0.80


@pytest.mark.parametrize("rule", Rule)
def test_a_text_that_ends_before_what_decides_is_refused(rule):
    """With one word less than it takes, each row ends before its farthest deciding word; with all of them some row does not."""
    grammar = GrammarConfig(rule=rule)
    needed = theory_of(grammar).to_first.least + 2
    refuse_cut(grammar, needed)
    with pytest.raises(InputError, match=f"needs {needed} tokens .* set it to {needed} or more"):
        refuse_cut(grammar, needed - 1)


@pytest.mark.long
def test_a_depth_that_hardly_any_pattern_has_is_refused():
    assert len(rows(Rule.brackets, pairs=6, depth=6, train_examples=3)) == 3
    with pytest.raises(InputError, match=r"^task.grammar.depth=30 is too rare with task.grammar.pairs=30: expected less depth"):
        rows(Rule.brackets, pairs=30, depth=30)
