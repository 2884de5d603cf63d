"""What is said of the rows before a run."""

import json

import pytest

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.study.identity import Identity, Inputs
from harness.tasks import notes
from harness.tasks.base import Examples


def split(texts: list, labels: list) -> Examples:
    return Examples([[text] if isinstance(text, str) else text for text in texts], labels, [*range(len(texts))], "rows")


def said(train: Examples, validation: Examples, **keys: object) -> list[str]:
    task = TaskConfig(**{"name": "own", "labels": ["bad", "good"]} | keys)
    splits = {"train": train, "validation": validation}
    return notes.of_rows(task, splits, notes.leaks(task, splits))


def test_nothing_is_said_of_sound_rows():
    assert said(split("ab", [0, 1]), split("cd", [0, 1])) == []


def test_one_class_is_said():
    assert said(split("ab", [0, 0]), split("cd", [0, 1])) == [
        "warning: all rows of train have the label 'bad': scores are not meaningful",
        "warning: validation has rows of 'good', which train lacks",
    ]
    assert said(split("ab", [0, 1]), split("cd", [1, 1])) == [
        "warning: all rows of validation have the label 'good': scores are not meaningful"
    ]


def test_classes_that_train_lacks_are_said_of_several_labels():
    kind = {"kind": TaskKind.multilabel}
    assert said(split("ab", [[0], []]), split("cd", [[0, 1], []]), **kind) == [
        "warning: validation has rows of 'good', which train lacks"
    ]


def test_rows_that_are_in_train_are_said_case_and_blanks_aside():
    said_of = said(split(["A  fine film", "b"], [0, 1]), split(["a \ufb01ne\tFilm ", "c", "d", "e"], [0, 1, 0, 1]))
    assert said_of == [
        "warning: 25 % of the rows of validation are in train, too, but for case and blanks: their scores measure memory"
    ]


def test_a_text_with_two_labels_in_train_is_said():
    assert said(split(["A", "a ", "b"], [0, 1, 1]), split("cd", [0, 1])) == [
        "warning: 1 of 2 texts of train have several labels each, in rows that are equal but for case and blanks"
    ]


def test_pairs_and_words_are_compared_whole():
    assert said(split([["a", "b"], ["c", "d"]], [0, 1]), split([["a", "c"], ["c", "b"]], [0, 1])) == []


@pytest.mark.parametrize("missing", ["nan", "None", "#N/A", "-inf", "-"])
def test_odd_names_are_said(missing):
    labels = ["Pos", missing, "pos"]
    assert said(split("abc", [0, 1, 2]), split("def", [0, 1, 2]), labels=labels) == [
        f"warning: {missing!r} is read as the name of a class: leave empty what has no label",
        "warning: the labels 'Pos', 'pos' differ in case alone and are several classes",
    ]


@pytest.mark.parametrize("twin", ["cafe\u0301", "caf\u00e9\u200b", "Caf\u00e9 ", "\ufb01n"])
def test_names_that_look_alike_are_said(twin):
    labels = ["fin" if twin == "\ufb01n" else "caf\u00e9", twin]
    (line,) = said(split("ab", [0, 1]), split("cd", [0, 1]), labels=labels)
    assert f"the labels {labels[0]!a}, {twin!a} differ in case, blanks or ways to write a letter alone" in line


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["1", "1.0"], "the labels '1', '1.0' differ in how a number is written and are several classes"),
        (["01", "1"], "the labels '01', '1' differ in how a number is written"),
        (["1", "True"], "the labels '1', 'True' differ in how a number is written"),
        (["joy", "fear", "joy | fear"], "'joy | fear' is read as one class, and so is each of its parts"),
        (["pos", '"neg"'], 'the quotation marks of "neg" are read as part of the label'),
    ],
)
def test_names_that_mean_other_labels_are_said(labels, says):
    (line,) = said(split("abc", [0, 1, -1]), split("def", [0, 1, -1]), labels=labels)
    assert line.startswith(f"warning: {says}")


@pytest.mark.parametrize("text", ['"a ""fine"" film"', ' "a film"'])
def test_quotation_marks_of_a_table_are_said(text):
    rows, others, own = split([text, "b"], [0, 1]), split("cd", [0, 1]), {"train_file": "a.tsv"}
    (note,) = said(rows, others, **own)
    assert note.startswith("warning: the quotation marks around 1 texts of train are read as part of them: those of a .tsv")
    assert said(rows, others) == said(split(['"a film"', 'he: ""', '"a" or "b"'], [0, 1, 1]), others, **own) == []


