"""GLUE by protocol: numbers recomputed by hand."""

from dataclasses import replace

import pyarrow
import pytest

from harness.comparison.compare import compare
from harness.document import DASH, Table
from harness.plugins.protocols.chapter import CHAPTER
from harness.reports.__main__ import main
from harness.reports.read import read
from harness.reports.reading.store import Packed

PLAIN = {"protocol_name": "plain", "protocol.average": "['rte', 'mrpc', 'cola']"}
PAPER = {"protocol_name": "paper", "protocol.average": "['rte', 'mrpc', 'sst2']", "protocol.statistic": "median"}
SEARCH = {"tuned.selected_on": "validation", "tuned.scores": "[0.5, null]", "tuned.settings": '{"finetune.epochs": 3}'}


@pytest.fixture
def runs(make_run):
    """Of two protocols: plain with two seeds on three tasks, paper with up to three seeds on its three."""

    def made(arm, task, scores, params, accuracies=()):
        stated = {
            "protocol.scores": "[]",
            "protocol.statistic": "mean",
            "finetune.epochs": "3",
            "finetune.schedule": "linear",
        } | params
        headline = stated.setdefault("task.headline", "accuracy")
        values = [{"eval/score": score, f"eval/{headline}": score} for score in scores]
        values = [one | {"eval/accuracy": accuracy} for one, accuracy in zip(values, accuracies or scores, strict=True)]
        return [make_run(f"m protocol={arm}", seed, one, stated, task=task) for seed, one in enumerate(values)]

    of_mrpc = {"task.headline": "f1"}
    return [
        *made("plain", "rte", [0.60, 0.64], PLAIN),
        *made("plain", "mrpc", [0.80, 0.84], PLAIN | of_mrpc, [0.7, 0.7]),
        *made("plain", "cola", [0.40, 0.40], PLAIN),
        *made("paper", "sst2", [0.9], PAPER),  # a staged start ran it, plain did not
        *made("paper", "rte", [0.66, 0.70, 0.65], PAPER | SEARCH),
        *made("paper", "mrpc", [0.8, 0.9], PAPER | of_mrpc | {"protocol.scores": "['accuracy', 'f1']"}, [0.7, 0.8]),
    ]


@pytest.fixture
def tables(runs, study_of):
    """The two tables, by arm and column, of a study with these trials and curves."""

    def made(runs=runs, trials=(), predictions=None, curves=None):
        study = study_of(compare("s", runs, "m protocol=plain"), {"eval/score": curves or {}})
        chapter = CHAPTER.chapter(replace(study, trials=trials, output=Packed(predictions=predictions or {})))
        tables = [block for section in chapter.sections for block in section.blocks if isinstance(block, Table)]
        by_arm = [{row[0].text: dict(zip(table.head, row, strict=True)) for row in table.rows} for table in tables]
        return by_arm, "\n".join(chapter.paragraphs)

    return made


def test_numbers_are_those_that_the_paper_would_print_beside_the_clean_ones(tables):
    (numbers, _), text = tables()
    paper = {head: cell.text for head, cell in numbers["m protocol=paper"].items()}
    # rte: median of 66, 70, 65; mrpc: mean of accuracy and F1 is 75 and 85, their median 80
    assert paper == {
        "arm": "m protocol=paper",
        "rte": "66.0 §",
        "mrpc": "80.0",
        "cola": DASH,
        "sst2": "90.0",
        "average": "73.0 (2 of 3) §",
        "same runs, plain": "76.0 §",  # (67 + 85) / 2
        "plain": "61.3",  # (62 + 82 + 40) / 3
        "difference": "+11.7",
    }
    assert numbers["m protocol=plain"]["difference"].text == DASH
    assert "§ Epoch or setting selected on the reported rows" in text
    assert "What one point is worth" not in text  # they average other tasks


def test_difference_is_the_sum_of_its_causes(tables, runs, make_run):
    kept = [
        replace(run, params=run.params | {"finetune.keep_best": "validation"}) if run.task == "rte" else run for run in runs
    ]
    of_rte = [run for run in kept if run.task == "rte" and run.tags["arm"] == "m protocol=paper"]
    curves = {run.run_id: {2: 0.70, 4: [0.66, 0.70]} for run in of_rte}
    settings = ({}, {"finetune.epochs": "5"}, {"finetune.schedule": "cosine"})  # of the third none was searched
    trials = [make_run("t", 0, {"eval/score": 0.5}, of_rte[0].params | more, task="rte") for more in settings]
    trials.append(make_run("t", 1, {"eval/score": 1.0}, of_rte[0].params, task="rte"))  # of an earlier search
    predicted = ([1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0])
    predictions = {
        trial.run_id: pyarrow.table({"item": range(4), "label": [1] * 4, "prediction": each})
        for trial, each in zip(trials, predicted, strict=True)
    }
    (_, causes), _ = tables(kept, trials, predictions, curves)
    cells = causes["m protocol=paper"]
    shown = {head: cells[head].text for head in ("tasks", "scores", "statistic", "epoch", "all")}
    # plain over rte and mrpc is 72; scores: 73.5 - 76; statistic: 73 - 73.5; epoch: 4 on one of two tasks
    assert shown == {"tasks": "+10.7", "scores": "−2.5", "statistic": "−0.5", "epoch": "+2.0", "all": "+11.7"}
    assert cells["setting"].value == pytest.approx(1 / 3 / 2**0.5 / 2, abs=0.05)  # of three splits one, on one of two tasks
    assert cells["setting"].text.startswith("+")
    assert "[" in cells["setting"].text
    *parts, whole = [cell.value for head, cell in cells.items() if head != "arm"]
    assert sum(parts) == pytest.approx(whole)


