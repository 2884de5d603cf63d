"""Data sets of the hub and folders of `save_to_disk`, read by their features with `task.dataset`."""

from dataclasses import replace

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from harness.config.choices import DataSource, TaskKind
from harness.config.schema import DataConfig, RunConfig, TaskConfig
from harness.data import sources
from harness.errors import InputError
from harness.study.plan import plan
from harness.tasks.rows import kind_by_features, load_table, with_labels

FEATURES = Features(
    {
        "text": Value("string"),
        "label": ClassLabel(names=["neg", "pos"]),
        "about": {"film": {"name": Value("string")}, "stars": Value("float32")},
        "topics": List(ClassLabel(names=["plot", "cast", "score"])),
        "words": List(Value("string")),
        "tags": List(ClassLabel(names=["O", "B-film"])),
        "answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))},
    }
)
ROW = {
    "text": "a fine film",
    "label": 1,
    "about": {"film": {"name": "Vertigo"}, "stars": 4.5},
    "topics": [0, 2],
    "words": ["a", "fine", "film"],
    "tags": [0, 0, 1],
    "answers": {"text": ["film"], "answer_start": [7]},
}


@pytest.fixture
def folder(tmp_path):
    """A data set of two splits, as `save_to_disk` writes it."""
    rows = Dataset.from_list([ROW | {"text": f"a fine film {number}"} for number in range(4)], features=FEATURES)
    rows.info.license = "cc0-1.0"
    DatasetDict(train=rows, held_out=rows).save_to_disk(str(tmp_path / "reviews"))
    return tmp_path / "reviews"


def config_of(folder, **keys) -> RunConfig:
    keys = {"fields": ["text"], "validation_split": "held_out", "test_split": "test"} | keys
    return RunConfig(task=TaskConfig(**{"name": "own", "dataset": str(folder)} | keys))


def message_of(config: RunConfig, split: str = "train") -> str:
    with pytest.raises(InputError) as error:
        load_table(with_labels(config), split)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("keys", "column", "labels"),
    [
        ({}, 1, ["neg", "pos"]),
        ({"label": "about.film.name", "labels": ["Psycho", "Vertigo"]}, 1, ["Psycho", "Vertigo"]),
        ({"label": "about.stars", "kind": TaskKind.regression}, 4.5, []),
        ({"label": "topics", "kind": TaskKind.multilabel}, [0, 2], ["plot", "cast", "score"]),
        ({"label": "tags", "kind": TaskKind.tokens, "fields": ["words"]}, [0, 0, 1], ["O", "B-film"]),
        ({"label": "answers", "kind": TaskKind.spans, "fields": ["about.film.name", "text"]}, ROW["answers"], []),
    ],
)
def test_features_give_the_labels_and_their_names(folder, keys, column, labels):
    config = with_labels(config_of(folder, **keys))
    table = load_table(config, "validation")
    assert (table.columns[config.task.label][0], config.task.labels) == (column, labels)
    assert table.origin == "reviews, licence cc0-1.0"


OF_FEATURES = [
    ({"label": "about.stars"}, TaskKind.regression),
    ({"label": "tags", "fields": ["words"]}, TaskKind.tokens),
    ({"label": "answers"}, TaskKind.spans),
    ({"fields": ["text", "words"]}, TaskKind.multiple_choice),
    ({}, None),
    ({"label": "tags"}, None),  # of each word, or of the whole text
    ({"label": "lable"}, None),
    ({"label": "about.stars", "labels": ["4.5"]}, None),
    ({"label": "about.stars", "kind": TaskKind.similarity}, None),
    ({"label": "about.stars", "name": "mine"}, None),  # which its file says
]


@pytest.mark.parametrize(("keys", "kind"), OF_FEATURES)
@pytest.mark.parametrize("form", ["saved", "parquet"])
def test_features_that_leave_no_doubt_say_the_kind(folder, tmp_path, form, keys, kind):
    if form == "parquet":
        rows, folder = datasets.load_from_disk(str(folder))["train"], tmp_path / "layout"
        rows.to_parquet(str(folder / "train.parquet"))
    config = config_of(folder)
    assert kind_by_features(replace(config, task=replace(config.task, **keys))) is kind


@pytest.mark.long
def test_a_kind_that_is_taken_is_said_and_makes_the_run_of_one_that_is_typed(folder, tmp_path, compose):
    words = ("task=own", f"task.dataset={folder}", "task.validation_split=held_out", "task.label=about.stars", "scale=tiny")
    composed = [compose(*words, f"output={tmp_path}", *more) for more in ((), ["task.kind=regression"])]
    (taken,), (typed,) = map(plan, composed)
    assert taken.folder == typed.folder
    assert taken.config.task.headline == "pearson"
    said = f"task 'own' is of kind regression by the features of {folder}; task.kind= says another"
    assert [said in run.notes for run in (taken, typed)] == [True, False]
    assert kind_by_features(compose(*words, "task.kind=classification")[0]) is None


def test_dotted_names_reach_into_structs_lists_and_files(folder, tmp_path):
    table = load_table(with_labels(config_of(folder, fields=["about.film.name+text"])), "train")
    assert table.columns["about.film.name+text"][0] == "Vertigo: a fine film 0"
    assert sources.load(config_of(folder, fields=["answers.text"]), "train").columns["answers.text"][0] == ["film"]
    (tmp_path / "a.jsonl").write_text('{"of": {"text": "x"}, "label": "a"}\n{"of": {"text": "y"}, "label": "b"}\n')
    task = TaskConfig(name="own", train_file=str(tmp_path / "a.jsonl"), fields=["of.text"], labels=["a", "b"])
    assert load_table(RunConfig(task=task), "train").columns["of.text"] == ["x", "y"]


