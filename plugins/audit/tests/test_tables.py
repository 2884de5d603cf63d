"""Published tables as claims: a row is reproduced, not reproduced, not comparable or not run."""

import re
from dataclasses import replace
from statistics import fmean

import pytest

from harness import tags
from harness.__main__ import main
from harness.comparison.runs import Run
from harness.metrics import METRICS
from harness.paths import CLAIMS, conf_directory
from harness.plugins.audit.claims import TableScore, read, read_all
from harness.plugins.audit.command import settle, text
from harness.plugins.audit.measures import Instruments
from harness.plugins.audit.tables import command, compare
from harness.plugins.audit.verdicts import of_reading

TABLES = conf_directory() / CLAIMS / "tables"
MODEL = "a-lab/an-encoder"
STATED = {"finetune.epochs": "3", "finetune.adam_betas": "[0.9, 0.98]", "protocol.statistic": '"mean"'}
STATED |= {"search.space": '["finetune.batch_size=choice(16,32)"]', "protocol.starts_from": '"mnli"'}
PARAMS = {
    "model.init_from": f"{MODEL}@main",
    "model.random_weights": "False",
    "model_keys": "['init_from', 'provider']",
    "said_keys.model=base": "[]",
    "protocol_name": "plain",
    "protocol.statistic": "mean",
    "data.train_examples": "None",
    "data.validation_examples": "None",
    "pretrain.objective": "none",
    "finetune.teacher": "None",
    "finetune.enabled": "True",
    "finetune.epochs": "3.0",
    "finetune.adam_betas": "[0.9, 0.98]",
    "finetune.trains": "all",
    "finetune.keep_best": "none",
    **dict.fromkeys(("finetune.freeze_layers", "finetune.max_steps", "finetune.seconds"), "None"),
    "search.part": "1.0",
    "search.space": "['finetune.batch_size=choice(16,32)']",
    "protocol.starts_from": "mnli",
}


def row(score: float, **more) -> TableScore:
    stated = {"model": MODEL, "task": "mrpc", "metric": "accuracy+f1", "split": "validation", "seeds": 3, "protocol": "plain"}
    return TableScore(claimed=score, paper="a paper", table="table 1", **(stated | more))


def finished(accuracy: float, seed: int, study: str = "here", **params: str) -> Run:
    metrics = {"eval/accuracy": accuracy, "eval/f1": accuracy + 0.02}
    of_run = {tags.TASK: "mrpc", tags.SEED: str(seed), tags.STUDY: study}
    return Run("", "", 0, of_run, PARAMS | params, metrics)


RUNS = [finished(0.84, 0), finished(0.85, 1), finished(0.86, 2)]
"""Means of both scores: 85, 86 and 87 points."""


def verdict(table_row: TableScore, runs: list[Run]) -> str:
    return str(of_reading(table_row, compare(table_row, runs, STATED)))


def test_a_score_within_the_spread_of_seeds_is_reproduced():
    """The interval of a difference of two means of three: 86 ± 4.303 · 1 · √(1/3 + 1/3), and half of the last decimal."""
    (point,) = compare(row(80.0), RUNS, STATED).points
    assert (point.value, point.where) == (pytest.approx(86), {"seeds": 3})
    assert point.interval == pytest.approx((86 - 3.563, 86 + 3.563), abs=0.001)
    assert [verdict(row(score), RUNS) for score in (82.5, 82.4, 89.6)] == ["reproduced", "not reproduced", "not reproduced"]


def test_the_statistic_is_that_of_the_protocol():
    for statistic, value in {"median": 86, "best": 87}.items():
        runs = [finished(0.84, 0), finished(0.845, 1), finished(0.86, 2)] if statistic == "best" else RUNS
        runs = [replace(run, params=run.params | {"protocol.statistic": statistic}) for run in runs]
        assert compare(row(80.0), runs, STATED).points[0].value == pytest.approx(value)


def test_the_newest_run_of_a_seed_counts_and_one_seed_has_no_spread():
    assert verdict(row(86.0), [finished(0.5, 1), RUNS[1]]) == "undecided (only 1 seed, no interval)"
    assert compare(row(86.0), [finished(0.5, 1), *RUNS], STATED).points[0].value == pytest.approx(86)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"data.train_examples": "400"}, "not comparable (run on other rows: data.train_examples=400)"),
        ({"finetune.epochs": "5.0"}, "not comparable (run with other settings: finetune.epochs=5.0)"),
        ({"finetune.enabled": "False"}, "not comparable (run with other settings: finetune.enabled=False)"),
        ({"finetune.max_steps": "50"}, "not comparable (run with other settings: finetune.max_steps=50)"),
        ({"search.space": "[]"}, "not comparable (run with other settings: search.space=[])"),
        ({"protocol.starts_from": "None"}, "not comparable (run with other settings: protocol.starts_from=None)"),
        ({"protocol.statistic": "best"}, "not comparable (run with other settings: protocol.statistic=best)"),
        ({"model.random_weights": "True"}, "not comparable (run with other settings: model.random_weights=True)"),
        ({"protocol_name": "bert"}, "not run"),
        ({"model.init_from": "a-lab/another"}, "not run"),
        ({"study": "here-search"}, "not run"),
        ({"protocol.statistic": "largest"}, "not run"),
        (
            {"model_keys": "['init_from', 'attention_window']", "model.attention_window": "8"},
            "not comparable (run with other settings: model.attention_window=8)",
        ),
        (
            {"said_keys.enhancement=shared": "['num_hidden_groups']", "model.num_hidden_groups": "1"},
            "not comparable (run with other settings: model.num_hidden_groups=1)",
        ),
    ],
)
def test_other_runs_are_no_reproduction(params, expected):
    other = [finished(0.5, seed, **params) for seed in (3, 4)]
    assert verdict(row(86.0), other) == expected
    assert verdict(row(86.0), [*other, *RUNS]) == "reproduced"


