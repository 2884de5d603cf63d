"""The command that runs a row again."""

import json
import shlex

from reports.chapters import reproduce
from reports.comparison.compare import compare
from reports.comparison.study import Study


def commands(runs: list) -> dict[str, list[str]]:
    """Arm -> words of its command."""
    chapter = reproduce.chapter(Study(compare("s", runs)))
    rows = [line.strip("| ").split(" | ") for line in chapter.paragraphs[2].splitlines()[2:]]
    return {arm: shlex.split(command.strip("`")) for arm, command in rows}


def test_one_command_for_all_tasks_and_seeds_of_an_arm(make_run):
    said = {"base": ["scale=tiny", "model=base"], "new": ["scale=tiny", "model=albert", "hardware.dtype=bf16"]}
    runs = [
        make_run(arm, seed, task=task, overrides=json.dumps([*overrides, f"task={task}"]))
        for arm, overrides in said.items()
        for task in ("sst2", "cola")
        for seed in (10, 9)
    ]
    assert commands(runs) == {
        "base": ["python", "-m", "harness", "-m", "scale=tiny", "model=base", "task=sst2,cola", "seed=9,10"],
        "new": [
            *[
                "python",
                "-m",
                "harness",
                "-m",
                "scale=tiny",
                "model=albert",
                "hardware.dtype=bf16",
                "task=sst2,cola",
                "seed=9,10",
            ]
        ],
    }


def test_a_single_run_is_no_sweep_and_odd_values_are_quoted(make_run):
    overrides = ["task.train_file=my data|a.csv", "task=own"]
    (words,) = commands([make_run(task="own", overrides=json.dumps(overrides))]).values()
    assert words == ["python", "-m", "harness", r"task.train_file=my data\|a.csv", "task=own", "seed=0"]


def test_seeds_of_pretraining_are_said_where_they_are_not_those_of_the_run(make_run):
    runs = [make_run("base", seed, pretrain_seed="7", overrides='["pretrain=mlm"]') for seed in (0, 1)]
    assert commands(runs)["base"][-2:] == ["seed=0,1", "pretrain.seed=7"]
    alike = [make_run("base", seed, pretrain_seed=str(seed), overrides='["pretrain=mlm"]') for seed in (0, 1)]
    assert commands(alike)["base"][-1] == "seed=0,1"


def test_runs_that_do_not_say_their_command_have_no_row(make_run):
    assert reproduce.chapter(Study(compare("s", [make_run(), make_run("b", overrides="[1]")]))).paragraphs == []
