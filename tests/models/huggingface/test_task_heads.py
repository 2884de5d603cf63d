"""Which published row is which output: names, places, or a new head."""

import pytest

from harness.errors import InputError
from harness.models.huggingface.task_heads import is_of_another_task, names_of_rows, rows_of

GOOD_BAD = {"id2label": {"0": "good", "1": "bad"}}


@pytest.mark.parametrize(
    ("config_json", "names"),
    [
        (GOOD_BAD, ["good", "bad"]),
        ({"id2label": {1: "bad", 0: "good"}}, ["good", "bad"]),
        ({"id2label": {str(row): f"c{row}" for row in (*range(1, 12), 0)}}, [f"c{row}" for row in range(12)]),
        ({"label2id": {"bad": 1, "good": 0}}, ["good", "bad"]),
        ({"id2label": {"0": "good", "1": "bad"}, "label2id": {"good": 1, "bad": 0}}, ["good", "bad"]),
        ({"id2label": {"0": 0, "1": 1}}, ["0", "1"]),
        ({}, []),
        ({"id2label": None}, []),
        ({"id2label": ["good", "bad"]}, ["good", "bad"]),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"good": 0, "bad": 1}}, ["good", "bad"]),
        ({"label2id": {"good": "x", "bad": [1]}}, []),
    ],
)
def test_rows_are_named_by_config_json(config_json, names):
    assert names_of_rows(config_json) == dict(enumerate(names))


@pytest.mark.parametrize("kind", ["classification", "multilabel", "tokens"])
@pytest.mark.parametrize(
    ("config_json", "labels", "rows", "note"),
    [
        (GOOD_BAD, ["bad", "good"], [1, 0], "head: row 1 is bad, row 0 is good"),
        (GOOD_BAD, ["good", "bad"], [0, 1], "head: row 0 is good, row 1 is bad"),
        (GOOD_BAD, ["BAD", "Good"], [1, 0], "head: row 1 is bad, row 0 is good"),
        ({"id2label": {"0": "not-entailment", "1": "entailment"}}, ["entailment", "not_entailment"], [1, 0], "head: row 1 is"),
        (GOOD_BAD, ["0", "1"], [0, 1], "head: labels are numbers of its rows, which are good, bad"),
        (GOOD_BAD, ["1", "0"], None, "new head, as the published one is for good, bad, not 1, 0"),
        (GOOD_BAD, ["warm", "cold"], None, "new head, as the published one is for good, bad, not warm, cold"),
        (GOOD_BAD, ["good", "dull"], None, "new head, as the published one is for good, bad, not good, dull"),
        (GOOD_BAD, ["a", "b", "c"], None, "new head of 3, as the published one is for good, bad"),
        ({}, ["a", "b", "c"], None, "new head of 3, as the published one is for 2 outputs"),
        ({}, ["b", "a"], [0, 1], "head: config.json names none of its rows, in their order they are b, a"),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, ["b", "a"], [0, 1], "head: config.json names none of its rows"),
        ({"id2label": {"0": "LABEL_1", "1": "LABEL_0"}}, ["b", "a"], [1, 0], "head: config.json names none of its rows"),
        ({"id2label": {"0": "LABEL_1", "1": "LABEL_0"}}, ["LABEL_0", "LABEL_1"], [1, 0], "head: row 1 is LABEL_0"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, ["b", "a"], [1, 0], "head: row 1 is b, row 0 is a"),
        ({"id2label": {"1": "a", "2": "b"}}, ["b", "a"], None, "new head, as config.json names rows 1, 2"),
    ],
)
def test_rows_go_by_their_names_or_the_head_is_new(kind, config_json, labels, rows, note):
    found, said = rows_of(config_json, 2, len(labels), kind, labels)
    assert found == rows
    assert said.startswith(note)


@pytest.mark.parametrize(("kind", "outputs"), [("regression", 1), ("spans", 2)])
def test_outputs_without_names_are_in_their_order(kind, outputs):
    assert rows_of({"id2label": {"1": "x", "0": "y"}}, outputs, outputs, kind, []) == ([*range(outputs)], "head as published")
    assert rows_of({}, 3, outputs, kind, [])[0] is None


@pytest.mark.parametrize("stated", [{"good": 0, "bad": 1}, {"0": "good", "1.0": "bad"}])
def test_names_without_numbers_of_rows_are_refused(stated):
    with pytest.raises(InputError, match=r"^config\.json: id2label=.*: expected numbers of rows with their names$"):
        names_of_rows({"id2label": stated})


def test_names_that_differ_in_letter_case_alone_are_different_rows():
    config_json = {"id2label": {"0": "US", "1": "us"}}
    assert rows_of(config_json, 2, 2, "classification", ["us", "US"])[0] == [1, 0]
    assert rows_of(config_json, 2, 2, "classification", ["Us", "uS"])[0] is None


@pytest.mark.parametrize(
    ("kind", "problem", "is_other"),
    [
        ("classification", "multi_label_classification", True),
        ("multilabel", "single_label_classification", True),
        ("classification", "regression", True),
        ("regression", "regression", False),
        ("classification", "single_label_classification", False),
        ("classification", None, False),
        (None, "regression", False),
    ],
)
def test_a_head_of_another_problem_is_of_another_task(kind, problem, is_other):
    config_json = {"architectures": ["BertForSequenceClassification"], "problem_type": problem}
    assert is_of_another_task({}, config_json, on_tokens=False, kind=kind) == is_other
