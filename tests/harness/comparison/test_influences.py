"""How far single items move a score."""

import numpy as np
import pyarrow
import pytest

from harness.comparison import influences, items
from harness.config.choices import TaskKind
from harness.tasks import scores


def _random(kind: str, count: int) -> tuple[list, list]:
    """Labels, and predictions that repeat 7 of 10 of them."""
    rng = np.random.default_rng(0)
    shape = {"classification": (count,), "tokens": (count, 6), "multilabel": (count, 3)}[kind]
    labels, other = ((rng.random((2, *shape)) < 0.3) * (2 if kind == "classification" else 1)).astype(int)
    labels = labels - (rng.random(shape) < 0.5) * (labels > 1)  # of classes 0, 1 and 2
    predicted = np.where(rng.random(shape) < 0.7, labels, other)
    if kind != "tokens":
        return labels, predicted
    names = np.array(["O", "B-place"], dtype=object)
    return names[labels].tolist(), names[predicted].tolist()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("classification", name) for name in ("f1", "f1_macro", "matthews")),
        *(("multilabel", name) for name in ("f1_macro", "f1_micro")),
        *(("tokens", f"entity_{name}") for name in ("precision", "recall", "f1")),
    ],
)
def test_influences_are_what_a_score_changes_by_without_an_item(kind: str, name: str):
    """Times the number of items, up to terms of its inverse: the jackknife."""
    count = 400
    labels, predicted = _random(kind, count)
    if name == "f1":
        labels, predicted = (np.minimum(one, 1) for one in (labels, predicted))
    moved, one_more = influences.of_score(kind, name, labels, predicted)

    def without(item: int) -> float:
        left = [[*side[:item], *side[item + 1 :]] for side in (labels, predicted)]
        return scores.compute(TaskKind(kind), name, *(left if kind == "tokens" else map(np.array, left)))

    whole = scores.compute(TaskKind(kind), name, labels, predicted)
    assert moved.sum() == pytest.approx(0, abs=1e-9)
    for item in range(0, count, 29):
        assert (count - 1) * (whole - without(item)) == pytest.approx(moved[item], abs=0.02 * one_more)


def test_a_mean_over_paradigms_errs_as_its_smallest_do():
    """Two paradigms of 90 and 10 pairs, half of them right: p (1 - p) (1 / 90 + 1 / 10) / 4, and one pair more."""
    labels, right = ["large"] * 90 + ["small"] * 10, np.tile([[1, 0], [0, 1]], (50, 1))
    moved, one_more = influences.of_score("minimal_pairs", "accuracy", labels, right)
    assert (moved @ moved) / 100**2 == pytest.approx(0.25 * (1 / 90 + 1 / 10) / 4)
    assert one_more / 100 == pytest.approx(np.hypot(1 / 90, 1 / 10) / 2)


def test_means_over_the_items_have_no_influences_of_their_own():
    labels, predicted = _random("classification", 20)
    assert influences.of_score("classification", "accuracy", labels, predicted) is None
    assert influences.of_score("classification", "f1_mismatched", labels, predicted) is None
    assert influences.of_score("spans", "exact_match", [["a"]], ["a"]) is None


@pytest.mark.long
def test_the_f1_of_an_answer_is_that_of_the_score():
    """Arms that match the same items exactly may overlap otherwise with the rest."""
    labels = [["the red fox", "fox"], ["a dog"], [], ["x y z"], ["the"], ["no"]]
    said = ["red fox.", "dog dog", "", "z y", "", "yes"]
    moved, _ = influences.of_score("spans", "f1", labels, said)
    singly = [scores.compute(TaskKind.spans, "f1", [one], [other]) for one, other in zip(labels, said, strict=True)]
    assert moved == pytest.approx(np.array(singly) - np.mean(singly), abs=1e-6)
    table = {"item": [*range(6)], "prediction": said, "answers": labels}
    errors = items.errors(None, pyarrow.table(table))
    assert items.of_both([(errors, errors)]).error_of("f1") == pytest.approx(1 / 6)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_correlations_err_alike_whatever_the_scale_of_the_predictions(name: str, scale: float):
    """Weak regressions predict about the mean: their distances from the labels agree, their correlations do not."""
    labels, *noise = np.random.default_rng(0).normal(size=(3, 1000))
    tables = [pyarrow.table({"item": [*range(1000)], "label": labels, "prediction": scale * one}) for one in noise]
    error = items.of_both([(items.errors(None, tables[0]), items.errors(None, tables[1]))]).error_of(name)
    assert error == pytest.approx((2 / 1000) ** 0.5, rel=0.05)


@pytest.mark.parametrize(("kind", "name"), [("classification", "f1"), ("classification", "matthews"), ("tokens", "entity_f1")])
def test_a_perfect_or_useless_score_still_has_an_error(kind: str, name: str):
    labels, _ = _random(kind, 50)
    none = [["O"] * 6] * 50 if kind == "tokens" else np.zeros(50, dtype=int)
    for said in (labels, none):
        moved, one_more = influences.of_score(kind, name, labels, said)
        assert np.isfinite(moved).all()
        assert one_more > 0
