"""Scores against values worked out by hand."""

import numpy as np
import pytest

from harness.config.choices import TaskKind
from harness.errors import InputError
from harness.tasks import scores

TRUTH = np.array([1, 1, 1, 0, 0, 0, 0, 1])
PREDICTED = np.array([1, 1, 0, 0, 0, 1, 0, 1])  # 3 true positives, 1 false positive, 1 false negative, 3 true negatives
NUMBERS = np.array([1.0, 2.0, 3.0, 4.0])
CLASSES, NUMERIC, TOKENS, SPANS, PAIRS, MULTI, *_ = TaskKind


@pytest.mark.parametrize(
    ("name", "expected"), [("accuracy", 6 / 8), ("f1", 2 * 3 / (2 * 3 + 1 + 1)), ("matthews", (3 * 3 - 1 * 1) / (4 * 4))]
)
def test_class_scores_equal_the_hand_worked_ones(name, expected):
    assert scores.compute(CLASSES, name, TRUTH, PREDICTED) == pytest.approx(expected, abs=1e-12)


def test_correlations_equal_the_hand_worked_ones():
    # deviations -1.5 -0.5 0.5 1.5 and -1.75 -0.75 -0.75 3.25 of [0, 1, 1, 5]; ranks 1, 2.5, 2.5, 4
    other = np.array([0.0, 1.0, 1.0, 5.0])
    assert scores.compute(NUMERIC, "pearson", NUMBERS, other) == pytest.approx(7.5 / np.sqrt(5 * 14.75), abs=1e-12)
    assert scores.compute(NUMERIC, "spearman", NUMBERS, other) == pytest.approx(4.5 / np.sqrt(5 * 4.5), abs=1e-12)


def test_correlations_are_computed_in_double_precision():
    """Predictions are float32: 0, 1, 1, 5 in steps of 2^-9 above 10,000 are exact, and the sum of their squares is not."""
    truth, other = (np.array(values, dtype=np.float32) * 2.0**-9 + 10_000 for values in (NUMBERS, [0, 1, 1, 5]))
    found = scores.compute(NUMERIC, "pearson", truth.astype(np.float32), other.astype(np.float32))
    assert found == pytest.approx(7.5 / np.sqrt(5 * 14.75), abs=1e-9)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize(("truth", "predicted"), [(np.ones(4), NUMBERS), (np.ones(4), np.ones(4)), (NUMBERS[:1], NUMBERS[:1])])
def test_correlation_with_constant_labels_is_undefined(name, truth, predicted):
    assert scores.compute(NUMERIC, name, truth, predicted) is None


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_constant_predictions_correlate_with_nothing(name):
    """A replicate without a score would leave the mean of its arm, which would be that of the better ones alone."""
    assert scores.compute(NUMERIC, name, NUMBERS, np.ones(4)) == 0.0


def test_constant_class_predictions_score_as_glue_counts_them():
    never = np.zeros(8, dtype=int)
    assert scores.compute(CLASSES, "f1", TRUTH, never) == 0.0
    assert scores.compute(CLASSES, "matthews", TRUTH, never) == 0.0
    assert scores.compute(CLASSES, "accuracy", TRUTH, never) == 0.5


def test_macro_f1_is_the_mean_over_classes():
    truth, predicted = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 0, 1])
    # class 0: 2 right, 1 wrong, 1 missed; class 1: 1 right, 2 wrong, 1 missed; class 2: never predicted
    assert scores.compute(CLASSES, "f1_macro", truth, predicted) == pytest.approx((4 / 6 + 2 / 5 + 0) / 3, abs=1e-12)


def test_unknown_score_names_the_choices_and_the_nearest():
    with pytest.raises(InputError, match=r"did you mean 'accuracy'\?.*`task.scores`.*matthews"):
        scores.compute(CLASSES, "acuracy", TRUTH, PREDICTED)


TAGS = [["B-a", "I-a", "O", "B-b"], ["O", "B-a", "B-a"]]  # four entities
FOUND = [["B-a", "I-a", "O", "B-a"], ["O", "B-a", "I-a"]]  # three: the first is right, one of another type, one too long


@pytest.mark.parametrize(
    ("name", "expected"), [("entity_precision", 1 / 3), ("entity_recall", 1 / 4), ("entity_f1", 2 / 7), ("accuracy", 5 / 7)]
)
def test_entity_scores_equal_the_hand_worked_ones(name, expected):
    assert scores.compute(TOKENS, name, TAGS, FOUND) == pytest.approx(expected, abs=1e-12)


def test_entities_are_counted_over_all_items_together():
    truth, found = [["B-a"], ["B-a", "O", "B-a", "O", "B-a"]], [["B-a"], ["O"] * 5]
    assert scores.compute(TOKENS, "entity_recall", truth, found) == pytest.approx(1 / 4)  # the mean of the items is 1 / 2


