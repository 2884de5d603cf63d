"""One file of the user as both splits of a task: its columns, its cut, and what is said of both."""

import json
from pathlib import Path

import pytest

from harness.config.schema import DataConfig, RunConfig, TaskConfig
from harness.data import one_file
from harness.errors import InputError
from harness.tasks.rows import load_table

ROWS = [
    (str(row), f"a {'fine' if row % 4 else 'dull'} film, number {row % 30}", "pos" if row % 4 else "neg") for row in range(50)
]


@pytest.fixture
def table(tmp_path: Path):
    """Writes rows of text below a head; the config of the task on this file."""

    def written(head: str, rows: list[tuple[str, ...]] = ROWS, between: str = ",", **keys: object) -> RunConfig:
        lines = [head, *(between.join(f'"{value}"' for value in row) for row in rows)]
        path = tmp_path / "reviews.csv"
        path.write_text("\r\n".join(lines), encoding="utf-8-sig")
        task = TaskConfig(**{"name": "own", "fields": ["text"], "item": "", "file": str(path)} | keys)
        return RunConfig(task=task, data=DataConfig(split_seed=0))

    return written


@pytest.mark.parametrize(
    ("head", "rows", "between", "fields", "label", "unread"),
    [
        ("id;review;sentiment", ROWS, ";", "review", "sentiment", ["id"]),  # by name, with another separator
        ("id\tText\tlabel", ROWS, "\t", "Text", "label", ["id"]),
        ("a,b,c", ROWS, ",", "b", "c", ["a"]),  # by what they hold
        ("text,kind,label", [(words, number, name) for number, words, name in ROWS], ",", "text", "label", ["kind"]),
        (
            "headline,body,same",
            [(f"news of {number}", words, name) for number, words, name in ROWS],
            ",",
            "body",
            "same",
            ["headline"],
        ),
    ],
)
def test_columns_of_text_and_label_are_found(table, head, rows, between, fields, label, unread):
    task = one_file.with_splits(table(head, rows, between))
    assert (task.fields, task.label) == ([fields], label)
    assert (task.train_file, task.train_split, task.validation_split) == (task.file, "train[:80%]", "train[80%:]")
    assert one_file.with_splits(RunConfig(task=task)) == task
    assert one_file.unread(task) == unread


PAIRS = [("a man walks here", "a person moves now", str(row % 2), "abc"[row % 3]) for row in range(20)]


@pytest.mark.parametrize(
    ("head", "keys", "says"),
    [
        ("premise,hypothesis,label,kind", {}, "which column is the text? Set 'task.fields=[NAME]', one of premise, hypothesis"),
        ("text,other,kind,lang", {}, "which column is the label? Set task.label, one of kind, lang"),
        ("question,sentence,label,kind", {}, "which column is the text? Set 'task.fields=[NAME]', one of question, sentence"),
        ("text,other,topic,sentiment", {}, "which column is the label? Set task.label, one of topic, sentiment"),
        ("text,other,kind,lang", {"label": "kind", "train_file": "b.csv"}, "task.file and task.train_file both name the data"),
        ("text,other,kind,lang", {"label": "kind", "dataset": "d"}, "task.file and task.dataset both name the data"),
        ("text,other,kind,lang", {"file": "none.csv"}, "task.file='none.csv' is not a file"),
    ],
)
def test_a_doubt_is_one_line_with_the_choices(table, head, keys, says):
    with pytest.raises(InputError) as error:
        one_file.with_splits(table(head, PAIRS, **keys))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "first"), [("Split", "1"), ("part", "Train"), ("fold", " validation")])
def test_a_column_of_splits_is_refused_unless_the_cut_is_stated(table, name, first):
    rows = [(words, label, first if number < "40" else "test") for number, words, label in ROWS]
    with pytest.raises(InputError, match=rf"the column '{name}' says which rows train: expected a file for each split"):
        one_file.with_splits(table(f"text,label,{name}", rows))
    cut = {"train_split": "train[:50%]", "validation_split": "train[50%:]"}
    assert one_file.with_splits(table(f"text,label,{name}", rows, **cut)).train_split == "train[:50%]"


