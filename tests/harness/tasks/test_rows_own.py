"""The user's own rows, in files or folders, and their errors in one line."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import datasets
import pyarrow
import pytest
from omegaconf import OmegaConf
from pyarrow import parquet

from harness.config.choices import DataSource, TaskKind
from harness.config.schema import DataConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.tasks import prepared as cache
from harness.tasks.rows import Table, load_table, with_labels

KINDS = ("csv", "tsv", "jsonl", "parquet")
TYPED = ("jsonl", "parquet")
ROWS = [("a fine film", "pos"), ("dull", "neg"), ("good", "pos"), ("1999", "neg"), ("None", "pos")]


def at(kind: str, row: int) -> str:
    """The place of a row in an error: a line of the file, the header counted, or of parquet the row."""
    return f"row {row}" if kind == "parquet" else f"line {row + (1 if kind == 'jsonl' else 2)}"


@dataclass
class Place:
    """Where a test writes its files, and the task that reads them."""

    folder: Path

    def file(self, kind: str, rows: list[tuple], name: str = "train", columns: tuple[str, ...] = ("text", "y")) -> str:
        """Rows as a file of this kind; its path."""
        path = self.folder / f"{name}.{kind}"
        if kind == "jsonl":
            path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
        elif kind == "parquet":
            parquet.write_table(pyarrow.table({key: [row[at] for row in rows] for at, key in enumerate(columns)}), path)
        else:
            text = io.StringIO()
            csv.writer(text, delimiter="," if kind == "csv" else "\t").writerows([columns, *rows])
            path.write_bytes(text.getvalue().encode())
        return str(path)

    def raw(self, name: str, content: bytes) -> str:
        """A file of just these bytes; its path."""
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def config(self, train: str | None, **keys: object) -> RunConfig:
        """The task `own` on this file, as its entry has it."""
        fields = {"name": "own", "fields": ["text"], "label": "y", "labels": ["neg", "pos"], "item": "id", "test_split": "test"}
        task = TaskConfig(**fields | {"train_file": train} | keys)
        return RunConfig(task=task, data=DataConfig(source=DataSource.local, root=str(self.folder)))

    def table(self, train: str, split: str = "train", **keys: object) -> Table:
        return load_table(self.config(train, **keys), split)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def refused(place: Place) -> Callable[..., str]:
    """The one-line error for this file."""

    def message_of(train: str | None, split: str = "train", **keys: object) -> str:
        with pytest.raises(InputError) as error:
            load_table(place.config(train, **keys), split)
        assert "\n" not in str(error.value)
        return str(error.value)

    return message_of


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_files_own(place, kind):
    """A year stays text, and a text `None` is no missing value."""
    table = place.table(place.file(kind, ROWS))
    assert table.columns == {"text": [text for text, _ in ROWS], "y": [1, 0, 1, 0, 1]}
    assert table.items == [0, 1, 2, 3, 4]
    assert table.where == f"task 'own', train (train.{kind})"


@pytest.mark.parametrize("kind", KINDS)
def test_label_that_is_a_name_is_that_class_even_if_it_is_a_number(place, kind):
    assert place.table(place.file(kind, [("a", 1), ("b", 3)]), labels=["1", "2", "3"]).columns["y"] == [0, 2]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_true_and_false_are_names_or_numbers(place, kind):
    path = place.file(kind, [("a", True), ("b", False)])
    assert place.table(path, labels=["True", "False"]).columns["y"] == [0, 1]
    assert place.table(path, labels=["no", "yes"]).columns["y"] == [1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_regression_reads_numbers(place, kind):
    path = place.file(kind, [("a", 0.5), ("b", 4.0)])
    assert place.table(path, kind=TaskKind.regression, labels=[]).columns["y"] == [0.5, 4.0]


def test_file_of_each_split_is_read(place):
    files = {f"{split}_file": place.file("csv", [(split, "pos")], split) for split in ("validation", "test")}
    config = place.config(place.file("csv", ROWS), **files)
    assert [load_table(config, split).columns["text"] for split in ("validation", "test")] == [["validation"], ["test"]]


def test_test_file_may_lack_labels(place):
    path = place.file("csv", [("a",), ("b",)], "test", ("text",))
    assert place.table(place.file("csv", ROWS), "test", test_file=path).columns["y"] == [-1, -1]


@pytest.mark.parametrize("kind", KINDS)
def test_own_ids_are_kept_as_they_stand(place, kind):
    path = place.file(kind, [("a", "pos", "007"), ("b", "neg", "3")], columns=("text", "y", "id"))
    assert place.table(path).items == ["007", "3"]


def test_quotation_marks_quote_in_csv_and_are_characters_in_tsv(place):
    commas = place.raw("a.csv", b'text,y\r\n"one, ""two""\nthree",pos\r\n')
    tabs = place.raw("a.tsv", b'text\ty\n"never closed\tpos\nnext\tneg\n')
    assert place.table(place.raw("a[1]*.csv", "\ufefftext,y\na,pos\n".encode())).columns["text"] == ["a"]
    assert place.table(commas).columns["text"] == ['one, "two"\nthree']
    assert place.table(tabs).columns["text"] == ['"never closed', "next"]


def test_two_columns_may_be_read_as_one_text(place):
    path = place.file("csv", [("word", "12", "pos")], columns=("a", "b", "y"))
    assert place.table(path, fields=["a+b"]).columns["a+b"] == ["word: 12"]


@pytest.mark.long
def test_long_text_is_cut_at_the_tasks_length(place, compose, tmp_path):
    """With spaces and without: a single word of that length is looked at once."""
    rows = [("ab " * 33_000, "pos"), ("x" * 100_000, "neg")]
    paths = [place.file("csv", rows, split) for split in ("train", "validation")]
    (config,) = compose(
        "task=own", f"task.train_file={paths[0]}", f"task.validation_file={paths[1]}", "task.label=y", "task.labels=[neg,pos]",
        "task.max_length=32", f"output={tmp_path / 'out'}",
    )  # fmt: skip
    prepared = cache.read(config, cache.prepare(config))
    assert prepared.train.lengths.tolist()[0] == 32
    assert max(prepared.train.lengths) <= 32


def test_all_mistakes_of_an_own_task_are_said_at_once(place, tmp_path):
    train, validation = place.file("csv", ROWS), place.file("csv", [("a", "good")], "other")
    wrong = {"fields": ["texd"], "label": "z", "scores": ["acuracy"], "headline": "f1", "labels": ["neg", "neg"]}
    config = place.config(train, validation_file=validation, **wrong)
    config.output = str(tmp_path / "out")
    with pytest.raises(InputError, match=r"^\d mistakes: \(1\) ") as caught:
        cache.prepare(config)
    said = str(caught.value)
    assert "\n" not in said
    for fragment in ("'acuracy'", "must be different names", "train (train.csv): 'texd'", "train (train.csv): 'z'"):
        assert fragment in said
    assert "validation (other.csv): 'texd'" in said


NUMBER, TAGS = {"kind": TaskKind.regression, "labels": []}, {"kind": TaskKind.tokens, "labels": ["O", "B-PER"]}
WRONG = {
    "unquoted": (
        KINDS,
        ("b", "no"),
        {"labels": ["False", "True"]},
        ": 'no'; choices for `task.labels`: False, True; in YAML, quote",
    ),
    "misspelt": (KINDS, ("b", "postive"), {}, ": 'postive'; did you mean 'pos'? choices for `task.labels`: neg, pos"),
    "another number": (KINDS, ("b", "7"), {}, ": label '7' is not among 0 to 1, task.labels"),
    "hidden": (KINDS, ("b", "-1"), {}, ": label '-1' is not among 0 to 1, task.labels (hidden labels?)"),
    "no label": (KINDS, ("b", ""), {}, ": there is no label in 'y' (task.label); add it, or remove the row"),
    "null": (TYPED, ("b", None), {}, ": there is no label in 'y' (task.label)"),
    "list": (
        TYPED[:1],
        ("b", ["pos"]),
        {},
        ": label ['pos'] is not among 0 to 1, task.labels; for lists",
    ),
    "object": (TYPED[:1], ("b", {"a": 1}), {}, ": label {'a': 1} is not among"),
    "no class number": (KINDS, ("b", "0"), {"labels": ["1", "2", "pos"]}, ": '0'"),
    "not a number": (KINDS, ("b", "nan"), NUMBER, ": expected a number in column 'y' (task.label), got 'nan'"),
    "no number": (KINDS, ("b", "much"), NUMBER, ": expected a number in column 'y' (task.label), got 'much'"),
    "too large": (KINDS, ("b", "1e39"), NUMBER, ": expected a number in column 'y' (task.label), got '1e39'"),
    "with an underscore": (KINDS, ("b", "1_000"), NUMBER, ": expected a number in column 'y' (task.label), got '1_000'"),
    "no text": (TYPED, (None, "neg"), {}, ": expected text in every column (task.fields), got None in 'text'"),
    "empty text": (KINDS, (" ", "neg"), {}, ": the text in 'text' (task.fields) is empty"),
    "NUL": (TYPED, ("b\0c", "neg"), {}, ": there is a NUL byte in 'text' (task.fields)"),
    "half": (
        TYPED[:1],
        ("b\ud83d", "neg"),
        {},
        ": expected text in 'text' (task.fields), got an unpaired surrogate",
    ),
    "half of two": (TYPED[:1], ("b", None), {"fields": ["text+y"]}, ": expected text in every column (task.fields), got None"),
    "one of several": (KINDS, ("b", "pos|odd"), {"kind": TaskKind.multilabel}, ": 'odd'; choices for `task.labels`: neg, pos"),
    "twice": (KINDS, ("a", "pos"), {"item": "text"}, ": the same text 'a' as "),
}


@pytest.mark.parametrize(("case", "kind"), [(case, kind) for case, (kinds, *_) in WRONG.items() for kind in kinds])
def test_a_wrong_row_names_file_row_and_key(place, refused, case, kind):
    _, row, keys, expected = WRONG[case]
    right = ("a", "1") if keys is NUMBER else ("a", "pos")
    assert f"task 'own', train (train.{kind}), {at(kind, 1)}{expected}" in refused(place.file(kind, [right, row]), **keys)


def test_what_is_no_name_is_no_class(place, refused):
    path = place.file("jsonl", [("a", "pos"), ("b", "neg"), ("c", {"a": 1}), ("d", None), ("e", "")])
    assert with_labels(place.config(path, labels=[])).task.labels == ["neg", "pos"]
    path = place.file("parquet", [("a", b"pos"), ("b", b"neg")])
    assert with_labels(place.config(path, labels=[])).task.labels == []
    assert refused(path, labels=[]).endswith("no row has a label in 'y' (task.label), which is a name or number: got b'pos'")
    path = place.file("jsonl", [("a", ["pos"]), ("b", ["neg"])])
    with pytest.raises(InputError, match=r": \['pos'\] in 'y' \(task\.label\) is a list: set task\.kind=multilabel"):
        with_labels(place.config(path, labels=[]))
    path = place.file("jsonl", [(["Ana", "runs"], ["B-PER", None])])
    assert with_labels(place.config(path, kind=TaskKind.tokens, labels=[])).task.labels == ["B-PER"]
    assert "line 1: label None" in refused(path, **TAGS)


@pytest.mark.parametrize(
    ("file", "keys", "expected"),
    [
        ("nowhere.csv", {}, "task.train_file='nowhere.csv' is not a file"),
        ("a.txt", {}, ".csv, .iob, .json, .jsonl, .parquet, .tsv"),
        (None, {}, "task 'own', train: no data: set task.file=reviews.csv, task.train_file or task.dataset"),
        ("a.csv", {"split": "validation"}, "set task.validation_file, or cut it from train: task.train_split='train[:80%]'"),
        ("a.csv", {"validation_file": "a.csv"}, "task.train_file and task.validation_file are both"),
        ("a.csv", {"fields": ["texd"]}, "unknown column of task 'own', train (a.csv): 'texd'; did you mean 'text'?"),
        ("a.csv", {"label": "z"}, "choices for `task.label`: text, y"),
        ("b.csv", {}, "task 'own', train (b.csv): there are no rows"),
    ],
)
def test_a_wrong_key_is_one_line(place, refused, monkeypatch, file, keys, expected):
    monkeypatch.chdir(place.folder)
    for name, content in (("a.txt", b"a"), ("a.csv", b"text,y\na,pos\nb,neg\n"), ("b.csv", b"text,y\n")):
        place.raw(name, content)
    assert expected in refused(file, **keys)


def test_a_folder_with_a_table_is_read_as_a_file_of_the_user(place):
    """No text is missing or a number, a wrong row has its line, and options on the card are kept."""
    (place.folder / "set").mkdir()
    place.raw("set/train.csv", b"text;y\nNA;pos\n007;neg\n")
    assert place.table(None, folder="set").columns == {"text": ["NA", "007"], "y": [1, 0]}
    place.raw("set/train.csv", b"text,y\na,pos\nb\n")
    with pytest.raises(InputError, match=r"train \(train\.csv\), line 3: expected 2 columns, as in the header, got 1"):
        place.table(None, folder="set")
    files = "[{split: train, path: train.csv}]"
    place.raw("set/README.md", f"---\nconfigs:\n- config_name: default\n  data_files: {files}\n  sep: '|'\n---\n".encode())
    place.raw("set/train.csv", b"text|y\na;b|pos\nc|neg\n")
    assert place.table(None, folder="set").columns == {"text": ["a;b", "c"], "y": [1, 0]}


def test_torn_parquet_names_the_file(place, refused):
    path = Path(place.file("parquet", ROWS))
    path.write_bytes(path.read_bytes()[:-20])
    assert f"train (train.parquet): {path} is not a readable parquet file; restore it or change task.train_file" in refused(
        str(path)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_wrong_row_of_a_file_is_said_with_its_place(place, refused, kind):
    rows = [("a", "pos"), ("", "neg"), ("c", "good"), ("d", "neg"), (" ", "bad")]
    said = refused(place.file(kind, rows))
    assert said.startswith("4 mistakes: (1) ")
    for row, expected in [(1, "the text in 'text'"), (2, "'good'"), (4, "the text in 'text'"), (4, "'bad'")]:
        assert f"(train.{kind}), {at(kind, row)}: {expected}" in said


def test_a_text_of_several_lines_is_named_by_its_first_one(place, refused):
    path = place.raw("a.csv", b'text,y\n"one\ntwo",pos\n\n"three\nfour",good\nfive,worse\n')
    assert "(a.csv), line 5: 'good'" in refused(path)
    assert "(a.csv), line 7: 'worse'" in refused(path)


def test_line_of_a_row_is_that_of_the_file_where_a_split_is_a_part_of_it(place, refused):
    path = place.file("csv", [*ROWS, ("a", "good")])
    parts = {"train_split": "train[:50%]", "validation_split": "train[50%:]"}
    config = place.config(path, labels=["good", "neg", "pos"], **parts)
    split = next(split for split in parts if 0 in load_table(config, split.removesuffix("_split")).columns["y"])
    assert "(train.csv), line 7: 'good'" in refused(path, split.removesuffix("_split"), **parts)


def test_many_mistakes_are_counted(place, refused):
    said = refused(place.file("csv", [("a", "good")] * 30))
    assert said.startswith("30 mistakes: (1) ")
    assert "line 21" in said
    assert "line 22" not in said
    assert said.endswith("; and 10 more")


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_are_not_named_are_those_of_train(place, kind):
    config = place.config(place.file(kind, ROWS), labels=[], validation_file=place.file(kind, ROWS[:1], "other"))
    config = with_labels(config)
    assert config.task.labels == ["neg", "pos"]
    assert load_table(config, "validation").columns["y"] == [1]


def test_labels_that_are_whole_numbers_are_in_their_order(place):
    path = place.file("csv", [("a", 10), ("b", 9), ("c", -1), ("d", "B"), ("e", "a")])
    assert with_labels(place.config(path, labels=[])).task.labels == ["-1", "9", "10", "B", "a"]
    assert place.table(path, labels=["-1", "9", "10", "B", "a"]).columns["y"] == [2, 1, 0, 3, 4]


def test_label_of_validation_that_train_lacks_is_refused_in_one_line(place, tmp_path):
    other = place.file("csv", [("a", "neg"), ("b", "odd")], "other")
    config = place.config(place.file("csv", ROWS), validation_file=other, labels=[], scores=["accuracy"], headline="accuracy")
    config.output = str(tmp_path / "out")
    with pytest.raises(InputError) as caught:
        cache.prepare(config)
    assert str(caught.value) == (
        "unknown label of task 'own', validation (other.csv), line 3: 'odd'; choices for `task.labels`: neg, pos"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_spaces_around_a_label_make_no_class(place, kind):
    config = with_labels(place.config(place.file(kind, [("a", " pos"), ("b", "pos "), ("c", "very neg")]), labels=[]))
    assert config.task.labels == ["pos", "very neg"]
    assert load_table(config, "train").columns["y"] == [0, 0, 1]


def test_a_number_is_no_class_of_train_whose_order_nobody_states(place, tmp_path):
    files = (place.file("csv", ROWS), place.file("csv", [("a", "1"), ("b", "0")], "other"))
    config = place.config(files[0], validation_file=files[1], labels=[], scores=["accuracy"], headline="accuracy", item="")
    config.output = str(tmp_path / "out")
    with pytest.raises(InputError, match=r"unknown label of task 'own', validation \(other.csv\), line 2: '1'"):
        cache.prepare(config)


@pytest.mark.parametrize("text", ["['joy', 'awe']", '["joy"]', "[0, 1]"])
def test_lists_are_no_classes(place, text):
    path = place.file("csv", [("a", text), ("b", "[]")])
    with pytest.raises(InputError, match=r"\(task\.label\) is a list: set task\.kind=multilabel"):
        with_labels(place.config(path, labels=[]))


def test_numbers_are_no_classes(place):
    path = place.file("csv", [(f"text {row}", row / 7) for row in range(50)])
    with pytest.raises(InputError, match=r"has 50 labels in 50 rows; for numbers set task\.kind=regression"):
        with_labels(place.config(path, labels=[]))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_text_may_have_any_number_of_labels(place, kind):
    lists = [["joy", "awe"], [], ["awe"]]
    rows = [("abc"[row], " | ".join(names) if kind == "csv" else names) for row, names in enumerate(lists)]
    config = with_labels(place.config(place.file(kind, rows), kind=TaskKind.multilabel, labels=[]))
    assert config.task.labels == ["awe", "joy"]
    assert load_table(config, "train").columns["y"] == [[0, 1], [], [0]]


def test_a_column_that_nobody_named_decides_nothing(place):
    """Ids that repeat, the index of pandas, a column of two types, and a name that the header has twice."""
    rows = [(row // 3, row, "x" * (row > 5) or row, "a", "b", f"text {row}", ("pos", "neg")[row % 2]) for row in range(12)]
    path = place.file("csv", rows, columns=("id", "", "ref", "split", "split", "text", "y"))
    table = load_table(place.config(path, item=""), "train")
    assert (table.items, len(table.columns["text"])) == ([*range(12)], 12)
    twice = place.file("csv", rows, "twice", ("id", "", "ref", "split", "y", "text", "y"))
    with pytest.raises(InputError, match=r"header .* names a column twice"):
        place.table(twice)


@pytest.mark.long
def test_a_type_that_changes_after_many_rows_is_read(place):
    rows = [(row if row < 11_000 else f"x{row}", f"text {row}", ("pos", "neg")[row % 2]) for row in range(12_000)]
    assert len(place.table(place.file("csv", rows, columns=("ref", "text", "y"))).items) == 12_000


@pytest.mark.parametrize("split_seed", [0, 1, None])
def test_parts_of_a_sorted_file_have_its_classes_in_their_shares(place, split_seed):
    path = place.file("csv", [(f"text {row}", "pos" if row < 30 else "neg") for row in range(40)])
    config = place.config(path, train_split="train[:80%]", validation_split="train[80%:]")
    config.data.split_seed = split_seed
    train, validation = (load_table(config, split).columns for split in ("train", "validation"))
    assert not {*train["text"]} & {*validation["text"]}
    counts = [(columns["y"].count(0), columns["y"].count(1)) for columns in (train, validation)]
    if split_seed is None:
        assert counts == [(2, 30), (8, 0)]
    else:
        other = place.config(path, train_split="train[:80%]", validation_split="train[80%:]")
        other.data.split_seed = split_seed + 1
        assert load_table(config, "train").columns == train != load_table(other, "train").columns
        assert counts == [(8, 24), (2, 6)]
        assert train["text"] == sorted(train["text"], key=lambda text: int(text.split()[1]))


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("limit", [2, 16])
def test_few_examples_have_every_class(place, split, limit):
    rows = [(f"text {row}", "pos" if row < 38 else "neg") for row in range(40)]
    config = place.config(place.file("csv", rows), validation_file=place.file("csv", rows, "other"))
    config.data.train_examples = config.data.validation_examples = limit
    assert load_table(config, split).columns["y"].count(0) == 1
    assert len(load_table(config, split).items) == limit


@pytest.mark.parametrize(("labels", "written"), [(["0", "1"], [0.0, 1.0, "1.0", 1]), (["0.0", "1.0"], [0, 1, 1.0, "1"])])
def test_a_whole_number_is_one_label_however_it_is_written(place, labels, written):
    path = place.file("jsonl", [("a", label) for label in written])
    assert place.table(path, labels=labels).columns["y"] == [0, 1, 1, 1]
    assert place.table(path, labels=["no", "yes"]).columns["y"] == [0, 1, 1, 1]


def test_names_of_classes_in_a_parquet_file_of_datasets_are_read(place):
    label = datasets.ClassLabel(names=["pos", "neg"])
    rows = datasets.Dataset.from_dict(
        {"text": ["a", "b"], "y": [1, 0]}, features=datasets.Features({"text": datasets.Value("string"), "y": label})
    )
    rows.to_parquet(place.folder / "a.parquet")
    config = with_labels(place.config(str(place.folder / "a.parquet"), labels=[]))
    assert config.task.labels == ["pos", "neg"]
    assert load_table(config, "train").columns["y"] == [1, 0]


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_not_a_number_is_no_class(place, kind, missing):
    path = place.file(kind, [("a", 0.0), ("b", 1.0), ("c", missing)])
    config = with_labels(place.config(path, labels=[]))
    assert config.task.labels == ["0", "1"]
    with pytest.raises(InputError, match=rf"{at(kind, 2)}: there is no label in 'y' \(task\.label\)"):
        load_table(config, "train")


def test_blanks_around_labels_are_said(place):
    assert place.table(place.file("csv", [("a", "pos "), ("b", "neg")])).notes == [
        "train: blanks around 1 labels in 'y' are left out"
    ]


@pytest.mark.long
def test_scores_of_an_own_task_are_those_of_its_kind(compose):
    def scored(*arguments: str) -> tuple[list[str], str]:
        (run,) = compose("task=own", "task.train_file=a.csv", *arguments)
        return run.task.scores, run.task.headline

    assert scored() == (["accuracy"], "accuracy")
    assert scored("task.kind=multilabel") == (["f1_micro", "f1_macro", "accuracy"], "f1_micro")
    assert scored("task.kind=regression") == (["pearson", "spearman"], "pearson")
    assert scored("task.scores=[f1_macro,accuracy]") == (["f1_macro", "accuracy"], "f1_macro")
    assert scored("task.scores=[f1_macro,accuracy]", "task.headline=accuracy")[1] == "accuracy"


@pytest.mark.long
def test_own_labels_are_part_of_the_run_and_mistakes_of_all_files_end_it_with_2(place, run_harness, tmp_path):
    """The whole command: with the labels of the file, and with wrong rows in both files, before anything runs."""
    train = place.file("csv", ROWS * 8)
    arguments = ["task=own", f"task.train_file={train}", "task.label=y"]
    arguments += ["scale=tiny", "measure=none", "finetune.max_steps=2", "report=false", f"output={tmp_path / 'out'}"]
    other = place.file("csv", ROWS, "other")
    ended = run_harness(*arguments, f"task.validation_file={other}", "finetune.class_weights={pos: 1, neg: 2}")
    assert ended.returncode == 0, ended.stderr
    (folder,) = (path.parent for path in (tmp_path / "out").glob("*/*/result.json"))
    assert OmegaConf.load(folder / "config.yaml").task.labels == ["neg", "pos"]
    assert "class weights: {'neg': 2.0, 'pos': 1.0}" in (folder / "log.txt").read_text()

    wrong = place.file("csv", [("a", "odd"), ("", "neg")], "wrong")
    ended = run_harness(*arguments, f"task.validation_file={wrong}")
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[0] == "harness: 2 mistakes:"
    assert "(1) task 'own', validation (wrong.csv), line 3: the text in 'text'" in ended.stderr
    assert "(2) unknown label of task 'own', validation (wrong.csv), line 2: 'odd'" in ended.stderr
    ended = run_harness(*arguments, f"task.validation_file={other}", "finetune.class_weights={pos: 1, bad: 2}")
    assert ended.returncode == 2
    assert "must have a weight for each label of task 'own': neg, pos" in ended.stderr
