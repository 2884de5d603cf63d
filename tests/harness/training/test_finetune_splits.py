"""Splits beside train and validation: what is scored on its own rows, and what is answered for a benchmark."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import in_process
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from numbered_words import config_on, words
from pyarrow import parquet

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.corpus import prepare
from harness.errors import InputError
from harness.study import plan, run_folder
from harness.study.identity import Inputs
from harness.tasks import glue_submission, prepared
from harness.tracking import run_log

CLASSES = ["entailment", "neutral", "contradiction"]
FILES = {"MNLI-m": 12, "MNLI-mm": 9}
ROWS = {
    "train": 40,
    "validation_matched": 20,
    "validation_mismatched": 15,
    "test_matched": FILES["MNLI-m"],
    "test_mismatched": FILES["MNLI-mm"],
}
WORDS = ["yes", "perhaps", "no"]
FEATURES = Features(
    {
        "premise": Value("string"),
        "hypothesis": Value("string"),
        "label": ClassLabel(names=CLASSES),
        "idx": Value("int32"),
    }
)


def label_of(split: str, row: int) -> int:
    """In the mismatched splits all rows have another label than in the matched ones."""
    return (row + split.endswith("_mismatched")) % 3


def columns(split: str, rows: int) -> dict[str, list]:
    labels = [label_of(split, row) for row in range(rows)]
    return {
        "premise": [f"{WORDS[label]} {split.replace('_', ' ')}" for label in labels],
        "hypothesis": [f"{WORDS[label]} row {row}" for row, label in enumerate(labels)],
        "label": [-1] * rows if split.startswith("test") else labels,
        "idx": list(range(rows)),
    }


@pytest.fixture
def mnli(compose: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunConfig]:
    """The entry mnli on a few rows laid out as the hub's, and a benchmark that asks for as few."""
    folder = tmp_path / "root" / "glue"
    (folder / "mnli").mkdir(parents=True)
    for split, rows in ROWS.items():
        Dataset.from_dict(columns(split, rows), features=FEATURES).to_parquet(str(folder / "mnli" / f"{split}-0.parquet"))
    files = "".join(f"\n  - {{split: {split}, path: mnli/{split}-*}}" for split in ROWS)
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: mnli\n  data_files:{files}\n---\n")
    for name, rows in FILES.items():
        monkeypatch.setitem(glue_submission.ROWS, name, rows)
    settings = ["task=mnli", "data=local", "scale=tiny", "measure.enabled=false", "tokenizer.vocab_size=120"]
    settings += ["finetune.epochs=12", "finetune.batch_size=8", "finetune.learning_rate=3e-3"]

    def config(*more: str) -> RunConfig:
        (composed,) = compose(*settings, *more)
        return replace(composed, output=str(tmp_path / "out"), data=replace(composed.data, root=str(tmp_path / "root")))

    return config


def predictions(folder: Path, name: str) -> dict[str, list]:
    return parquet.read_table(folder / name).to_pydict()


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


@pytest.mark.long
def test_mismatched_rows_are_scored_beside_the_matched_ones(mnli, tmp_path):
    values = in_process.ran(mnli("finetune.max_steps=2"), tmp_path / "run")
    assert values["eval/examples"] == ROWS["validation_matched"]
    tables = {
        "eval/accuracy": ("validation_matched", predictions(tmp_path / "run", "predictions.parquet")),
        "eval/accuracy_mismatched": ("validation_mismatched", predictions(tmp_path / "run", "predictions_mismatched.parquet")),
    }
    for metric, (split, table) in tables.items():
        assert table["label"] == [label_of(split, row) for row in range(ROWS[split])]
        assert values[metric] == np.mean(np.array(table["label"]) == np.array(table["prediction"]))
    assert values["eval/score"] == values["eval/accuracy"]
    assert "eval/score_mismatched" not in values


