"""`python -m reports judge` and `gate` on files, and `reports.judge` on a data frame."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from harness import __main__ as harness_main
from harness import reports
from harness.reports.__main__ import main
from harness.reports.writing import tables

ROOT = Path(__file__).resolve().parents[3]


def table(arms: dict[str, float], seeds: int = 5, tasks: tuple[str, ...] = ("rte", "mrpc"), **columns: object) -> pd.DataFrame:
    """Arms by their mean score, with little scatter, and a latency that all share."""
    rng = np.random.default_rng(len(arms) == 1)
    rows = [
        (arm, task, seed, mean + rng.normal(0, 0.003)) for arm, mean in arms.items() for task in tasks for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["arm", "task", "seed", "accuracy"]).assign(**columns)


@pytest.fixture
def write(tmp_path):
    def write(rows: pd.DataFrame, name: str = "results.csv") -> Path:
        rows.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


def test_the_table_and_the_answer_are_printed(write, capsys):
    path = write(table({"base": 0.7, "big": 0.75, "alike": 0.7}))
    assert main(["judge", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("results.csv\n3 arms, 2 tasks, 5 seeds, paired by seed.\n")
    assert "Score, mean of 2 tasks: big (+4.8 points) is better than base; alike" in " ".join(printed.split())


def test_tasks_of_several_seeds_and_of_single_values_have_a_table_each(write, capsys):
    single = table({"base": 0.6, "big": 0.6}, seeds=1, tasks=("cola",)).assign(seed="")
    path = write(pd.concat([table({"base": 0.7, "big": 0.75}), single]))
    assert main(["judge", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 arms, 3 tasks, 5 seeds, paired by seed (rte, mrpc), one value per arm, which no test can judge (cola)." in printed
    assert "On rte, mrpc: " in printed
    assert "Score, mean of 2 tasks: big (+4.8 points) is better than base" in printed
    assert "On cola: " in printed
    assert "Score: big" in printed[printed.index("On cola: ") :]


@pytest.mark.long
def test_a_report_is_written_in_all_formats(write, tmp_path):
    path = write(table({"base": 0.7, "big": 0.75}))
    formats = "md,html,csv,latex,parquet,comment"
    assert main(["judge", str(path), f"to={tmp_path / 'out'}", f"format={formats}", "--all-pairs"]) == 0
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"report.md", "report.html", "summary.csv", "report.tex", "summary.parquet", "comment.md"} <= names
    lines = (tmp_path / "out" / "comment.md").read_text().splitlines()
    assert len(lines) <= 30
    assert lines[:3] == ["### results.csv", "", "2 arms, 2 tasks, 5 seeds, paired by seed."]


@pytest.mark.long
@pytest.mark.parametrize(("count", "line"), [(40, "and 32 more arms"), (9, "and 1 more arm")])
def test_a_comment_of_many_arms_has_at_most_30_lines(count, line, write, tmp_path):
    path = write(table({f"arm{number}": 0.7 + number / 1000 for number in range(count)}, seeds=3))
    assert main(["judge", str(path), "baseline=arm0", f"to={tmp_path / 'out'}", "format=comment"]) == 0
    lines = (tmp_path / "out" / "comment.md").read_text().splitlines()
    assert len(lines) <= 30
    assert line in lines


@pytest.mark.long
def test_several_scores_are_judged_one_by_one_and_costs_with_the_first(write, capsys):
    rows = table({"base": 0.7, "big": 0.75})
    scores = [rows.rename(columns={"accuracy": "value"}).assign(metric=name, unit="share") for name in ("f1", "acc")]
    times = scores[0].assign(metric="latency", unit="ms", value=lambda of: 10 * of["value"])
    path = write(pd.concat([*scores, times]))
    assert main(["judge", str(path)]) == 0
    first, second = capsys.readouterr().out.split("results.csv: acc\n")
    assert "results.csv: f1" in first
    assert ("latency, ms" in first, "latency" in second) == (True, False)
    assert main(["judge", str(path), "metric=acc"]) == 0
    assert "f1" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["judge"], "PATH... is missing: expected files and folders of results"),
        (["judge", "absent.csv"], "'absent.csv' does not exist: expected a file or folder of results"),
        (["judge", "{}", "baseline=bse"], "unknown baseline 'bse'; did you mean 'base'?"),
        (["judge", "{}", "metric=f1"], "unknown metric 'f1'"),
        (["judge", "{}", "columns=arm"], "columns='arm': expected NAME=COLUMN"),
        (["judge", "{}", "unit=percent"], "looks like a share, and its unit is percent"),
        (["judge", "{}", "format=pd"], "unknown format 'pd'"),
        (["gate", "{}", "study=s", "max_drop=1%"], "gate needs study=NEW or RESULTS, not both"),
        (["gate", "{}", "baseline=base", "max_memory=5%"], "these results have no metric in bytes for the limit 5%"),
        (["gate", "{}", "baseline=base", "max_drop=99%", "max_cost=1%"], "have no model/flops_forward for the limit 1%"),
    ],
    ids=str,
)
def test_a_wrong_input_is_one_line(words, said, write, capsys):
    path = write(table({"base": 0.7, "big": 0.75}))
    assert main([word.format(path) for word in words]) == 2
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1


@pytest.mark.long
def test_a_gate_holds_candidates_against_the_only_arm_of_another_file(write, tmp_path, capsys):
    new, old = write(table({"same": 0.7, "bad": 0.6}), "new.csv"), write(table({"base": 0.7}), "old.csv")
    ledger = tmp_path / "loop.jsonl"
    words = ["gate", str(new), "--against", str(old), "--max-drop", "3points", "--ledger", str(ledger), "--json"]
    assert main([*words, "--looks", "4"]) == 1
    of_arm = {one["arm"]: one for one in json.loads(capsys.readouterr().out)["candidates"]}
    assert {arm: one["verdict"] for arm, one in of_arm.items()} == {"same": "same", "bad": "worse"}
    assert main(words) == 1
    assert all(one["seen"] for one in json.loads(capsys.readouterr().out)["candidates"])
    write(table({"same": 0.701, "bad": 0.6}), "new.csv")  # the same names, and another run
    main(words)
    assert not json.loads(capsys.readouterr().out)["candidates"][0]["seen"]


@pytest.mark.long
def test_a_gate_limits_times_of_other_tools(write, capsys):
    rows = table({"base": 0.7, "slow": 0.7}).rename(columns={"accuracy": "value"}).assign(metric="accuracy", unit="share")
    slower = rows.assign(metric="latency", unit="ms", value=rows["value"] * np.where(rows["arm"] == "slow", 12, 10))
    path = write(pd.concat([rows, slower]))
    assert main(["gate", str(path), "baseline=base", "max_drop=2points"]) == 0
    assert main(["gate", str(path), "baseline=base", "max_drop=2points", "max_slowdown=5%"]) == 1
    assert "worse by more than 5 %: slow in latency on rte and mrpc." in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_a_file_of_results_is_read_where_a_store_is(write, capsys):
    path = write(table({"base": 0.7, "big": 0.75}))
    assert main([f"tracking.uri={path}", f"to={path.parent / 'out'}"]) == 0
    assert "big (+4.8 points) is **better**" in (path.parent / "out" / "report.md").read_text()


@pytest.mark.long
def test_tasks_with_a_score_each_have_a_mean_that_is_said_to_mix_them(write, capsys):
    rows = table({"base": 0.7, "big": 0.75}, tasks=("rte", "cola")).rename(columns={"accuracy": "value"})
    path = write(rows.assign(metric=rows["task"].map({"rte": "accuracy", "cola": "mcc"})))
    assert main(["judge", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Tasks have different scores, which a mean over tasks mixes: accuracy on rte, mcc on cola." in printed
    assert "Score, mean of 2 tasks: big" in printed
    assert main(["gate", str(path), "baseline=base", "max_drop=1points"]) == 0


def test_what_files_do_not_say_is_said_to_a_gate_and_a_plan(write, capsys):
    rows = table({"base": 10.0, "slow": 12.0}, tasks=("t",)).rename(columns={"accuracy": "latency"}).drop(columns="task")
    path = str(write(rows))
    said = ["task=t", "unit=ms"]
    assert main(["gate", path, "baseline=base", "max_slowdown=5%", *said]) == 1
    assert "t     slow  latency" in capsys.readouterr().out
    path = str(write(rows.rename(columns={"latency": "score"})))
    assert main(["power", f"pilot={path}", "task=t", "unit=percent", "direction=higher"]) == 0
    assert "from 1 pair of arms" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(("file", "before"), [("github.yml", "before/results.csv"), ("gitlab.yml", "before.csv")])
def test_the_examples_for_pull_requests_comment_and_gate(file, before, write, tmp_path, monkeypatch):
    """What they call of this tool works; a worse arm ends the job, after its comment."""
    example = yaml.safe_load((ROOT / "docs" / "judge" / file).read_text())
    steps = example["jobs"]["judge"]["steps"] if "jobs" in example else [{"run": line} for line in example["judge"]["script"]]
    calls = [shlex.split(step["run"])[1:] for step in steps if step.get("run", "").startswith("harness report")]
    (tmp_path / "before").mkdir()
    write(table({"base": 0.7}), before)
    monkeypatch.chdir(tmp_path)
    for worse, code in ((0.0, 0), (0.05, 1)):
        write(table({"base": 0.7 - worse, "unused": 0.7}))
        assert [harness_main.main(words) for words in calls] == [0, code]
        assert "### results.csv" in (tmp_path / "out" / "comment.md").read_text()


@pytest.mark.long
def test_an_archive_of_this_tool_is_judged_by_what_it_states(capsys):
    path = str(ROOT / "reports" / "examples" / "objectives")
    assert main(["judge", path, "baseline=base+mlm"]) == 0
    assert "from mlm: " in " ".join(capsys.readouterr().out.split())
    for option in ("--unpaired", "metric=accuracy", "columns=arm=model"):
        assert main(["judge", path, option]) == 2
        assert "has no effect on a store of this tool" in capsys.readouterr().err


def test_a_metric_is_one_column_of_the_table_of_a_task():
    rows = table({"base": 0.7, "big": 0.75}).rename(columns={"accuracy": "value"}).assign(metric="accuracy", unit="share")
    times = rows.assign(metric="latency", unit="ms")
    (comparison,) = reports.judge(pd.concat([rows, times])).comparisons
    assert tables.columns(comparison.sections[0]) == ["eval/score", "results/latency (ms, lower)"]


def test_a_row_of_the_table_has_the_score_of_its_task():
    rows = table({"base": 0.7, "big": 0.75}, tasks=("rte", "cola")).rename(columns={"accuracy": "value"})
    rows["metric"] = np.where(rows["task"] == "rte", "accuracy", "mcc")
    found = reports.judge(rows).table
    of_task = {task: {*of["metric"]} for task, of in found.groupby("task")}
    assert of_task == {"rte": {"accuracy"}, "cola": {"Matthews correlation"}, "mean of 2 tasks": {"score"}}


def test_a_data_frame_is_judged():
    rows = table({"base": 0.7, "big": 0.75}).rename(columns={"accuracy": "value"})
    verdicts = reports.judge(rows, baseline="base", metric="accuracy")
    found = verdicts.table.set_index(["task", "arm"])
    assert found.loc[("mean of 2 tasks", "big"), "verdict"] == found.loc[("rte", "big"), "verdict"] == "better"
    assert found.loc[("rte", "big"), ["metric", "unit"]].tolist() == ["accuracy", "share"]
    assert "big (+4.8 points) is better" in " ".join(str(verdicts).split())
