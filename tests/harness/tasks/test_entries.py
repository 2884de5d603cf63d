"""Entries of tasks: what fits a kind is taken, and what no run could use is one line that names the key."""

import pytest

from harness import tasks
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.errors import InputError

TAGS = {"labels": ["O", "B-a"], "scores": ["entity_f1"], "headline": "entity_f1"}
SPANS = {"fields": ["question", "context"], "scores": ["f1"], "headline": "f1"}
CLASSES = {"fields": ["text"], "labels": ["a", "b"], "scores": ["accuracy"], "headline": "accuracy"}
LISTS = ("fields", "labels", "scores")


def entry(kind: str, **fields) -> TaskConfig:
    return TaskConfig(name="made", kind=TaskKind[kind], **{"fields": ["text"], "label": "y"} | fields)


@pytest.mark.parametrize("labels", ["O B-a I-a", "O I-a", "O B-a I-a E-a S-a", "O B-a I-a L-a U-a"])
def test_tags_of_every_scheme_are_taken(labels):
    tasks.refuse_impossible(entry("tokens", **TAGS | {"labels": labels.split()}))


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("tokens", TAGS | {"labels": ["O", "place"]}, "task.labels"),
        ("tokens", TAGS | {"labels": ["B-a", "I-a"]}, "task.labels"),
        ("tokens", TAGS | {"fields": ["words", "more"]}, "task.fields"),
        ("tokens", TAGS | {"scores": ["matthews"], "headline": "matthews"}, "'matthews' does not fit .* of kind tokens"),
        ("spans", SPANS | {"fields": ["context"]}, "task.fields"),
        ("spans", SPANS | {"labels": ["yes", "no"]}, "task.labels=.* must be empty: task.kind is spans"),
        ("spans", SPANS | {"scores": ["accuracy"], "headline": "accuracy"}, "'accuracy' does not fit .* of kind spans"),
        ("classification", CLASSES | {"fields": ["a", "b", "c"]}, "must name one or two columns of texts"),
        ("classification", CLASSES | {"label": "b", "fields": ["a", "b+c"]}, "task.label=b of task 'made' is in task.fields"),
        ("classification", CLASSES | {"labels": ["a"]}, "must name two classes or more"),
        ("classification", CLASSES | {"headline": "f1"}, "unknown headline score 'f1'"),
        ("classification", CLASSES | {"scores": []}, "task.scores of task 'made' is empty"),
        *[
            ("classification", CLASSES | {key: [*2 * CLASSES[key][:1]]}, rf"task\.{key}=.* must be different names")
            for key in LISTS
        ],
        *[
            ("classification", CLASSES | {key: [{"a": 1}]}, rf"task\.{key}=\[{{'a': 1}}\] .* must be a list of names")
            for key in LISTS
        ],
        ("regression", {"labels": ["a"], "scores": ["pearson"], "headline": "pearson"}, "must be empty"),
        ("similarity", {"scores": ["pearson"], "headline": "pearson"}, "must name two columns of texts"),
        ("minimal_pairs", {"scores": ["accuracy"], "headline": "accuracy"}, "must name the right and the wrong sentence"),
    ],
)
def test_entries_that_no_run_could_use_are_refused(kind, fields, expected):
    with pytest.raises(InputError, match=expected):
        tasks.refuse_impossible(entry(kind, **fields))