@pytest.mark.parametrize(
    "tags",
    [
        "B-a I-a I-a O B-b B-b B-b I-b",  # IOB2
        "I-a I-a I-a O I-b B-b B-b I-b",  # IOB1
        "B-a I-a E-a O S-b S-b B-b E-b",  # BIOES
        "B-a I-a L-a O U-b U-b B-b L-b",  # BILOU
    ],
)
def test_every_scheme_of_tags_has_the_same_four_entities(tags):
    truth, found = tags.split(), ["I-a", "I-a", "I-a", "O", "I-b", "O", "O", "I-b"]
    assert scores.compute(TOKENS, "entity_recall", [truth], [found]) == 2 / 4
    assert scores.compute(TOKENS, "entity_precision", [truth], [found]) == 2 / 3
    assert scores.compute(TOKENS, "entity_f1", [truth], [truth]) == 1.0


def test_an_entity_may_begin_with_its_inside_as_seqeval_counts_it():
    assert scores.compute(TOKENS, "entity_f1", [["O", "B-a", "I-a"]], [["O", "I-a", "I-a"]]) == 1.0


@pytest.mark.parametrize("name", ["entity_precision", "entity_recall", "entity_f1"])
def test_predicting_no_entity_scores_nothing_and_having_none_is_undefined(name):
    nothing = [["O"] * len(tags) for tags in TAGS]
    assert scores.compute(TOKENS, name, TAGS, nothing) == 0.0
    assert scores.compute(TOKENS, name, nothing, FOUND) is None


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "f1"),
    [
        (["The Broncos!"], "broncos", 1, 1),  # case, articles and punctuation do not count
        (["an apple a day"], "apple, day", 1, 1),
        (["Saint Bernadette Soubirous"], "Saint Bernadette", 0, 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        (["in the late 1990s", "1990s"], "late 1990s", 0, 4 / 5),  # of the nearest answer: in late 1990s
        (["one two", "three"], "three", 1, 1),
        (["to be to be"], "to to to", 0, 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)),  # each word as often as in both
        (["yes"], "no", 0, 0),
        (["yes"], "", 0, 0),
        ([], "", 1, 1),  # there is no answer
        ([], "yes", 0, 0),
        (["red fox", "."], "", 0, 0),  # an answer of which nothing is left is none, as in SQuAD's script
        (["the"], "", 1, 1),
    ],
)
def test_answers_score_as_the_hand_worked_normalisation_says(golds, predicted, exact, f1):
    assert scores.compute(SPANS, "exact_match", [golds], [predicted]) == exact
    assert scores.compute(SPANS, "f1", [golds], [predicted]) == pytest.approx(f1, abs=1e-6)


def test_answers_are_averaged_over_items_as_shares():
    golds, predicted = [["red fox"], [], ["red"], ["dog"]], ["red", "", "a red", "cat"]
    assert scores.compute(SPANS, "exact_match", golds, predicted) == pytest.approx(2 / 4)
    assert scores.compute(SPANS, "f1", golds, predicted) == pytest.approx((2 / 3 + 1 + 1 + 0) / 4, abs=1e-6)


IMPORTED = """
import os, sys
import numpy as np
from harness.config.choices import TaskKind
from harness.tasks import scores
EXAMPLES = {
    TaskKind.classification: (np.array([0, 1]), np.array([0, 1])),
    TaskKind.regression: (np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])),
    TaskKind.tokens: ([["B-x", "O"]], [["B-x", "O"]]),
    TaskKind.spans: ([["a word"]], ["a word"]),
    TaskKind.multiple_choice: (np.array([0, 1]), np.array([0, 1])),
    TaskKind.multilabel: (np.array([[1, 0], [0, 1]]), np.array([[1, 0], [1, 1]])),
    TaskKind.similarity: (np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])),
}
for kind in EXAMPLES:
    if os.fork() == 0:
        scores.load_library(kind)
        before = set(sys.modules)
        for name in scores.of_kind(kind):
            scores.compute(kind, name, *EXAMPLES[kind])
        print(kind.value, len(set(sys.modules) - before), flush=True)
        os._exit(0)
    os.wait()
"""
"""Each kind in a fork of its own, so that none finds what another has imported."""


@pytest.mark.long
def test_a_score_imports_nothing_large_once_its_library_is_loaded(run_python):
    """What is imported while a model trains would count as memory of its training."""
    done = run_python("-c", IMPORTED)
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert counts.keys() == {kind.value for kind in scores.LIBRARIES}, done.stderr
    assert all(int(count) <= 10 for count in counts.values()), counts