def test_missing_predictions_are_a_dash_and_no_protocol_is_no_chapter(tables, runs):
    (_, causes), _ = tables()
    assert causes["m protocol=paper"]["setting"].text == DASH
    assert tables([replace(run, params=run.params | {"protocol_name": ""}) for run in runs]) == ([], "")


def test_a_score_whose_optimism_is_not_estimated_is_a_dash(tables, runs, make_run):
    macro = [replace(run, params=run.params | {"task.headline": "f1_macro"}) if run.task == "rte" else run for run in runs]
    params = next(run.params for run in macro if "tuned.settings" in run.params)
    trials = [make_run("t", seed, {"eval/score": 0.5}, params, task="rte") for seed in (0, 1)]
    table = pyarrow.table({"item": range(2), "label": [0, 1], "prediction": [1, 1]})
    (_, causes), _ = tables(macro, trials, {trial.run_id: table for trial in trials})
    assert causes["m protocol=paper"]["setting"].text == DASH


UNREADABLE = [None, "", "3", "mrpc", "['rte', 3]", "[" * 3000, "['rte', " + "x" * 6000]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *((key, text) for key in ("protocol.average", "protocol.scores") for text in UNREADABLE),
        ("protocol.average", "[]"),
        *(("protocol.statistic", text) for text in (None, "", "0.5", "mode", "x" * 6000)),
        *(("tuned.settings", text) for text in (None, "", "{", "[1]", "[" * 3000)),
        *(("tuned.scores", text) for text in (None, "{}", '["a"]')),
    ],
)
def test_an_arm_with_a_damaged_protocol_is_left_out_with_a_sentence(tables, runs, key, text):
    def damaged(run):
        params = {name: value for name, value in run.params.items() if name != key}
        return replace(run, params=params | ({} if text is None else {key: text}))

    changed = [damaged(run) if run.task == "rte" and run.tags["arm"] == "m protocol=paper" else run for run in runs]
    (numbers,), said = tables(changed)
    assert list(numbers) == ["m protocol=plain"]
    assert f"m protocol=paper is left out: its runs record no readable `{key}`." in said
    assert len(said) < 2000


def test_damaged_protocols_alone_are_sentences_and_another_name_of_the_arm_has_no_plain(tables, runs, make_run):
    none = [replace(run, params=run.params | {"protocol.statistic": "mode"}) for run in runs]
    by_arm, said = tables(none)
    assert by_arm == []
    assert said.count("is left out") == 2
    other = [replace(run, params=run.params | {"protocol_name": "bert"}) for run in runs]  # not the name in the label
    (numbers,), _ = tables(other)
    assert {cells["plain"].text for cells in numbers.values()} == {DASH}


def test_an_arm_under_other_conditions_is_left_out_with_a_sentence(tables, runs):
    threads = {"m protocol=plain": "1", "m protocol=paper": "7"}
    others = [
        replace(run, params=run.params | {"hardware.threads": threads[run.tags["arm"]]}) for run in runs if run.task != "sst2"
    ]
    (numbers, *_), text = tables(others)
    assert [*numbers] == ["m protocol=plain"]
    assert "m protocol=paper is left out: it ran under other conditions than the arms shown." in text


def test_spread_is_over_protocols_that_average_the_same_tasks(tables, runs):
    same = [replace(run, params=run.params | {"protocol.average": "['rte', 'mrpc']"}) for run in runs]
    _, text = tables(same)
    assert "under 2 protocols that average the same tasks, m scores 72.0 (plain) to 73.0 (paper)" in text
    assert "standard deviation 0.7 points" in text


@pytest.mark.long
def test_trials_that_selected_on_the_reported_rows_are_read_and_archived(tracking, tmp_path):
    tracking.log("m", params={"tuned.selected_on": "validation"})
    trial = tracking.log("t", study="before_after-search")
    tracking.log("t", study="before_after-search", status="failed")
    read_runs = read(tracking.uri, ["before_after"])
    assert [run.run_id for run in read_runs.trials] == [trial]
    assert len(read_runs.runs) == 1
    assert main(["archive", "before_after", f"tracking.uri={tracking.uri}", f"to={tmp_path / 'a'}", "--baseline=m"]) == 0
    assert [run.run_id for run in read(str(tmp_path / "a"), ["before_after"]).trials] == [trial]
