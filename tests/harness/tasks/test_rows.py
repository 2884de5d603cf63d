"""Rows of the benchmarks' tasks: what is there, in which part, and that no row is in two of them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from datasets import ClassLabel, Dataset, Features, Value

from harness.config.choices import DataSource, TaskKind
from harness.config.schema import DataConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.tasks.rows import Table, load_table

GLUE, LABELS, SUPERGLUE = yaml.safe_load(Path(__file__).with_name("rows.yaml").read_text()).values()


@pytest.fixture
def real(compose: Callable, shared_data: Path) -> Callable[..., RunConfig]:
    return lambda name, *more: compose(f"task={name}", "data=local", f"data.root={shared_data}", *more)[0]


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., RunConfig]:
    """A config on splits that are written as parquet files of the data set `set`; each row is its text and its label."""

    def make(splits: dict[str, list[tuple]], **keys: object) -> RunConfig:
        write(
            tmp_path / "set",
            {split: {"text": [a for a, _ in rows], "y": [b for _, b in rows]} for split, rows in splits.items()},
        )
        task = {"name": "made", "folder": "set", "fields": ["text"], "label": "y", "labels": ["no", "yes"]} | keys
        return RunConfig(task=TaskConfig(**task), data=DataConfig(source=DataSource.local, root=str(tmp_path)))

    return make


def write(folder: Path, splits: dict[str, dict[str, list]], subset: str = "", features: Features | None = None) -> None:
    """Splits of one subset, laid out as a repository of the hub."""
    place = folder / subset if subset else folder
    place.mkdir(parents=True, exist_ok=True)
    for split, columns in splits.items():
        Dataset.from_dict(columns, features=features).to_parquet(str(place / f"{split}-00000-of-00001.parquet"))
    files = "".join(f"\n  - {{split: {split}, path: {place.relative_to(folder) / split}-*}}" for split in splits)
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: {subset or 'default'}\n  data_files:{files}\n---\n")


def texts(table: Table) -> list[str]:
    return table.columns["text"]


def numbered(count: int) -> list[tuple[str, int]]:
    return [(f"text {row}", row % 2) for row in range(count)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "split"), [(name, split) for name, counts in GLUE.items() for split in counts])
def test_real_task_has_its_rows_and_classes(real, name, split):
    config = real(name)
    table = load_table(config, split)
    assert list(table.columns) == [*config.task.fields, "label"]
    assert {len(column) for column in (*table.columns.values(), table.items)} == {GLUE[name][split]}
    if f"{name} {split}" in LABELS:
        counts = {config.task.labels[number]: count for number, count in Counter(table.columns["label"]).items()}
        assert counts == LABELS[f"{name} {split}"]
    if split == "test" and name not in ("stsb", "mrpc"):
        assert set(table.columns["label"]) == {-1}


@pytest.mark.parametrize(
    ("name", "split", "expected"),
    [
        ("qnli", "train", "'train'; choices for `task.train_split`: test, validation"),
        ("qqp", "validation", "'validation'; choices for `task.validation_split`: train"),
        ("mnli", "mismatched", "'validation_mismatched'; did you mean 'validation_matched'"),
    ],
)
def test_part_that_the_data_lack_is_named_with_those_there(real, name, split, expected):
    with pytest.raises(InputError) as error:
        load_table(real(name), split)
    assert f"unknown split of task '{name}', {split}: {expected}" in str(error.value)


@pytest.mark.long
def test_missing_train_is_cut_from_the_validation(real):
    """As it is typed in a shell that takes the quotation marks."""
    config = real("qnli", "task.train_split=validation[:80%]", "task.validation_split=validation[80%:]")
    train, validation = (load_table(config, split) for split in ("train", "validation"))
    assert (len(train.items), len(validation.items)) == (4370, 1093)
    assert not set(train.items) & set(validation.items)
    assert config.task.train_split == "validation[:80%]"


@pytest.mark.long
def test_row_ranges_are_slices_too(made):
    config = made({"train": numbered(10)}, train_split="train[:4]", validation_split="train[4:7]", test_split="train[-3:]")
    parts = [texts(load_table(config, split)) for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(text for part in parts for text in part) == [f"text {row}" for row in range(10)]
    config.data.split_seed = None
    assert [texts(load_table(config, split)) for split in ("train", "validation", "test")] == [
        [f"text {row}" for row in rows] for rows in ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))
    ]


@pytest.mark.parametrize(
    ("parts", "keys"),
    [
        ({"train_split": "a[:6]", "validation_split": "a[5:]"}, ["task.train_split='a[:6]'", "task.validation_split='a[5:]'"]),
        ({"train_split": "a", "validation_split": "a"}, ["task.train_split='a'", "task.validation_split='a'"]),
        ({"train_split": "b+a[:50%]", "validation_split": "a[40%:]"}, ["task.train_split='b+a[:50%]'"]),
        ({"train_split": "a", "validation_split": "b", "test_split": "a[:1]"}, ["task.train_split", "task.test_split='a[:1]'"]),
        (
            {"train_split": "a", "validation_split": "b", "more_validation": {"other": "a[9:]"}},
            ["task.more_validation", "'a[9:]'"],
        ),
    ],
)
def test_row_in_two_splits_is_refused_whichever_is_asked_for(made, parts, keys):
    config = made({"a": numbered(10), "b": numbered(10)}, **parts)
    for split in ("train", "validation", *(["test"] if "test_split" in parts else []), *config.task.more_validation):
        with pytest.raises(InputError, match="share rows: separate them") as error:
            load_table(config, split)
        assert all(key in str(error.value) for key in keys)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("part", "expected"),
    [("train[:5", "train[:5"), ("train[5:2]", "there are no rows"), ("train[0:0]", "there are no rows"), ("train[:x]", "x")],
)
def test_part_that_is_no_part_is_one_line(made, part, expected):
    with pytest.raises(InputError) as error:
        load_table(made({"train": numbered(10), "validation": numbered(4)}, train_split=part), "train")
    assert "task.train_split" in str(error.value)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_joined_splits_are_numbered_through(made):
    config = made({"a": numbered(3), "b": numbered(2), "c": numbered(2)}, train_split="a+b", validation_split="c")
    assert load_table(config, "train").items == [0, 1, 2, 3, 4]


def test_split_beside_the_validation_is_loaded_by_its_name(made):
    rows = {"train": numbered(5), "validation": numbered(3), "odd": [("other", 1)]}
    table = load_table(made(rows, more_validation={"mismatched": "odd"}), "mismatched")
    assert (texts(table), table.columns["y"], table.where) == (["other"], [1], "task 'made', mismatched")


def test_split_without_a_key_is_refused(made):
    config = made({"train": numbered(5), "validation": numbered(3)})
    for split, key in (("test", "task.test_split"), ("odd", "task.more_validation")):
        with pytest.raises(InputError, match=f"task 'made' has no split '{split}': set {key}"):
            load_table(config, split)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("boolq", {"question": "question 0", "passage": "passage 0"}),
        ("cb", {"premise": "premise 0", "hypothesis": "hypothesis 0"}),
        ("wic", {"word+sentence1": "word 0: sentence1 0", "sentence2": "sentence2 0"}),
    ],
)
def test_tasks_of_superglue_load_as_the_hub_lays_them_out(compose, tmp_path, name, first):
    words, numbers, names = SUPERGLUE[name]
    features = Features(
        {key: Value("string") for key in words} | {key: Value("int32") for key in numbers} | {"label": ClassLabel(names=names)}
    )

    def columns(rows: int, hidden: bool) -> dict[str, list]:
        made = {key: [f"{key} {row}" for row in range(rows)] for key in words} | {key: [*range(rows)] for key in numbers}
        return made | {"label": [-1 if hidden else row % 2 for row in range(rows)]}

    counts = {"train": 6, "validation": 4, "test": 3}
    splits = {split: columns(rows, split == "test") for split, rows in counts.items()}
    write(tmp_path / "super_glue", splits, name, features)
    (config,) = compose(f"task={name}", "data=local", f"data.root={tmp_path}")
    tables = {split: load_table(config, split) for split in counts}
    assert {split: len(table.items) for split, table in tables.items()} == counts
    assert {field: values[0] for field, values in tables["train"].columns.items()} == first | {"label": 0}
    assert tables["test"].columns["label"] == [-1, -1, -1]


@pytest.mark.long
def test_tuning_rows_are_kept_out_of_train(made):
    rows = {"train": numbered(400), "validation": numbered(4)}
    whole = texts(load_table(made(rows), "train"))
    config = made(rows, tune_share=0.25)
    train, tune = (texts(load_table(config, split)) for split in ("train", "tune"))
    assert 70 < len(tune) < 130
    assert [text for text in whole if text not in set(tune)] == train
    assert load_table(config, "tune").items == [whole.index(text) for text in tune]


@pytest.mark.long
def test_tuning_rows_depend_on_content_and_seed_alone(made):
    rows = numbered(200)
    validation = {"validation": numbered(4)}

    def tuned(rows: list[tuple[str, int]], **keys: object) -> list[str]:
        return sorted(texts(load_table(made({"train": rows} | validation, tune_share=0.3, **keys), "tune")))

    assert tuned(rows) == tuned(rows[::-1])
    assert tuned(rows) != tuned(rows, tune_seed=1)
    assert set(tuned(rows[:100])) <= set(tuned(rows))
    assert tuned(rows + rows) == sorted(tuned(rows) * 2)  # equal texts stay together


@pytest.mark.parametrize(("share", "expected"), [(0.0, "set the share of train"), (1e-9, "there are no rows")])
def test_share_that_gives_no_tuning_rows_is_refused(made, share, expected):
    with pytest.raises(InputError, match=expected) as error:
        load_table(made({"train": numbered(9), "validation": numbered(4)}, tune_share=share), "tune")
    assert "task.tune_share" in str(error.value)


def test_words_and_their_classes_stay_lists(tmp_path):
    write(tmp_path / "set", {"train": {"words": [["a", "b"], ["c"]], "tags": [["O", "B"], ["O"]], "id": ["x", "y"]}})
    task = TaskConfig(
        name="tags", kind=TaskKind.tokens, folder="set", fields=["words"], label="tags", labels=["O", "B"], item="id"
    )
    config = RunConfig(task=task, data=DataConfig(source=DataSource.local, root=str(tmp_path)))
    table = load_table(config, "train")
    assert table.columns == {"words": [["a", "b"], ["c"]], "tags": [[0, 1], [0]]}
    assert table.items == ["x", "y"]
    task.labels = ["O", "P"]
    with pytest.raises(InputError, match=r"row 0: 'B'.*task\.labels"):
        load_table(config, "train")
