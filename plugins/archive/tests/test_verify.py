"""Scores are recomputed from the predictions of every kind of task."""

import pyarrow
import pytest

from harness.config.choices import TaskKind
from harness.plugins.archive.verify import Checks, compare_files, compare_predictions

LOGITS = {"logit_0": [0.1, 2.0, 0.3], "logit_1": [1.0, 0.0, 0.4]}
KINDS = {
    "classification": ({"item": [0, 1, 2], "label": [1, 0, 0], "prediction": [1, 0, 1]} | LOGITS, [], "accuracy", 2 / 3),
    "regression": ({"item": [0, 1, 2], "label": [1.0, 2.0, 3.0], "prediction": [2.0, 4.0, 6.0]}, [], "pearson", 1.0),
    "tokens": (
        {"item": [0, 0, 1], "position": [0, 1, 0], "label": [0, 1, 1], "prediction": [0, 1, 0]},
        ["O", "B-a"],
        "entity_f1",
        2 / 3,
    ),
    "minimal_pairs": (
        {"label": [1, 0, 0], "prediction": [1, 0, 1], "paradigm": ["a", "a", "b"], "right_by_piece": [True, False, True]}
        | LOGITS,
        [],
        "accuracy_by_piece",
        0.75,
    ),
    "multiple_choice": ({"item": [0, 1, 2], "label": [1, 0, 1], "prediction": [1, 0, 0]}, ["a", "b"], "accuracy", 2 / 3),
    "multilabel": (
        {"item": [0, 1, 2], "labels": [["a"], [], ["a", "b"]], "predictions": [["a"], ["b"], ["a", "b"]]},
        ["a", "b"],
        "accuracy",
        2 / 3,
    ),
    "similarity": ({"item": [0, 1, 2], "label": [1.0, 2.0, 3.0], "cosine": [0.1, 0.2, 0.3]}, [], "pearson", 1.0),
    "retrieval": ({"item": [0, 1], "relevant": [[4], [5]], "ranked": [[4, 1], [2, 3]]}, [], "recall_at_10", 0.5),
    "spans": ({"item": ["a", "b"], "prediction": ["the cat", ""], "answers": [["cat"], ["dog"]]}, [], "exact_match", 0.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_is_that_of_its_predictions(kind):
    assert {*KINDS} == {kind.value for kind in TaskKind}
    columns, labels, name, score = KINDS[kind]
    params = {"task.kind": kind, "task.labels": str(labels), "task.scores": str([name]), "task.headline": name}
    count = 2 if kind in ("tokens", "spans", "retrieval") else 3
    for archived, wrong in ((score, 0), (score + 0.01, 2), (None, 2)):
        checks = Checks()
        metrics = {f"eval/{name}": archived, "eval/score": archived, "eval/examples": float(count)}
        metrics = {key: value for key, value in metrics.items() if value is not None}
        compare_predictions(checks, "run", {"params": params, "metrics": metrics}, pyarrow.table(columns), "")
        assert (len(checks.wrong), checks.counts["scores"]) == (wrong, 3)


def test_predictions_that_are_not_those_of_their_logits_are_found():
    columns, *_ = KINDS["classification"]
    params = {"task.kind": "classification", "task.labels": "[]", "task.scores": "[]", "task.headline": "accuracy"}
    checks = Checks()
    table = pyarrow.table(columns | {"prediction": [1, 0, 0]})
    compare_predictions(checks, "run", {"params": params, "metrics": {}}, table, "_mismatched")
    assert checks.wrong == ["run, predictions that differ from their logits, from row [2] on: 1 in the archive, 0 recomputed"]


@pytest.mark.parametrize(
    ("name", "archived", "computed", "difference"),
    [
        ("report.md", "a\n| −50.9 points ▼ |", "a\n| −50.9 points ▲ |", "line 2: ▼ in the archive, ▲ recomputed"),
        ("report.md", "a b", "a b\nc", "line 2: nothing in the archive, c recomputed"),
        ("summary.csv", 'x\n"a, b",0.25', 'x\n"a, b",0.35', "line 2: 0.25 in the archive, 0.35 recomputed"),
    ],
)
def test_a_difference_of_a_report_names_its_line(name: str, archived: str, computed: str, difference: str):
    checks = Checks()
    compare_files(checks, name, archived, archived)
    assert checks.wrong == []
    compare_files(checks, name, archived, computed)
    assert checks.wrong == [f"{name}, {difference}"]


def test_sums_of_floats_may_differ_in_the_last_digits():
    checks = Checks()
    compare_files(checks, "summary.csv", "0.1,nan", "0.1000000000001,nan")
    assert checks.wrong == []