@pytest.mark.parametrize("lost", ["finetune.epochs", "model_keys"])
def test_a_setting_that_a_store_lacks_is_not_taken_for_the_stated_one(lost):
    lacking = [replace(run, params={key: run.params[key] for key in run.params if key != lost}) for run in RUNS]
    assert verdict(row(86.0), lacking) == f"not comparable (run with other settings: {lost}=not recorded)"


def test_scores_of_test_rows_are_not_those_of_validation():
    assert verdict(row(86.0, split="test"), RUNS) == "not comparable (run on other rows: data.split=validation)"


TABLE = f"""\
model,task,metric,score,split,seeds,protocol,paper,table
{MODEL},mrpc,accuracy+f1,85.9,validation,3,plain,a paper,table 1
{MODEL},rte,accuracy,70,validation,3,plain,a paper,table 1
{MODEL},cola,matthews,40.5,validation,3,plain,a paper,table 1
an unpublished one,rte,accuracy,71.5,validation,1,,a paper,table 1
"""


def test_a_table_has_a_claim_for_each_model_and_says_what_would_run_it(tmp_path):
    (tmp_path / "mine.csv").write_text(TABLE)
    claims = read(tmp_path / "mine.csv")
    measured = [[compare(reading, RUNS, {}) for reading in claim.readings.values()] for claim in claims]
    settled = [settle(*pair) for pair in zip(claims, measured, strict=True)]
    assert [claim.verdict for claim in settled] == ["reproduced", "not run"]
    printed = " ".join(text(settled).split())
    assert "mrpc accuracy+f1: 86 [82.4, 89.6] (seeds 3); claimed 85.9 → reproduced" in printed
    assert "not run: rte accuracy 70, cola matthews 40.5" in printed
    assert f"python -m harness -m +protocol=plain model.init_from={MODEL} task=rte,cola" in printed
    assert printed.count("python -m harness") == 1  # nothing runs what no protocol says
    assert settled[0].readings[0].note == ""


def test_a_model_of_another_owner_is_named_and_its_name_is_one_word_of_a_command():
    stranger = row(86.0, model="other; rm/an-encoder")
    assert compare(stranger, RUNS, STATED).note.endswith(f"with the weights {MODEL}, by the end of their name")
    assert command([stranger]).endswith(" 'model.init_from=other; rm/an-encoder' task=mrpc")


def test_scores_of_a_model_on_two_splits_are_two_claims(tmp_path):
    (tmp_path / "mine.csv").write_text(TABLE.replace("rte,accuracy,70,validation", "rte,accuracy,70,test"))
    names = [claim.name for claim in read_all([str(tmp_path / "mine.csv")], None)]
    assert names == [f"mine-{MODEL}", f"mine-{MODEL}-2", "mine-an unpublished one"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("85.9", "high", "Expected `float`, got `str` - at `row 1.score`"),
        ("85.9", "859", "Expected `float` <= 100.0 - at `row 1.score`"),
        ("model,", "modle,", "unknown key 'modle'; did you mean 'model'?"),
        (",a paper,table 1", "", "Expected `str`, got `null` - at `row 1.paper`"),
        ("cola,matthews", "rte,accuracy", "row 3: a second score of rte accuracy for a-lab/an-encoder on the validation rows,"),
        ("plain", "plian", "unknown protocol 'plian'; did you mean 'plain'?"),
        (TABLE[TABLE.index("\n") :], "", "expected a row for each score, below model,task,metric,score,"),
        (TABLE, '"', "expected a CSV file of published scores"),
        ("85.9", "0.859", "row 1: score 0.859 looks like a share: expected points"),
        ("rte,accuracy", "rte,acc", "unknown metric 'acc'; choices for `row 2.metric`"),
        ("85.9,validation", "85.9,dev", "unknown split 'dev'; choices for `row 1.split`: test, validation"),
        ("paper,table\n", "paper,table,score\n", "two columns 'score': expected one"),
        ("a paper", "a\x1b[2Jpaper", "expected text on one line, without control characters"),
    ],
)
def test_a_wrong_table_is_one_line(old, new, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(TABLE.replace(old, new))
    assert main(["audit", "claims=mine.csv"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), message in err) == (1, True), err


def test_shipped_tables_are_sourced_and_speak_of_what_exists():
    rows = [reading for path in TABLES.glob("*.csv") for claim in read(path) for reading in claim.readings.values()]
    assert len({each.paper for each in rows}) >= 5
    shapes = Instruments()
    for each in rows:
        assert re.match(r"arXiv:\d{4}\.\d{5}$", each.paper)
        assert {f"eval/{name}" for name in each.metric.split("+")} <= METRICS.keys()
        assert not each.protocol or shapes.protocol(each.protocol, each.task)


def test_rows_of_bert_have_the_mean_that_the_paper_prints():
    printed = {"before GPT": 74.0, "ELMo": 71.0, "GPT": 75.1, "bert-base-uncased": 79.6, "bert-large-uncased": 82.1}
    for claim in read(TABLES / "bert.csv"):
        scores = [reading.claimed for reading in claim.readings.values()]
        assert fmean(scores) == pytest.approx(printed[claim.name.removeprefix("bert-").rpartition("/")[2]], abs=0.06)