@pytest.mark.long
def test_submission_has_the_rows_and_class_names_of_each_file(mnli, tmp_path):
    """A word of each row tells its class, and is learned."""
    config = mnli("finetune.submit=true")
    assert in_process.ran(config, tmp_path / "run")["eval/accuracy"] == 1
    for file, split in {"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched"}.items():
        header, *rows = lines(tmp_path / "run" / "submission" / f"{file}.tsv")
        assert header == ["index", "prediction"]
        assert rows == [[str(row), CLASSES[label_of(split, row)]] for row in range(FILES[file])]
        assert tmp_path / "run" / "submission" / f"{file}.tsv" in run_log.artifacts(tmp_path / "run")
    assert tmp_path / "run" / "predictions_mismatched.parquet" in run_log.artifacts(tmp_path / "run")


@pytest.mark.long
def test_files_of_an_earlier_attempt_are_removed(mnli, tmp_path):
    config, folder = mnli(), tmp_path / "run"
    (folder / "submission").mkdir(parents=True)
    left = [folder / "submission" / "MNLI-m.tsv", folder / "predictions_mismatched.parquet"]
    for path in left:
        path.write_text("old")
    run_folder.prepare(folder, config, run_folder.new_record(config, Inputs(data="0"), []))
    assert not any(path.exists() for path in left)


@pytest.mark.long
def test_test_splits_are_read_only_where_they_are_answered(mnli):
    assert prepared.split_names(mnli()) == ["train", "validation", "mismatched"]
    assert prepared.split_names(mnli("finetune.submit=true", "task.tune_share=0.2")) == [
        "train", "validation", "tune", "mismatched", "test", "MNLI-mm",
    ]  # fmt: skip


@pytest.mark.long
def test_one_command_prepares_both_where_only_one_submits(mnli):
    planned = plan.plan([mnli(), mnli("finetune.submit=true")])
    splits = {item.config.finetune.submit: sorted(prepared.read(item.config, item.inputs.data).more) for item in planned}
    assert splits == {False: ["mismatched"], True: ["MNLI-mm", "mismatched", "test"]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["task=bag", "data=hub", "finetune.submit=true"],
            "finetune.submit=true needs a task of GLUE: task 'bag' has no task.submission",
        ),
        (
            ["+task.more_validation.misplaced=train"],
            "'misplaced'; did you mean 'mismatched'? choices for `task.more_validation`",
        ),
        (
            ["finetune.submit=true", "task.test_split=test_matched[:9]"],
            "MNLI-m.tsv: expected the rows 0 to 11, each once; the test split has 9",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line_before_any_run(mnli, settings, message):
    config = mnli(*settings)
    with pytest.raises(InputError) as error:
        plan.plan([config])
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(Path(config.output).glob("*/*/run.json"))


@pytest.mark.long
def test_answers_that_are_no_label_are_refused(compose):
    (config,) = compose("task=squad")
    with pytest.raises(InputError, match="needs a classification or regression: task 'squad' is of kind spans"):
        glue_submission.splits(replace(config.task, submission="CoLA"))


def test_overlap_counts_items_where_one_has_several_windows(tmp_path):
    """One of two questions stands on text of the corpus, and only it has many windows."""
    known = words(0, 60)
    contexts = {"train": [known, known], "validation": [known, words(500, 505)]}
    files = {}
    for split, given in contexts.items():
        answers = [{"text": [text.split()[0]], "answer_start": [0]} for text in given]
        rows = [{"question": "w900", "context": c, "answers": a} for c, a in zip(given, answers, strict=True)]
        files[f"{split}_file"] = str(tmp_path / f"{split}.jsonl")
        Path(files[f"{split}_file"]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    keys = {"fields": ["question", "context"], "label": "answers", "scores": ["f1"], "headline": "f1"}
    task = TaskConfig(name="made", kind=TaskKind.spans, max_length=40, stride=2, **keys, **files)
    config = config_on(tmp_path, known, "w1 w2", 1000, task=task)
    inputs = Inputs(data=prepared.prepare(config), corpus=prepare.prepare(config))
    split = prepared.read(config, inputs.data).validation
    assert len(split) > len(split.items) == 2
    assert [len(ids) for ids in split.ids_of_items()] == [split.lengths[:-1].sum(), split.lengths[-1]]
    assert plan._overlap(config, inputs) == 0.5
