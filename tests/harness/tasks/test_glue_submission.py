"""Answers are written as GLUE's page takes them."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from harness.config.schema import TaskConfig
from harness.errors import InputError
from harness.paths import conf_directory
from harness.tasks import glue_submission
from harness.tasks.rows import load_table

ENTRIES = {
    "cola": ["CoLA"],
    "sst2": ["SST-2"],
    "mrpc": ["MRPC"],
    "qqp": ["QQP"],
    "stsb": ["STS-B"],
    "mnli": ["MNLI-m", "MNLI-mm"],
    "qnli": ["QNLI"],
    "rte": ["RTE"],
    "wnli": ["WNLI"],
}


@pytest.fixture
def task(compose: Callable) -> Callable[[str], TaskConfig]:
    return lambda name: compose(f"task={name}")[0].task


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def answered(folder: Path, task: TaskConfig, value: float, name: str | None = None) -> Path:
    """A file with the same answer everywhere."""
    count = glue_submission.ROWS[name or task.submission]
    return glue_submission.write(folder, task, range(count), [value] * count, name)


@pytest.mark.long
def test_every_task_of_glue_has_its_files(task):
    assert {name: list(glue_submission.splits(task(name))) for name in ENTRIES} == ENTRIES
    assert set(OmegaConf.load(conf_directory() / "task" / "glue.yaml").members) == set(ENTRIES)
    assert sorted(glue_submission.ROWS) == sorted(name for names in ENTRIES.values() for name in names)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cola", 1, "1"),
        ("sst2", 0, "0"),
        ("mrpc", 1, "1"),
        ("wnli", 1, "1"),
        ("qnli", 1, "not_entailment"),
        ("rte", 0, "entailment"),
        ("mnli", 1, "neutral"),
        ("mnli", 2, "contradiction"),
        ("stsb", 2.34567, "2.346"),
        ("stsb", -0.3, "0.000"),
        ("stsb", 5.2, "5.000"),
    ],
)
def test_answer_is_written_as_the_file_wants_it(task, tmp_path, name, value, text):
    config = task(name)
    path = answered(tmp_path, config, value)
    assert path == tmp_path / "submission" / f"{ENTRIES[name][0]}.tsv"
    header, *rows = lines(path)
    assert header == ["index", "prediction"]
    assert rows == [[str(row), text] for row in range(glue_submission.ROWS[config.submission])]


def test_rows_stand_in_the_order_of_their_ids(task, tmp_path):
    items = list(range(146))
    random.Random(0).shuffle(items)
    path = glue_submission.write(tmp_path, task("wnli"), items, [item % 2 for item in items])
    assert lines(path)[1:] == [[str(row), str(row % 2)] for row in range(146)]


def test_mismatched_genres_have_a_file_of_their_own(task, tmp_path):
    assert glue_submission.splits(task("mnli")) == {"MNLI-m": "test", "MNLI-mm": "MNLI-mm"}
    path = answered(tmp_path, task("mnli"), 0, "MNLI-mm")
    assert path.name == "MNLI-mm.tsv"
    assert len(lines(path)) == 9848


@pytest.mark.parametrize("items", [range(145), range(1, 147), [0] * 146, []])
def test_other_rows_than_the_benchmarks_are_refused(task, tmp_path, items):
    with pytest.raises(InputError, match=r"WNLI\.tsv: expected the rows 0 to 145, each once; the test split has"):
        glue_submission.write(tmp_path, task("wnli"), items, [0] * len(items))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_task_of_no_benchmark_is_refused(task):
    with pytest.raises(InputError, match=r"needs a task of GLUE: task 'boolq' has no task\.submission"):
        glue_submission.splits(task("boolq"))


def test_unknown_file_names_the_nearest(task):
    config = task("cola")
    config.submission = "MNLI"
    with pytest.raises(InputError, match="did you mean 'MNLI-m'"):
        glue_submission.splits(config)


@pytest.mark.long
@pytest.mark.parametrize("name", ["cola", "sst2", "mrpc", "stsb", "rte", "wnli", "qnli"])
def test_test_split_has_the_rows_of_the_file(compose, shared_data, tmp_path, name):
    (config,) = compose(f"task={name}", "data=local", f"data.root={shared_data}")
    for file, split in glue_submission.splits(config.task).items():
        table = load_table(config, split)
        path = glue_submission.write(tmp_path, config.task, table.items, [0] * len(table.items), file)
        assert len(lines(path)) == glue_submission.ROWS[file] + 1