def test_a_first_row_in_place_of_names_is_refused_and_names_that_are_labels_are_not(table):
    with pytest.raises(InputError, match="'neg' of the first line is a label, too: begin with a line of column names"):
        one_file.with_splits(table("7,a dull film,neg", ROWS))
    assert one_file.with_splits(table("7,text,neg", ROWS, label="neg")).label == "neg"
    yes = [(number, text, "y" if name == "pos" else "n") for number, text, name in ROWS]
    assert one_file.with_splits(table("id,text,y", yes)).label == "y"


@pytest.mark.parametrize("field", ["text.words", "title+body"])
def test_a_text_in_several_columns_or_inside_of_one_is_cut_into_both_splits(tmp_path, field):
    rows = [{"text": {"words": text}, "title": text, "body": "b", "label": name} for _, text, name in ROWS]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    task = TaskConfig(name="own", fields=[field], item="", file=str(path), labels=["neg", "pos"])
    config = RunConfig(task=task, data=DataConfig(split_seed=0))
    config.task = one_file.with_splits(config)
    read = {"text.words": "text", "title+body": "title"}[field]
    assert read not in one_file.unread(config.task)
    counts = [len(load_table(config, split).columns["label"]) for split in ("train", "validation")]
    assert sum(counts) == len(ROWS)
    assert min(counts) > 4


def test_a_column_that_is_named_is_not_guessed(table):
    task = one_file.with_splits(table("id,review,sentiment", fields=["reviw"], label="sentimant"))
    assert (task.fields, task.label) == (["reviw"], "sentimant")


def test_equal_texts_are_on_one_side_and_classes_in_their_shares(table):
    config = table(
        "id,review,sentiment", [(number, words.upper() if int(number) > 29 else words, name) for number, words, name in ROWS]
    )
    config.task = one_file.with_splits(config)
    config.task.labels = ["neg", "pos"]
    train, validation = (load_table(config, split).columns for split in ("train", "validation"))
    assert not {*map(str.casefold, train["review"])} & {*map(str.casefold, validation["review"])}
    assert len(train["review"]) + len(validation["review"]) == len(ROWS)
    assert 5 <= len(validation["review"]) <= 15
    assert {*validation["sentiment"]} == {0, 1}


def test_a_fifth_of_the_texts_is_kept_apart_however_often_each_stands_there(table):
    config = table("id,review,sentiment", [row for row in ROWS[:30] for _ in range(5)])
    config.task = one_file.with_splits(config)
    config.task.labels = ["neg", "pos"]
    assert [len(load_table(config, split).items) for split in ("train", "validation")] == [120, 30]


@pytest.mark.long
def test_the_command_says_what_it_reads_and_proposes_published_weights(table, run_harness, tmp_path):
    path = table("id,review,sentiment").task.file
    done = run_harness(
        "task=own", f"task.file={path}", "scale=tiny", "measure=none", "finetune.max_steps=2", f"output={tmp_path}"
    )
    assert done.returncode == 0, done.stderr
    assert "review is read as text, sentiment as the label of" in done.stdout
    assert "(not read: id)" in done.stdout
    assert "(stratified by label, data.split_seed=0)" in done.stdout
    assert "rows to train random weights on: add model=minilm to start from pretrained weights" in done.stdout
    assert "optimizer steps" not in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(("epochs", "steps"), [(2, 4), (20, 40), (60, None)])
def test_the_plan_proposes_more_epochs_for_few_steps(table, run_harness, tmp_path, epochs, steps):
    path = table("id,review,sentiment").task.file
    done = run_harness("plan", "task=own", f"task.file={path}", "scale=tiny", f"finetune.epochs={epochs}", f"output={tmp_path}")
    assert done.returncode == 0, done.stderr
    proposed = f"only {steps} optimizer steps: set more epochs, such as finetune.epochs=20"
    assert (proposed in " ".join(done.stdout.split())) == (steps is not None)
