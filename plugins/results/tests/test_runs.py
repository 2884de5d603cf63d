"""Runs of a Trainer, MLflow, Weights & Biases, pytest-benchmark and asv: what is read is what they wrote into `fixtures/`."""

import json
import shutil
from pathlib import Path
from statistics import median

import pandas as pd
import pytest

from harness.errors import InputError
from harness.plugins.judge.results import Asked
from harness.plugins.results.benchmarks import ASV, PYTEST_BENCHMARK
from harness.plugins.results.mlflow_runs import MLFLOW
from harness.plugins.results.trainer import TRAINER
from harness.plugins.results.wandb_runs import WANDB
from plugins.results.tests.make_fixtures import log_runs

FIXTURES = Path(__file__).with_name("fixtures")
BY_PATH = {"path": "{arm}/seed{seed}"}


def rows(tool, path, names=("arm", "task", "seed", "metric"), **asked):
    """Names of a row -> its value."""
    return {tuple(row[name] for name in names): row["value"] for row in tool.rows(path, Asked(**asked)).to_dict("records")}


def test_the_last_evaluation_of_a_trainer_counts_from_its_results_or_its_last_checkpoint():
    expected = {}
    for seed in "012":
        results = json.loads((FIXTURES / "trainer" / "narrow" / f"seed{seed}" / "eval_results.json").read_text())
        log = json.loads((FIXTURES / "trainer" / "wide" / f"seed{seed}" / "checkpoint-2" / "trainer_state.json").read_text())
        for arm, evaluation in {"narrow": results, "wide": log["log_history"][-1]}.items():
            expected |= {(arm, "rte", seed, name): evaluation[name] for name in ("eval_accuracy", "eval_loss")}
    assert rows(TRAINER, FIXTURES / "trainer", columns=BY_PATH, task="rte") == expected
    found = TRAINER.rows(FIXTURES / "trainer", Asked(columns=BY_PATH, task="rte", metric="eval_accuracy"))
    assert {*found["metric"]} == {"eval_accuracy"}
    assert found.groupby("arm", observed=True)["items"].max().to_dict() == {
        "narrow": 16,
        "wide": pytest.approx(float("nan"), nan_ok=True),
    }


@pytest.mark.long
@pytest.mark.parametrize("is_database", [False, True])
def test_an_experiment_of_mlflow_has_the_last_step_of_finished_runs(is_database, tmp_path, store_template, capsys):
    store = FIXTURES / "mlflow"
    if is_database:
        from mlflow import MlflowClient

        store = shutil.copy(store_template, tmp_path)
        log_runs(MlflowClient(f"sqlite:///{store}"))
    columns = {"task": "tags.task"}
    glue = rows(MLFLOW, Path(store), columns=columns | {"experiment": "glue"}, metric="eval/accuracy")
    assert glue == {("base", "rte", "1", "eval/accuracy"): 0.8, ("wide", "rte", "1", "eval/accuracy"): 0.85}
    assert capsys.readouterr().err.endswith("left out 1 run that did not finish\n")
    assert len(rows(MLFLOW, Path(store), columns={"task": "experiment"}, metric="eval/accuracy")) == 3
    (missing,) = rows(MLFLOW, Path(store), columns=columns | {"experiment": "glue"}, metric="f1").values()
    both = rows(MLFLOW, Path(store), columns=columns | {"experiment": "glue", "metric": "metrics.f1+metrics.eval/accuracy"})
    assert pd.isna(missing), "NaN is a value, which the judge refuses"
    assert [key for key, value in both.items() if pd.isna(value)] == [("wide", "rte", "1", "f1")]
    with pytest.raises(InputError, match="choices for `columns=experiment`: glue, other"):
        rows(MLFLOW, Path(store), columns=columns, metric="f1")
    with pytest.raises(InputError, match=r"several metrics: expected metric=NAME.* of eval/accuracy, f1$"):
        rows(MLFLOW, Path(store), columns=columns | {"experiment": "glue"})


@pytest.mark.long
def test_a_log_of_wandb_has_config_and_last_summary_of_finished_runs(capsys):
    asked = {"columns": {"task": "config.data.task"}}
    expected = {
        (arm, "rte", seed): score + int(seed) / 100 for arm, score in {"base": 0.8, "wide": 0.85}.items() for seed in "01"
    }
    assert rows(WANDB, FIXTURES / "wandb", ("arm", "task", "seed"), metric="eval/accuracy", **asked) == pytest.approx(expected)
    assert capsys.readouterr().err.endswith("left out 2 runs that did not finish\n")
    assert {*rows(WANDB, FIXTURES / "wandb", metric="nested.loss", **asked).values()} == {1.5}
    assert all(map(pd.isna, rows(WANDB, FIXTURES / "wandb", metric="eval/f1", **asked).values()))
    with pytest.raises(InputError, match=r"several metrics.*of eval/accuracy, eval/f1, nested.loss$"):
        rows(WANDB, FIXTURES / "wandb", **asked)


