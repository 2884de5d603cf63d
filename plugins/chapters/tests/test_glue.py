"""GLUE in the report: one table, an average that says how it comes about, and what is no GLUE score."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from texts import line, md

from harness import tags
from harness.comparison import overall
from harness.comparison.compare import Comparison, compare
from harness.comparison.section import HEADLINE
from harness.plugins.chapters import glue
from harness.plugins.chapters.glue import SCORES, glue_of
from harness.reports.__main__ import main
from harness.reports.writing import section_text, tables

BASE = {"cola": (0.30, 0.34), "sst2": (0.80, 0.82), "mrpc": ((0.70, 0.80), (0.72, 0.82))}
BETTER = {"cola": (0.41, 0.43), "sst2": (0.83, 0.85), "mrpc": ((0.71, 0.83), (0.73, 0.83))}


def values(task: str, score: float | tuple[float, ...], **more: float) -> dict[str, float]:
    """What a run of the task logs."""
    scores = score if isinstance(score, tuple) else (score,)
    named = {f"eval/{name}": value for name, value in zip(SCORES[task], scores, strict=False)}
    return {"eval/score": scores[-1], "eval/majority_score": 0.5} | named | more


def log(tracking, arm: str, scores: dict, **settings: str) -> None:
    """Real runs of every task and seed, with more parameters."""
    params = {key.replace("__", "."): value for key, value in settings.items()}
    lifted = json.dumps(list(params))  # one command swept them
    for task, by_seed in scores.items():
        for seed, score in enumerate(by_seed):
            tracking.log(arm, seed, values(task, score), task=task, params=params, lifted=lifted)


def reported(*arguments: str) -> tuple[str, pd.DataFrame]:
    """The part of the report on GLUE, and the summary."""
    assert main([*arguments, "--out", "here"]) == 0
    text = Path("here/report.md").read_text()
    part = text.split("## GLUE\n")[1].split("\n## ")[0] if "## GLUE\n" in text else ""
    return part, pd.read_csv("here/summary.csv")


@pytest.fixture
def study(make_run) -> Callable[..., Comparison]:
    """Compares runs in memory: arm -> task -> score by seed."""

    def made(arms: dict[str, dict], **params: str) -> Comparison:
        runs = []
        for arm, scores in arms.items():
            for task, by_seed in scores.items():
                for seed, score in enumerate(by_seed):
                    if score is not None:
                        runs.append(make_run(arm, seed, values(task, score), task=task))
                        runs[-1].params.update({"task.headline": SCORES[task][0]} | params)
        return compare("s", runs)

    return made


@pytest.mark.long
def test_table_holds_tasks_and_their_average_with_its_rule(tracking):
    log(tracking, "base", BASE)
    log(tracking, "new", BETTER)
    text, _ = reported()
    heads = ["arm", "cola: Matthews correlation", "sst2: accuracy", "mrpc: mean of accuracy and F1", "average"]
    assert line(text, "arm") == heads
    # seed 0: (0.30 + 0.80 + 0.75) / 3, seed 1: (0.34 + 0.82 + 0.77) / 3
    assert line(text, "base") == ["base", "0.320 ± 0.028", "0.810 ± 0.014", "0.760 ± 0.014", "0.630 ± 0.019"]
    assert line(text, "new")[-1].startswith("0.678 ± 0.012<br>+4.8 points (+7.7 %) ~")
    assert "the unweighted mean over 3 tasks, cola, sst2, mrpc" in text
    assert "The first table uses a single score of mrpc, so its mean differs." in text
    assert "mean of its scores" in text
    assert "Left out" not in text


def test_average_shares_its_level_among_the_looks_at_its_seeds(study):
    """After five numbers of seeds the study could have ended: each has a fifth of the level, as in the first table."""
    p = {}
    for looks in (1, 5):
        comparison = study({"base": BASE, "new": BETTER})
        for run in comparison.runs:
            run.tags[tags.SEED_LOOKS] = str(looks)
        p[looks] = glue_of(comparison).average.changes["new"].p
    assert p[5] == pytest.approx(min(1.0, 5 * p[1]))
    assert p[1] < 0.5


@pytest.mark.long
def test_average_is_compared_in_pairs_of_seeds(tracking):
    log(tracking, "base", BASE)
    log(tracking, "new", BETTER)
    _, summary = reported()
    # by seed: (0.41 + 0.83 + 0.77 - 1.85) / 3 = 0.05333 and (0.43 + 0.85 + 0.78 - 1.93) / 3 = 0.04333
    page = " ".join(re.sub("<[^>]*>", " ", Path("here/report.html").read_text()).split())
    told = "~ inconclusive: needs 9 seeds; 3 if the effect is as measured, p 0.066, 2 seeds"
    assert f"+4.8 [−1.5, +11.2] points {told}" in page
    rows = summary[summary["metric"] == "glue/average"].set_index("arm")
    assert rows["task"].tolist() == ["glue", "glue"]
    assert rows.loc["new", ["n", "mean", "baseline_mean", "change"]].tolist() == pytest.approx(
        [2, 0.67833, 0.63, 0.04833], abs=1e-5
    )
    assert rows.loc["new", ["ci_low", "ci_high"]].tolist() == pytest.approx([-0.0152, 0.1119], abs=1e-4)
    assert rows.loc["base", ["change", "ci_low"]].isna().all()
    assert rows.loc["base", "sd"] == pytest.approx(0.01886, abs=1e-5)


@pytest.mark.long
def test_one_task_alone_is_no_glue(tracking):
    log(tracking, "base", {"cola": (0.3,)})
    text, summary = reported()
    assert text == ""
    assert "glue/average" not in set(summary["metric"])


def test_two_scores_of_one_kind_share_its_name(study):
    arm = {"stsb": ((0.7, 0.8),), "sst2": (0.8,)}
    assert glue.table(glue_of(study({"base": arm}))).head[2] == "stsb: mean of Pearson and Spearman correlations"


@pytest.mark.parametrize(("seeds", "said"), [(1, True), (2, False)])
def test_changes_that_are_not_the_difference_of_the_shown_means_are_explained(study, seeds, said):
    found = glue_of(study({"base": BASE, "new": {task: scores[:seeds] for task, scores in BETTER.items()}}))
    assert ("Changes use only the seeds that both arms have." in glue.rule(found)) is said


def test_average_of_single_scores_has_the_interval_of_the_overview(study):
    """Equal scores could differ by rounding to one item in every task."""
    arms = {arm: dict.fromkeys(("sst2", "rte"), (0.75, 0.75, 0.75)) for arm in ("base", "new")}
    comparison = study(arms)
    for run in comparison.runs:
        run.metrics["eval/examples"] = 400.0
    average, overview = glue_of(comparison).average.changes["new"], overall.of_tasks(comparison).change("new", HEADLINE)
    assert average.interval == pytest.approx(overview.interval)
    assert average.evidence.floor == 1 / 400


def test_arm_without_a_task_has_no_average(study):
    result = glue_of(study({"base": BASE, "new": {"cola": (0.9, 0.9), "sst2": (0.9, 0.9)}}))
    texts = line(md(glue.table(result)), "new")
    assert texts[3:] == ["–", "–"]
    assert texts[1].startswith("0.900")
    assert [label for label in result.labels if glue.summary_line(result, label)] == ["base"]


def test_seed_without_a_task_enters_no_average(study):
    scores = {"cola": (0.2, 0.9), "sst2": (0.4, None)}
    result = glue_of(study({"base": scores}))
    assert line(md(glue.table(result)), "base") == ["base", "0.550 ± 0.495", "0.400", "0.300 (n 1)"]


def test_undefined_score_is_a_dash_and_so_is_its_average(study):
    comparison = study({"base": {"stsb": ((0.5, 0.7),), "rte": (0.6,)}, "new": {"stsb": ((0.5, 0.7),), "rte": (0.6,)}})
    undefined = next(run for run in comparison.runs if run.tags["task"] == "stsb" and run.tags["arm"] == "new")
    undefined.metrics.pop("eval/spearman")
    table = md(glue.table(glue_of(comparison)))
    assert line(table, "base") == ["base", "0.600", "0.600", "0.600"]
    assert line(table, "new")[1] == "–"
    assert line(table, "new")[3] == "–"


@pytest.mark.long
def test_wnli_is_left_out_and_said_unless_it_is_counted(tracking):
    log(tracking, "base", {"cola": (0.2,), "sst2": (0.6,), "wnli": (0.1,)})
    text, _ = reported()
    assert line(text, "base")[-2:] == ["0.100", "0.400"]
    assert "mean over 2 tasks, cola, sst2." in text
    assert "Left out of the average: wnli." in text
    text, _ = reported("--with-wnli")
    assert line(text, "base")[-1] == "0.300"
    assert "Left out" not in text


def test_tasks_that_leave_nothing_to_average_have_no_average(study):
    one = glue_of(study({"base": {"cola": (0.2,), "wnli": (0.5,)}}))
    assert line(md(glue.table(one)), "arm")[-1].startswith("wnli")
    assert "**Average**: none, as there is only one task." in md(glue.rule(one))
    assert "first table" not in md(glue.rule(one))
    assert not any(glue.summary_line(one, label) for label in one.labels)


def test_of_a_task_under_two_sets_of_conditions_the_newer_enters(make_run):
    runs = [make_run(values=values("sst2", 0.8), params={"finetune.epochs": epochs}) for epochs in "12"]
    result = glue_of(compare("s", [*runs, make_run(values=values("rte", 0.5), task="rte")]))
    (one,) = [section for section in result.sections if section.task == "sst2"]
    assert one.facts["finetune.epochs"] == "2"
    assert line(md(glue.table(result)), "arm")[1:] == [f"sst2 ({one.conditions}): accuracy", "rte: accuracy", "average"]


def test_mismatched_accuracy_enters_where_there_is_one(study):
    scores = {"rte": (0.5,), "mnli": (0.6,)}
    alone = study({"base": scores, "new": scores})
    assert line(md(glue.table(glue_of(alone))), "arm")[1] == "mnli: accuracy"
    both = study({"base": {"rte": (0.5,), "mnli": ((0.6, 0.7),)}, "new": scores})
    table = md(glue.table(glue_of(both)))
    assert line(table, "arm")[1].startswith("mnli: mean of accuracy and accuracy on mismatched genres")
    assert line(table, "base")[1] == "0.650"
    assert line(table, "new")[1] == "–"  # half of the scores would be another number


def test_constant_answer_stands_in_the_table_and_says_which_score_it_is(study):
    comparison = study({"base": {"cola": (0.3,), "mrpc": ((0.7, 0.8),), "stsb": ((0.5, 0.6),)}})
    for run in comparison.runs:
        if run.tags["task"] == "stsb":
            run.metrics.pop("eval/majority_score")
    assert line(md(glue.table(glue_of(comparison))), r"*majority baseline*") == [
        "*majority baseline*", "0.500", "–", "–", "–",
    ]  # fmt: skip


@pytest.mark.long
def test_slice_is_said_to_be_no_glue_score(tracking):
    log(
        tracking,
        "base",
        {"cola": (0.3,), "sst2": (0.8,)},
        task__validation_split="train[80%:]",
        task__train_split="train[:80%]",
    )
    text, _ = reported()
    note = r"base scored on a slice of train (train\[80%:\]), not the official split."
    assert "*Tasks* below says which are on a part of the official split." in text
    report = Path("here/report.md").read_text()
    assert report.count(f"- {note}") == 1  # of both tasks
    assert report.count(r"- base trained on a slice of train (train\[:80%\])") == 1


def test_official_splits_have_no_such_note(study):
    settings = {"task.validation_split": "validation_matched", "data.validation_examples": "None", "finetune.keep_best": "none"}
    comparison = study({"base": {"cola": (0.3,), "rte": (0.5,)}}, **settings)
    assert [section_text.notes_of_scores(section) for section in comparison.sections] == [[], []]
    assert "§" not in md(glue.rule(glue_of(comparison)))


def test_first_examples_of_a_split_are_no_glue_score(study):
    comparison = study({"base": {"cola": (0.3,), "rte": (0.5,)}}, **{"data.validation_examples": "200"})
    assert section_text.notes_of_scores(comparison.sections[0]) == [
        "base scored on the first 200 examples of the validation split, not the official split."
    ]


def test_arm_that_was_tuned_on_what_it_reports_is_marked(study):
    comparison = study({"base": {"cola": (0.3,), "rte": (0.5,)}}, **{"tuned.selected_on": "validation"})
    assert tables.SELECTED_NOTE in glue.rule(glue_of(comparison))


@pytest.mark.long
def test_run_that_selected_on_what_it_reports_is_marked(tracking):
    log(tracking, "base", BASE)
    log(tracking, "new", {"cola": BETTER["cola"]}, finetune__keep_best="validation")
    log(tracking, "new", {task: BETTER[task] for task in ("sst2", "mrpc")})
    text, _ = reported()
    texts = line(text, "new")
    assert [" §<br>" in text for text in texts[1:]] == [True, False, False, True]
    assert not any("§" in text for text in line(text, "base"))
    assert f"\n{tables.SELECTED_NOTE}" in text
    first = Path("here/report.md").read_text()
    assert ("§" in line(first, "new")[1], "§" in line(first, "base")[1], tables.SELECTED_NOTE in first) == (True, False, True)


def test_runs_that_do_not_pair_are_not_paired_here(make_run):
    """Results of other tools, of which seeds of one number share nothing."""
    scores = {"base": (0.70, 0.75, 0.80), "new": (0.73, 0.78, 0.83)}
    runs = [
        make_run(arm, seed, values(task, score), {"task.headline": SCORES[task][0]}, task=task, design="runs")
        for task in ("cola", "sst2")
        for arm, of_arm in scores.items()
        for seed, score in enumerate(of_arm)
    ]
    comparison = compare("s", runs)
    for section, column in zip(comparison.selected, glue_of(comparison).columns, strict=False):
        assert column.changes["new"].interval == section.change(section.row_of("new"), "eval/score").interval
        assert (column.changes["new"].pairs_are, column.changes["new"].n) == ("runs", 6)
