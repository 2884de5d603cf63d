"""`--where`: MLflow's syntax over runs as they were read, and several studies joined."""

from pathlib import Path

import pytest
import yaml

from harness.errors import InputError
from harness.reports.__main__ import main
from harness.reports.reading import where

DATA = yaml.safe_load(Path(__file__).with_name("where.yaml").read_text("utf-8"))


@pytest.fixture
def runs(make_run):
    """base and albert on two tasks."""
    return [
        make_run(arm, 0, {"eval/score": score}, {"model.hidden_size": size}, task=task)
        for arm, task, size, score in (
            ("base", "sst2", "128", 0.9),
            ("base", "rte", "128", 0.6),
            ("albert", "sst2", "64", 0.8),
            ("albert", "rte", "64", 0.5),
        )
    ]


def names(runs: list) -> list[str]:
    return [f"{run.tags['arm']} {run.task}" for run in runs]


@pytest.mark.parametrize(("text", "expected"), DATA["kept"])
def test_filter_keeps_what_fits(runs, text, expected):
    assert names(where.keep(runs, text)) == expected


@pytest.mark.parametrize(("text", "message"), DATA["wrong"])
def test_wrong_syntax_is_one_line(text, message):
    with pytest.raises(InputError) as error:
        where.parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_nothing_that_fits_says_which_clause_and_what_there_is(runs):
    with pytest.raises(InputError, match="matches no run; task is rte, sst2"):
        where.keep(runs, "arm = 'base' and task = 'mnli'")
    with pytest.raises(InputError, match=r"unknown tag 'taks'; did you mean 'task'\?"):
        where.keep(runs, "taks = 'sst2'")
    with pytest.raises(InputError, match="each clause matches some run, but no run matches all"):
        where.keep(runs, "params.model.hidden_size = '64' and arm = 'base'")


def test_aa_replicates_and_pretrainings_of_what_fits_stay(make_run, timed, pretrained):
    fitting = timed("base", [1.0, 1.1], seed=0)
    again = timed("base", [1.0, 1.2], replicate="true")
    elsewhere = timed("base", [1.0, 1.2], replicate="true", session="s2")
    source, other = pretrained(fingerprint="f1"), pretrained(fingerprint="f2")
    tuned = make_run("base", 0, pretraining="f1")
    kept = where.keep([source, other, fitting, again, elsewhere, tuned, make_run("base", 1)], "seed = '0' and task = 'sst2'")
    assert {run.run_id for run in kept} == {run.run_id for run in (source, fitting, again, tuned)}


@pytest.mark.long
def test_report_is_on_what_fits_alone(tracking, typical, capsys):
    for arm in ("base", "albert"):
        for task in ("sst2", "rte"):
            tracking.log(arm, values=typical(), task=task)
    assert main(["--out", "here", "--where", "tags.harness.task = 'rte'"]) == 0
    text = Path("here/report.md").read_text()
    assert "- **tasks**: rte\n" in text
    assert "- **runs**: 2 counted, 0 left out" in text
    capsys.readouterr()
    assert main(["--out", "there", "--where", "tags.task == 'rte'"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not Path("there").exists()


@pytest.mark.long
def test_runs_of_several_studies_meet_where_their_conditions_agree(tracking, typical):
    tracking.log("base", values=typical(score=0.8), study="A")
    tracking.log("albert", values=typical(score=0.7), study="B")
    tracking.log("windowed", values=typical(score=0.7), study="B", params={"finetune.epochs": "3"})
    assert main(["--out", "here", "--study", "A", "--study", "B", "--study", "A"]) == 0
    text = Path("here/report.md").read_text()
    assert text.startswith("# Report: A + B\n")
    together = text.partition("| albert |")[0].rpartition("## ")[2]
    assert "| base |" in together
    assert "sst2 was run under 2 sets of conditions" in text
    assert main(["--study", "A", "--study", "B"]) == 0
    assert Path("multirun/reports/A___B-0d6b5fa8/report.md").exists()


def test_a_filter_of_many_wildcards_ends(make_run):
    """Each place is tried once, where a search that goes back would take years."""
    run = make_run("a" * 6000, 0, {})
    assert where.keep([run], f"tags.arm like '{'%a' * 60}'") == [run]
    with pytest.raises(InputError, match="matches no run"):
        where.keep([run], f"tags.arm like '{'%a' * 60}b'")
    run = make_run("abcabd", 0, {})
    patterns = {"%ab_", "abc%", "%c%", "a%d", "%b%b%", "_%_", "abcabd", "%b", "b%", "%d%d%", "_", "", "abc", "%abx%"}
    kept = {pattern for pattern in patterns if where.Clause("tags", "arm", "like", pattern).holds(run)}
    assert kept == {"%ab_", "abc%", "%c%", "a%d", "%b%b%", "_%_", "abcabd"}