def test_a_session_of_pytest_benchmark_is_a_seed_and_a_test_or_a_parameter_an_arm():
    sessions = {file.stem: json.loads(file.read_text()) for file in (FIXTURES / "pytest_benchmark").iterdir()}
    expected = {
        (test["name"], "test_sorting.py", name, "s", "lower"): median(test["stats"]["data"])
        for name, session in sessions.items()
        for test in session["benchmarks"]
    }
    names = ("arm", "task", "seed", "unit", "direction")
    assert rows(PYTEST_BENCHMARK, FIXTURES / "pytest_benchmark", names) == expected
    by_parameter = {
        (way, f"test_sort(size={size})", name, "s", "lower"): expected[
            f"test_sort[{way}-{size}]", "test_sorting.py", name, "s", "lower"
        ]
        for way in ("sort", "sorted")
        for size in (100, 1000)
        for name in sessions
    }
    assert rows(PYTEST_BENCHMARK, FIXTURES / "pytest_benchmark", names, columns={"arm": "params.way"}) == by_parameter


def test_asv_has_a_row_a_benchmark_and_commit_and_none_for_what_failed():
    names, sort = ("arm", "task", "metric", "unit"), "sorting.Sorting.time_sort"
    expected = {}
    for file in (FIXTURES / "asv" / "results" / "box").glob("*-*.json"):
        results, commit = json.loads(file.read_text())["results"], file.name[:8]
        times = zip(("size=100, way=sorted", "size=100, way=sort", "size=1000, way=sorted"), results[sort][0], strict=False)
        expected |= {(commit, f"{sort}({case})", "time", "s"): time for case, time in times}
        expected[commit, "sorting.peakmem_list", "peakmemory", "bytes"] = results["sorting.peakmem_list"][0][0]
        expected[commit, "sorting.track_length", "sorting.track_length", "steps"] = 3.0
    assert rows(ASV, FIXTURES / "asv", names) == expected
    ways = rows(ASV, FIXTURES / "asv", ("arm", "task"), columns={"arm": "params.way", "seed": "commit"}, metric="time")
    assert {*ways} == {(way, f"{sort}(size={size})") for way, size in (("sorted", 100), ("sorted", 1000), ("sort", 100))}


ALL = {TRAINER: "trainer", MLFLOW: "mlflow", WANDB: "wandb", PYTEST_BENCHMARK: "pytest_benchmark", ASV: "asv"}
READ = {
    TRAINER: "eval_results.json",
    MLFLOW: "accuracy",
    WANDB: "*.wandb",
    PYTEST_BENCHMARK: "one.json",
    ASV: "*-existing*.json",
}
BROKEN = {
    TRAINER: [b"", b'{"eval_accuracy"', b"[]", b"[" * 100_000, b'{"eval_accuracy": 1' + b"0" * 5000 + b"}"],
    MLFLOW: [b"1 x 1", b"1", b"\xff", b"1 0.5 1.5"],
    WANDB: [b":W&B", b":W&B\xee\xbe\x00" + b"\x00" * 9],
    PYTEST_BENCHMARK: [
        b'{"machine_info"',
        b'{"machine_info": 1}',
        b'{"machine_info": 1, "benchmarks": [{"stats": 1}], "commit_info": {}}',
    ],
    ASV: [b'{"commit_hash"', b'{"commit_hash": 1}', b'{"commit_hash": "a", "env_name": 1, "results": [], "result_columns": 1}'],
}
"""Content of a file that its tool has not written."""


@pytest.mark.parametrize("tool", ALL, ids=ALL.get)
def test_a_folder_of_another_tool_is_none_and_a_link_is_not_followed(tool, tmp_path):
    for other in ALL:
        assert other is tool or tool.rows(FIXTURES / ALL[other], Asked()) is None
    (tmp_path / "link").symlink_to(FIXTURES / ALL[tool])
    (tmp_path / "optuna.db").write_bytes(b"SQLite format 3\0")
    assert tool.rows(tmp_path, Asked()) is None


OF_BROKEN = [
    pytest.param(tool, content, marks=[pytest.mark.long] * (tool is WANDB))  # to import wandb takes seconds
    for tool, of in BROKEN.items()
    for content in of
]


@pytest.mark.parametrize(("tool", "content"), OF_BROKEN)
def test_a_broken_file_is_one_line(tool, content, tmp_path):
    shutil.copytree(FIXTURES / ALL[tool], tmp_path / "x")
    for file in (tmp_path / "x").rglob(READ[tool]):
        file.write_bytes(content)
    with pytest.raises(InputError) as error:
        tool.rows(
            tmp_path / "x",
            Asked(metric="eval/accuracy", columns={"experiment": "glue"} if tool is MLFLOW else {}, arm="a", task="t"),
        )
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 600
