"""The commands that ran the study."""

import shlex
from dataclasses import replace

from harness.comparison.compare import compare
from harness.reports.chapters import appendix
from harness.reports.reading.study import Study


def rows(runs: list) -> list[tuple[str, str, list[str]]]:
    """(arms, runs, words of the command)."""
    chapter = appendix.reproduce(Study(compare("s", runs)))
    cells = [line.strip("| ").split(" | ") for line in chapter.paragraphs[2].splitlines()[2:]]
    return [(arms, count, shlex.split(command.strip("`"))) for arms, count, command in cells]


def test_one_command_for_all_arms_tasks_and_seeds_that_it_ran(make_run):
    sweep = "harness -m model=base,albert task=sst2,cola seed=1,2 'measure.lengths=[32,64]'"
    more = "harness -m model=albert task=sst2 seed=3"
    arms = [(arm, task) for arm in ("base", "albert") for task in ("sst2", "cola")]
    runs = [make_run(arm, seed, task=task, command=sweep) for arm, task in arms for seed in (1, 2)]
    runs.append(make_run("albert", 3, task="sst2", command=more))
    assert rows(runs) == [
        ("base, albert", "8", ["python", "-m", *shlex.split(sweep)]),
        ("albert", "1", ["python", "-m", *shlex.split(more)]),
    ]


def test_words_that_repeat_what_is_finished_are_left_out(make_run):
    runs = [make_run(seed=1, command="harness -m seed=1,2"), make_run(seed=2, command="harness -q -m seed=1,2 rerun=True")]
    assert rows(runs) == [("base", "2", ["python", "-m", "harness", "-m", "seed=1,2"])]


def test_a_study_of_pretrainings_alone_has_its_command_and_no_run_of_another_study(make_run, pretrained):
    assert rows([pretrained("base+mlm", command="harness pretrain=mlm task=none")])[0][1] == "1"
    elsewhere = replace(pretrained("base+mlm", command="harness elsewhere=1"), elsewhere="other")
    assert len(rows([elsewhere, make_run("base+mlm", command="harness here=1")])) == 1


def test_odd_values_are_quoted(make_run):
    ((_, _, words),) = rows([make_run(command="harness 'task.train_file=my data|a.csv' task=own")])
    assert words == ["python", "-m", "harness", r"task.train_file=my data\|a.csv", "task=own"]


def test_runs_that_do_not_say_their_command_have_no_row(make_run):
    assert appendix.reproduce(Study(compare("s", [make_run(), make_run("b")]))).sections == []


def test_runs_of_one_machine_before_and_after_a_change_of_spelling_are_on_one_machine(make_run):
    runs = [make_run(arm, hardware=f"CPU, 1 {noun}, fp32") for arm, noun in (("base", "threads"), ("b", "thread"))]
    assert "**hardware**: CPU, 1 thread, fp32" in appendix.header(compare("s", runs)).items