def test_one_split_alone_is_train_and_can_be_cut(folder, tmp_path):
    datasets.load_from_disk(str(folder))["train"].save_to_disk(str(tmp_path / "one"))
    parts = {"train_split": "train[:75%]", "validation_split": "train[75%:]"}
    config = with_labels(config_of(tmp_path / "one", **parts))
    assert [len(load_table(config, split).items) for split in ("train", "validation")] == [3, 1]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"train_split": "trian"}, "unknown split of task 'own', train: 'trian'; did you mean 'train'?"),
        ({"fields": ["about.film.nam"]}, "did you mean 'about.film.name'? choices for `task.fields`: about.film.name,"),
        ({"label": "lable"}, "unknown column of task 'own', train: 'lable'; did you mean 'label'?"),
        ({"label": "tags"}, "column 'tags' (task.label) has lists: set task.kind=tokens for a label of each word"),
        ({"label": "about.stars", "labels": ["a", "b"]}, "label 4.5 is not among 0 to 1"),
        ({"dataset": "no/such/folder"}, "task.dataset='no/such/folder' is neither a folder nor OWNER/NAME"),
        ({"train_file": "a.csv"}, "task.dataset and task.train_file both name the data: leave one out"),
    ],
)
def test_what_does_not_fit_is_one_line(folder, keys, expected):
    keys = {"dataset": str(folder)} | keys
    config = config_of(keys.pop("dataset"), **keys)
    if config.task.label == "about.stars":
        with pytest.raises(InputError, match=expected):
            load_table(config, "train")
    else:
        assert expected in message_of(config)


def test_files_of_a_folder_are_its_own_and_number_classes_alike(tmp_path):
    for name, names in {"train": ["pos", "neg"], "validation": ["neg", "pos"]}.items():
        features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
        Dataset.from_dict({"text": [name], "label": [0]}, features=features).to_parquet(
            str(tmp_path / "set" / f"{name}.parquet")
        )
    config = config_of(tmp_path / "set", validation_split="validation")
    assert "validation.parquet numbers the classes of 'label' as ['neg', 'pos'], another file as ['pos'" in message_of(config)
    (tmp_path / "set/validation.parquet").rename(tmp_path / "private.parquet")
    files = "[{split: train, path: train.parquet}, {split: validation, path: ../private.parquet}]"
    (tmp_path / "set/README.md").write_text(f"---\nconfigs: [{{config_name: default, data_files: {files}}}]\n---\n")
    assert "private.parquet is outside of" in message_of(config)


@pytest.mark.long
def test_a_folder_of_the_hubs_layout_has_its_configuration_and_the_licence_of_its_card(shared_data):
    keys = {"fields": ["sentence1", "sentence2"], "validation_split": "validation"}
    config = with_labels(config_of(shared_data / "glue", subset="wnli", **keys))
    assert config.task.labels == ["not_entailment", "entailment"]
    assert load_table(config, "validation").origin == "glue, configuration wnli, licence other"
    root = DataConfig(source=DataSource.local, root=str(shared_data))
    below = RunConfig(task=TaskConfig(**vars(config.task) | {"dataset": "glue"}), data=root)
    assert load_table(below, "validation").origin == "glue, configuration wnli, licence other"
    with pytest.raises(InputError, match=r"row 0: label -1 is not among 0 to 1, task.labels \(hidden labels\?\)"):
        load_table(
            with_labels(config_of(shared_data / "glue", subset="wnli", **keys | {"validation_split": "test"})), "validation"
        )
    assert "Please pick one among the available configs" in message_of(config_of(shared_data / "glue", **keys))


def test_a_revision_is_asked_for_and_its_hash_recorded(folder, monkeypatch, tmp_path):
    """The hub is replaced by what the library would give for it."""
    asked, rows = {}, datasets.load_from_disk(str(folder))
    (tmp_path / "README.md").write_text("---\nlicense: [mit, apache-2.0]\n---\n")

    class Builder:
        config = type("Config", (), {"name": "plain", "data_files": None})
        info = type(
            "Info", (), {"license": "", "splits": {name: type("Split", (), {"num_examples": len(rows[name])}) for name in rows}}
        )
        hash = "0123abc"

        def download_and_prepare(self):
            """There is nothing to fetch."""

        def as_dataset(self, split):
            return rows[split]

    def builder_of(name, subset, cache_dir, revision):
        asked.update(name=name, subset=subset, cache=cache_dir, revision=revision)
        return Builder()

    def card_of(name, file, repo_type, revision):
        asked.update(card=(name, file, repo_type, revision))
        return str(tmp_path / "README.md")

    monkeypatch.setattr(datasets, "load_dataset_builder", builder_of)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", card_of)
    monkeypatch.setattr(sources, "refuse_unreachable", lambda *_: None)
    table = load_table(with_labels(config_of("someone/reviews@v1.0", subset="plain")), "validation")
    assert table.origin == "someone/reviews@0123abc, configuration plain, licence mit, apache-2.0"
    assert asked == {
        "name": "someone/reviews",
        "subset": "plain",
        "cache": None,
        "revision": "v1.0",
        "card": ("someone/reviews", "README.md", "dataset", "0123abc"),
    }