def test_numbers_with_decimals_as_classes_are_said():
    rows = split("abc", [0, 1, 2]), split("def", [0, 1, 2])
    assert said(*rows, labels=["0.0", "0.5", "1.0"]) == [
        "warning: the labels '0.0', '0.5', '1.0' are numbers and read as classes: for numbers set task.kind=regression"
    ]
    assert said(*rows, labels=["0.0", "1.0", "2.0"]) == said(*rows, labels=["0.5", "1.5", "b"]) == []


def test_several_labels_that_no_row_has_are_said():
    kind = {"kind": TaskKind.multilabel}
    (line,) = said(split("ab", [[0], [1]]), split("cd", [[1], []]), **kind)
    assert line.startswith("warning: no row has several labels: set task.label_separator")


def test_one_number_for_all_rows_is_said():
    for kind in (TaskKind.regression, TaskKind.similarity):
        assert said(split("ab", [0.5, 1.0]), split("cd", [3.0, 3.0]), kind=kind, labels=[]) == [
            "warning: all rows of validation have the label 3: scores are not meaningful"
        ]


@pytest.mark.parametrize(
    ("labels", "tags", "scheme"),
    [
        (["O", "B-X", "I-X"], [[1, 2, 0, 1, 1]], None),
        (["O", "B-X", "I-X"], [[2, 2, 1, 0, 2]], "IOB1"),
        (["O", "B-X", "E-X", "S-X"], [[1, 2, 0, 3]], "BIOES"),
        (["O", "B-X", "L-X", "U-X"], [[1, 2, 0, 3]], "BILOU"),
    ],
)
def test_schemes_of_tags_are_told_apart(labels, tags, scheme):
    words, other = (split([list(letters[: len(tags[0])])], tags) for letters in ("abcde", "vwxyz"))
    expected = [f"tags are in the scheme {scheme}"] if scheme else []
    assert said(words, other, kind=TaskKind.tokens, labels=labels) == expected


def test_splits_in_two_schemes_of_tags_are_said():
    keys = {"kind": TaskKind.tokens, "labels": ["O", "B-X", "I-X"]}
    stray = split([list("abcde")], [[2, 0, 1, 0, 1]])  # one wrong tag makes no scheme
    assert said(stray, split([list("vw")], [[1, 2]]), **keys) == said(stray, split(["f"], [[0]]), **keys) == []
    assert said(stray, split([list("vw")], [[2, 2]]), **keys) == [
        "warning: tags are in different schemes (train IOB2, validation IOB1): write them in one"
    ]


def test_a_share_of_rows_that_are_in_train_is_a_tag_of_the_run(small_config):
    tagged = Identity(small_config, Inputs(data="0", leaked=0.25)).described([])["tags"]
    assert tagged["leaked"] == "0.25"
    assert "leaked" not in Identity(small_config, Inputs(data="0", leaked=0.0)).described([])["tags"]


@pytest.mark.long
def test_the_command_warns_before_the_run_and_tags_it(run_harness, tmp_path):
    for name, label in (("train", "b"), ("other", "a")):
        rows = [f"text {row % 4},{'a' if row % 4 else label}" for row in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,y", *rows]) + "\n")
    files = [f"task.train_file={tmp_path / 'train.csv'}", f"task.validation_file={tmp_path / 'other.csv'}"]
    small = ["scale=tiny", "measure=none", "finetune.max_steps=2", "report=false", f"output={tmp_path / 'out'}"]
    ended = run_harness("task=own", "task.label=y", *files, *small)
    assert ended.returncode == 0, ended.stderr
    assert "warning: task 'own': all rows of validation have the label 'a': scores are not meaningful" in ended.stdout
    assert "warning: task 'own': 100 % of the rows of validation are in train, too" in ended.stdout
    (record,) = (tmp_path / "out").glob("*/*/run.json")
    assert json.loads(record.read_text())["tags"]["leaked"] == "1"
    assert "split_seed: 0" in (record.parent / "config.yaml").read_text()
