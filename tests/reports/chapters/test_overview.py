"""The first screen: the table over all tasks, and sentences."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from texts import md, parts, rows

from harness import metrics, paths, tags
from harness.comparison.compare import Comparison, compare
from harness.comparison.verdicts import Verdict
from harness.reports.chapters import overview
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.study import Study
from harness.reports.writing import findings
from harness.reports.writing.answer import answer
from harness.reports.writing.formats import bullets

SCORE, TOTAL, MEMORY, MAJORITY = "eval/score", "model/params_total", "inference/peak_memory_bytes", "eval/majority_score"
ITEMS = "eval/examples"


@pytest.fixture
def result(scored) -> Comparison:
    """Three arms on two tasks with three seeds, of which one is better in size and one is worse in score."""
    base = {"sst2": [0.80, 0.81, 0.79], "cola": [0.40, 0.41, 0.39]}  # below the majority baseline on cola
    return compare(
        "s",
        [
            *scored("base", base, {TOTAL: 1000, MEMORY: 4e6, MAJORITY: 0.5}),
            *scored("small", base, {TOTAL: 250, MEMORY: 4e6, MAJORITY: 0.5}),
            *scored("worse", {"sst2": [0.70, 0.70, 0.70], "cola": [0.41, 0.40, 0.38]}, {TOTAL: 1000, MEMORY: 2e6}),
        ],
    )


def paragraphs(comparison: Comparison) -> list[str]:
    """What was compared, what was found, and what to be careful of; an empty list is left out."""
    return [
        findings.opening(comparison),
        *parts(findings.sentences(comparison)),
        *parts(findings.cautions(comparison)),
    ]


@pytest.fixture
def no_study_is_small(monkeypatch):
    monkeypatch.setattr("harness.comparison.compare.SMALL_RUNS", 0)


def test_sentences_say_what_the_tests_carry(result, no_study_is_small):
    words, arms, cautions = paragraphs(result)
    assert words == "small, worse against **base** on sst2, cola; 3 seeds each."
    small, worse = arms.splitlines()
    assert small == "- **small**: equivalent in score (within 1 point) and inference memory (within 5 %)."
    lost, better = worse.rstrip(".").removeprefix("- **worse**: ").split("; ")
    assert better.startswith("**better** in inference memory (−50.0 ")
    assert re.fullmatch(r"\*\*worse\*\* in score \(−5\.2 \[−.*, −.*\] points over 2 tasks\)", lost)
    low = "base, small on cola"
    assert cautions.startswith(f"- **Not shown to beat the majority baseline**, which ignores the text: {low}.")


def test_what_a_table_of_a_task_alone_shows_is_said_where_it_is_worse(scored):
    """Not where it is equal."""
    peak = "finetune/peak_memory_bytes"
    runs = [*scored("base", {"sst2": [0.8] * 3}, {peak: 4e6}), *scored("large", {"sst2": [0.8] * 3}, {peak: 8e6})]
    runs += scored("alike", {"sst2": [0.8] * 3}, {peak: 4e6})
    said = "\n".join(parts(findings.sentences(compare("s", runs))))
    assert "**worse** in training peak memory (+100.0 " in said
    assert said.count("peak memory") == 1


def test_equal_scores_of_arms_that_have_not_learned_are_no_finding(make_run):
    scores = {"base": (0.5, 0.8), "new": (0.5, 0.8)}
    runs = [
        make_run(name, seed, {SCORE: score, "eval/majority_score": 0.5}, task=task)
        for name, of_tasks in scores.items()
        for task, score in zip(("cola", "sst2"), of_tasks, strict=True)
        for seed in (0, 1)
    ]
    caution = paragraphs(compare("s", runs))[-1]
    assert "which ignores the text: base, new on cola. No arm beats it on cola: equal scores" in caution
    one_learned = [*runs, make_run("third", 0, {SCORE: 0.9, "eval/majority_score": 0.5}, task="cola")]
    assert "No arm is better" not in paragraphs(compare("s", one_learned))[-1]
    alone = [run for run in runs if run.tags["arm"] == "base"]
    assert "No arm is better" not in paragraphs(compare("s", alone))[-1]


@pytest.mark.parametrize(
    ("scores", "marked"),
    [([0.81, 0.81, 0.812], True), ([0.82, 0.83, 0.82], False), ([0.9, 0.81, 0.81], True), ([0.7, 0.811, 0.812], True)],
    ids=["two_of_three_are_constant", "all_have_learned", "one_has_learned", "the_mean_is_below"],
)
def test_an_arm_that_is_not_shown_to_beat_the_constant_answer_is_marked(make_run, scores, marked):
    runs = [make_run("base", seed, {SCORE: score, "eval/majority_score": 0.81}) for seed, score in enumerate(scores)]
    (section,) = compare("s", runs).sections
    assert findings.is_below_constant(section, section.rows[0]) == marked


def test_a_count_that_differs_by_less_than_the_margin_is_called_the_same(make_run):
    runs = [make_run(name, values={TOTAL: size}) for name, size in (("base", 1000.0), ("a", 1049.0), ("b", 1051.0))]
    assert [effect.change.verdict for effect in findings.effects(compare("s", runs))] == [Verdict.SAME, Verdict.WORSE]


@pytest.mark.parametrize(("seeds", "says"), [(2, True), (3, False)])
def test_fewer_than_three_seeds_support_no_verdict(scored, study_of, seeds, says):
    scores = {"base": [0.8, 0.81, 0.79, 0.8], "new": [0.9, 0.89, 0.91][:seeds]}
    runs = [run for arm, values in scores.items() for run in scored(arm, {"sst2": values})]
    text = overview.chapter(study_of(compare("s", runs))).paragraphs[1]
    assert text.startswith("**Only 2 seeds; verdicts need 3") == says


STARTED = {"pretraining": "fingerprint", "pretrain_seed": "0"}
LEARNED = {
    "model.position": "learned",
    "model.body": "transformer",
    "pretrain.neighbour_heads": "True",
    "swept": "['model', 'task']",
}


def opening_of(make_run, arms: dict[str, dict[str, str]]) -> str:
    """What a report of arms with these settings opens with; those of an objective were pretrained."""
    runs = [
        make_run(arm, seed, {"eval/score": 0.8}, LEARNED | params, **(STARTED if "+" in arm else {}))
        for arm, params in arms.items()
        for seed in range(3)
    ]
    return " ".join(findings.controls(compare("s", runs, next(iter(arms)))))


def test_a_study_of_pretraining_without_a_control_says_so(make_run):
    missing = "**No random-weights control**: `sweep.control=true` adds one."
    arms = {"base+mlm": {}, "albert+mlm": {}}
    assert opening_of(make_run, arms).startswith(missing)
    assert missing not in opening_of(make_run, arms | {"base random_weights=true": {"pretrain.neighbour_heads": "False"}})
    assert opening_of(make_run, {"base": {}, "albert": {}}) == ""


def test_settings_that_only_some_arms_have_are_named(make_run):
    arms = {"base+mlm": {}, "modern+mlm": {"model.position": "rotary", "model.hidden_dropout_prob": "0.0"}}
    text = opening_of(make_run, arms)
    assert "hidden_dropout_prob not set (base+mlm) and 0.0 (modern+mlm)" in text
    assert "position" not in text
    swept = {"swept": "['pretrain.dropout']"}
    arms = {"base+mlm": {"pretrain.dropout": "0.1"} | swept, "base+mlm dropout=0.0": {"pretrain.dropout": "0.0"} | swept}
    assert "Arms differ" not in opening_of(make_run, arms)


def test_names_of_arms_and_of_metrics_are_escaped_once(make_run):
    text = opening_of(make_run, {"base+mlm": {"tuned.scores": "[0.5]"}, "b[1]+mlm": {"model.hidden_dropout_prob": "0.0"}})
    assert text.count(r"b\[1\]+mlm") == 2
    waiting = metrics.of_others("wait|time", "ms", metrics.Direction.LOWER)
    table, *_ = overview.legible_overview(compare("s", [make_run("base", 0, {waiting: 3.0})]))
    assert table.head == ["arm", r"wait\|time, ms"]


def test_trials_of_each_arm_are_counted(make_run):
    tuned = {"tuned.scores": "[0.5, 0.6]", "tuned.settings": '{"finetune.learning_rate": 1e-4}'}
    rates = [{"finetune.learning_rate": rate} for rate in ("0.1", "0.2")]
    alike = opening_of(make_run, {"base+mlm": tuned | rates[0], "albert+mlm": tuned | rates[1]})
    assert "All arms were tuned, with 2 trials each." in alike
    assert "learning_rate" not in alike
    one = opening_of(make_run, {"base+mlm": tuned, "albert+mlm": {}})
    assert "**Arms were not tuned alike** (no trials: albert+mlm; 2 trials: base+mlm)" in one
    untuned = "No hyperparameters were tuned (`search=rate` tunes the learning rate)."
    assert opening_of(make_run, {"base+mlm": {}, "albert+mlm": {}}).endswith(untuned)


@pytest.fixture
def predicting(make_run, tmp_path):
    """Makes a run whose folder holds its predictions: right on all of 500 items but so many."""

    def made(arm: str, wrong: int, seed: int = 0, **values: float):
        fingerprint = f"{arm}{seed}-fingerprint"
        known = {SCORE: 1 - wrong / 500, ITEMS: 500.0, MAJORITY: 0.5} | values
        run = make_run(arm, seed, known, fingerprint=fingerprint, study="s", attempt=f"{arm}{seed}", task="distance")
        folder = Path(paths.run_folder(str(tmp_path), "s", f"{arm}-tiny-distance-{seed}-{fingerprint[:8]}"))
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"attempt": f"{arm}{seed}"}))
        predicted = [1] * wrong + [0] * (500 - wrong)
        columns = {"item": list(range(500)), "label": [0] * 500, "prediction": predicted}
        parquet.write_table(
            pyarrow.table(columns | {f"logit_{at}": [0.0] * 500 for at in (0, 1)}), folder / "predictions.parquet"
        )
        return run

    return made


def test_a_difference_of_few_items_and_one_that_seeds_decide_are_not_said_of_items(predicting, tmp_path):
    one = [predicting("base", 100, 7), predicting("new", 150, 7), predicting("new", 150, 8)]
    said = "\n".join(paragraphs(compare("s", one, errors=errors_in(tmp_path))))
    assert "paired; 1 seed). Item sampling alone" in said
    few = [predicting("base", 6), predicting("new", 8)]
    assert "Item sampling alone" not in "\n".join(paragraphs(compare("s", few, errors=errors_in(tmp_path))))
    both = [predicting(arm, wrong + seed, seed + 1) for arm, wrong in (("base", 6), ("new", 130)) for seed in range(3)]
    text = "\n".join(paragraphs(compare("s", both, errors=errors_in(tmp_path))))
    assert "**new**: **worse** in score" in text
    assert "Item sampling alone" not in text


def test_predictions_narrow_the_share_of_the_items(predicting, tmp_path):
    """Both arms are wrong on the same items but for three: their difference is known far better than each score."""
    runs = [predicting(arm, wrong + seed % 2, seed) for arm, wrong in (("base", 100), ("new", 103)) for seed in range(3)]
    narrow, wide = (compare("s", runs, errors=errors_in(output)).sections[0] for output in (tmp_path, None))
    with_them, without = (section.change(section.rows[1], SCORE).evidence.found.items for section in (narrow, wide))
    assert with_them < 0.2 * without


def test_means_are_over_the_tasks_of_the_baseline_and_an_arm_that_lacks_one_has_none(scored):
    runs = [*scored("base", {"sst2": [0.8], "cola": [0.4]}), *scored("new", {"sst2": [0.9]})]
    runs += scored("more", {"sst2": [0.8], "cola": [0.6], "rte": [0.1]})
    table = rows(md(overview.overview(compare("s", runs))))
    assert table["arm"][0] == "score, mean of 2 tasks (without rte)"
    assert (table["base"][0], table["more"][0]) == ("0.600", "0.700<br>+10.0 points △")
    assert table["new"][0].startswith("– (1 of 2 tasks)<br>+10.0 points")
    assert answer(compare("s", [run for run in runs if run.tags["arm"] != "new"])) == [
        "**Score, mean of 2 tasks (without rte)**: more (+10.0 points) has one seed: not evidence."
    ]
    (text,) = answer(compare("s", runs))
    assert text.startswith("**Score**: ")  # the arms share other tasks with the baseline


def test_more_than_two_tasks_that_a_mean_lacks_are_counted(scored):
    runs = [*scored("base", {"sst2": [0.8], "cola": [0.4]})]
    runs += scored("more", {task: [0.6] for task in ("sst2", "cola", "rte", "mrpc", "qnli")})
    assert rows(md(overview.overview(compare("s", runs))))["arm"][0] == "score, mean of 2 of 5 tasks"


@pytest.mark.parametrize(("seeds", "said"), [(2, True), (3, False)])
def test_changes_that_are_not_the_difference_of_the_shown_means_are_explained(scored, seeds, said):
    runs = scored("base", {"sst2": [0.80, 0.81, 0.85], "cola": [0.4, 0.41, 0.42]})
    runs += scored("new", {"sst2": [0.70, 0.71, 0.72][:seeds], "cola": [0.4, 0.41, 0.42][:seeds]})
    text = md(overview.tasks_table(compare("s", runs)))
    assert ("Changes use only the seeds that both arms have." in text) is said


def test_one_seed_names_the_arms_where_others_have_more(scored):
    runs = [*scored("base", {"sst2": [0.8, 0.7]}), *scored("once", {"sst2": [0.9]})]
    runs += scored("twice", {"sst2": [0.9, 0.6]})
    assert paragraphs(compare("s", runs))[-1].startswith("- Only one seed of once: scores are not evidence;")


def test_one_seed_is_said_of_arms_whose_scores_are_too_near_to_say_more(scored):
    """A difference within one item has no direction, and is no more evidence."""
    runs = [*scored("base", {"sst2": [0.8, 0.8]}), *scored("once", {"sst2": [0.9]}), *scored("alike", {"sst2": [0.8]})]
    runs += scored("twice", {"sst2": [0.9, 0.6]})
    assert "Only one seed of alike, once: scores are not evidence" in paragraphs(compare("s", runs))[-1]


def test_the_first_line_says_which_conditions_the_numbers_over_tasks_are_of(make_run):
    result = compare("s", two_settings(make_run))
    one = next(section for section in result.sections if section.facts["finetune.epochs"] == "3")
    compared = paragraphs(result)[0]
    said = f"2 sets of conditions**: the numbers over all tasks are those of {one.conditions} (finetune.epochs=3);"
    assert said in compared
    assert rows(md(overview.overview(result)))["arm"][0] == "score: accuracy"


def test_rows_that_differ_are_named_without_their_hash(make_run):
    several = [(rows, arm) for rows in ("ab12", "cd34") for arm in ("base", "new")]
    runs = [make_run(arm, 0, {SCORE: 0.9}, params={"facts.rows": rows}) for rows, arm in several]
    said = paragraphs(compare("s", runs))[0]
    assert "(different rows);" in said
    assert "cd34" not in said


def test_a_failed_run_is_no_finding_where_the_same_arm_and_seed_finished_since(make_run):
    failed = [make_run(arm, status="failed", params={"finetune.epochs": "1"}) for arm in ("base", "lost")]
    cautions = paragraphs(compare("s", [*failed, *two_settings(make_run)]))[-1]
    assert "**Not finished, and not counted**: lost on sst2 (1 failed)." in cautions


def test_conditions_with_the_baseline_and_more_arms_count_before_newer_ones(make_run):
    fewer = [*two_settings(make_run), make_run(values={SCORE: 0.5}, params={"finetune.epochs": "5"})]
    without = [*two_settings(make_run), *(make_run(arm, params={"finetune.epochs": "5"}) for arm in ("new", "b", "c"))]
    for runs in (fewer, without):
        (one,) = compare("s", runs).selected
        assert one.facts["finetune.epochs"] == "3"


def test_pretrainings_are_those_that_the_selected_runs_start_from(make_run, pretrained):
    runs = []
    for tokens, epochs in (("1", "3"), ("2", "5")):
        runs += [pretrained(arm, fingerprint=arm + tokens, params={"pretrain.tokens": tokens}) for arm in ("base+mlm", "b+mlm")]
        starts = {"base+mlm": "base+mlm" + tokens, "b+mlm": "b+mlm" + tokens}
        runs += [make_run(arm, pretraining=of, params={"finetune.epochs": epochs}) for arm, of in starts.items()]
    runs += [make_run("third", params={"finetune.epochs": "3"})]
    pretraining, task = compare("s", runs).selected
    assert (pretraining.facts["pretrain.tokens"], task.facts["finetune.epochs"]) == ("1", "3")


def two_settings(make_run):
    """Two arms under two settings that no command swept, the second of them newer; an arm has another score in each."""
    return [
        make_run(
            arm, seed, {SCORE: score + other, TOTAL: 100.0}, params={"finetune.epochs": epochs, "task.headline": "accuracy"}
        )
        for epochs, other in (("1", -0.1), ("3", 0.0))
        for arm, score in (("base", 0.82), ("new", 0.9))
        for seed in (0, 1)
    ]


def test_times_without_launches_side_by_side_are_said(timed):
    _, cautions = paragraphs(compare("s", [timed("base", [1.0, 1.0]), timed("new", [2.0, 2.0], session="s2")]))
    assert cautions == "- No verdict on latency: not timed side by side with the baseline, or no noise floor is known."


def test_alone_the_baseline_has_no_findings(scored):
    assert paragraphs(compare("s", scored("base", {"sst2": [0.8]}))) == ["**base** on sst2; 1 seed each."]


def test_pretraining_alone_has_sizes_and_losses(pretrained, ended):
    result = compare("s", [pretrained(), pretrained("new+mlm", ends=ended(2.5))], "base+mlm")
    assert rows(md(overview.overview(result)))["arm"] == ["parameters", "pretraining FLOPs", "held-out masked loss, nats"]
    assert rows(md(overview.overview(result)))["new+mlm"][2] == "2.500<br>−0.500 nats △"


def kinds_of(paragraphs: list[str]) -> list[str]:
    return ["table" if one.startswith("|") else "picture" if one.startswith("!") else "words" for one in paragraphs]


def test_a_long_table_comes_after_what_to_be_careful_of(make_run):
    constant = {"eval/score": 0.8, "eval/majority_score": 0.8, TOTAL: 100.0}
    runs = [make_run(f"arm{index}" if index else "base", values=constant) for index in range(findings.MOST + 2)]
    paragraphs = overview.chapter(Study(compare("s", runs))).paragraphs
    assert paragraphs[3].startswith("- **Not shown to beat the majority baseline**")
    assert kinds_of(paragraphs)[4] == "table"


def test_the_first_line_says_what_the_baseline_has_where_the_others_are_named_by_a_setting(make_run):
    """The label of an arm names what differs from the defaults, which a reader may not know."""
    lifted = {"lifted": '["pretrain.mask_rate"]'}
    runs = [
        make_run(arm, params={"pretrain.mask_rate": rate}, **lifted)
        for arm, rate in (("base+mlm", "0.3"), ("base+mlm mask_rate=0.05", "0.05"), ("base+mlm mask_rate=0.4", "0.4"))
    ]
    line = findings.compared(compare("s", runs, "base+mlm"))
    assert line.startswith("base+mlm mask_rate=0.05, base+mlm mask_rate=0.4 against **base+mlm** (mask_rate=0.3) on sst2;")
    assert "(" not in findings.compared(compare("s", runs, "base+mlm mask_rate=0.4")).partition(" on ")[0]


def test_a_baseline_without_phases_does_not_name_their_shares(make_run):
    lifted = {tags.LIFTED: '["pretrain.objective", "pretrain.shares"]'}
    shares = {"base+mlm": "[]", "base+clm-mlm shares=[0.25,0.75]": "[0.25, 0.75]"}
    runs = [make_run(arm, params={"pretrain.shares": value}, **lifted) for arm, value in shares.items()]
    assert " against **base+mlm** on sst2;" in findings.compared(compare("s", runs, "base+mlm"))


def test_the_first_line_tells_seeds_from_pretrainings(make_run):
    plain = [make_run("base", seed, {SCORE: 0.5}) for seed in (0, 1)]
    more = [make_run("base+mlm", seed, {SCORE: 0.5}, pretrain_seed=str(seed), pretraining=f"p{seed}") for seed in (0, 1)]
    line = findings.compared(compare("s", [*plain, *more], "base"))
    assert "on sst2; 2 seeds each, or 2 pretraining runs × 1 seed each." in line
    for run in plain:
        run.params["model.random_weights"] = "True"
    line = findings.compared(compare("s", [*plain, *more], "base"))
    assert line.endswith("on sst2; 2 seeds each (random weights), or 2 pretraining runs × 1 seed each.")
    uneven = [make_run(arm, seed) for arm, seeds in (("base", 3), ("albert", 1), ("gpt", 2)) for seed in range(seeds)]
    assert "on sst2; 1 to 3 seeds each." in findings.compared(compare("s", uneven))


@pytest.mark.parametrize(
    ("count", "begun", "first", "beside"),
    [
        (2, 5, "the first run of this study", "; 2 pretraining runs, shared with another study, had already started"),
        (1, 5, "the first run of this study", "; 1 pretraining run, shared with another study, had already started"),
        (2, 20, "the first run", ""),
    ],
)
def test_a_hypothesis_names_pretrainings_that_another_study_had_begun(make_run, count, begun, first, beside):
    """The study's own runs come after it; what it shares may have begun before."""
    said = {tags.HYPOTHESIS: "no difference", tags.HYPOTHESIS_TIME: "10", tags.STUDY: "later"}
    own = [make_run("base", seed, {SCORE: 0.8}) for seed in range(2)]
    own = [replace(run, started=30, tags=run.tags | said) for run in own]
    shared = [make_run("base", seed, {"pretrain/masked_loss": 3.0}, task=tags.PRETRAINING_TASK) for seed in range(count)]
    shared = [replace(run, started=begun, tags=run.tags | {tags.STUDY: "earlier"}) for run in shared]
    text, found = parts(overview.hypotheses(compare("later", [*shared, *own], "base")))
    assert found == "- **Open**: no verdict here on what it mentions."
    assert text.startswith(f"**Hypothesis**, written before {first}, on 1970-01-01 00:00 UTC{beside}: no difference")


@pytest.mark.parametrize(
    ("hypothesis", "found"),
    [
        ("worse loses points", ["- **Shown to be worse**: worse in score: −5.2 [−7.9, −2.4] points."]),
        (
            "small costs nothing in score and has fewer parameters",
            ["- **Shown to be equivalent**: small in score:", "- **Shown to be better**: small in parameters: −75.0 %"],
        ),
        ("no arm loses", ["- **Shown to be equivalent**: small in score:", "- **Shown to be worse**: worse in score:"]),
        ("smaller is not named", ["- **Shown to be equivalent**: small in score:", "- **Shown to be worse**: worse in score:"]),
        ("small saves inference memory", ["- **Shown to be equivalent**: small in inference memory: "]),
    ],
)
def test_beside_a_hypothesis_stand_the_verdicts_on_what_it_names(result, hypothesis, found):
    first, *lines = overview._found_of(result, hypothesis)
    assert (
        first == "**Open**: it has no condition that can be checked, such as `shared score > -2`. Verdicts on what it mentions:"
    )
    starts = [text.removeprefix("- ") for text in found]
    assert len(lines) == len(starts), lines
    assert all(any(line.startswith(start) for line in lines) for start in starts), lines


@pytest.mark.parametrize("arms", [findings.MOST + 1, findings.MOST])
def test_many_verdicts_that_the_tables_have_are_not_repeated(scored, arms):
    runs = [run for arm in range(arms) for run in scored(f"arm{arm}", {"sst2": [0.5, 0.51, 0.5]})]
    first, *others = overview._found_of(compare("s", [*scored("base", {"sst2": [0.8, 0.81, 0.79]}), *runs]), "they differ")
    assert first.endswith("Verdicts on what it mentions: see the tables below.") is (arms > findings.MOST)
    assert len(others) == (0 if arms > findings.MOST else arms)


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ("worse score < -1", "Held"),
        ("Worse score > −2", "Failed"),
        ("worse score < -5.2", "Open"),
        ("small parameters < -60", "Held"),
        ("small parameters > -60.5", "Failed"),
        ("worse inference memory < -45", "Held"),
    ],
)
def test_a_part_of_a_hypothesis_is_held_or_failed_where_the_whole_interval_agrees(result, part, word):
    (line,) = overview._found_of(result, f"It is so: {part}, smaller score > 3.")
    name, _, number = part.rpartition(" ")
    assert line.startswith(f"**{word}**: {name.lower().replace('<', '&lt;').replace('>', '&gt;')} {number}: −")


def test_a_part_of_a_hypothesis_on_a_single_run_is_open(make_run):
    runs = [make_run(name, values={SCORE: score, ITEMS: 400}) for name, score in (("base", 0.5), ("a", 0.9))]
    (line,) = overview._found_of(compare("s", runs), "a score > 5")
    assert line == "**Open**: a score &gt; 5: +40.0 points."


@pytest.mark.parametrize(("bound", "word"), [("-20", "Held"), ("-40", "Failed")])
def test_a_part_of_a_hypothesis_on_pretraining_flops_is_in_percent(pretrained, bound, word):
    flops = {"base+mlm": 1e12, "albert+mlm": 7e11}
    runs = [pretrained(arm, seed, {"pretrain/flops": of_arm}) for arm, of_arm in flops.items() for seed in (0, 1)]
    (line,) = overview._found_of(compare("s", runs, "base+mlm"), f"albert+mlm pretraining FLOPs < {bound}")
    assert line == f"**{word}**: albert+mlm pretraining FLOPs &lt; {bound}: −30.0 %."


WARNED = {tags.WARNING: "the loss still fell: raise finetune.epochs (2)", tags.NOTES: "falling"}


def test_a_training_that_went_wrong_is_marked_in_the_first_table_and_said_once(make_run, study_of, no_study_is_small):
    runs = [
        make_run("base", 0, {SCORE: 0.9, MAJORITY: 0.5, ITEMS: 400}),
        make_run("b", 0, {SCORE: 0.8, MAJORITY: 0.5}, **WARNED),
    ]
    low = {tags.WARNING: "score 0.4 is not above the majority baseline", tags.NOTES: "baseline"}
    runs.append(make_run("c", 0, {SCORE: 0.4, MAJORITY: 0.5, ITEMS: 400}, **low))
    comparison = compare("s", runs)
    cells = rows(md(overview.overview(comparison)))
    assert {arm: "†" in cells[arm][0] for arm in ("base", "b", "c")} == {"base": False, "b": True, "c": True}
    said = "\n".join(parts([*findings.cautions(comparison), *bullets(findings.of_trainings(comparison))]))
    assert "**Training warnings**: b on sst2, seed 0 (the loss still fell: raise finetune.epochs (2))." in said
    assert "Not shown to beat the majority baseline**, which ignores the text: c on sst2" in said  # once, in these words
    assert "**Other warnings in 1 of 3 training runs**" in said  # what is said of c is no second warning
    assert overview.NOTES["†"] in "\n".join(overview.chapter(study_of(comparison)).paragraphs)


def test_seeds_of_an_arm_with_one_warning_are_said_together(make_run):
    runs = [make_run("base", seed, {SCORE: 0.9, MAJORITY: 0.5, ITEMS: 400}, **WARNED) for seed in range(3)]
    comparison = compare("s", runs)
    said = "\n".join(findings.of_trainings(comparison))
    assert "- **Warnings in 3 of 3 training runs**: the loss still fell at the end." in parts(findings.cautions(comparison))[0]
    assert f"**Training warnings**: base on sst2, seeds 0, 1, 2 ({WARNED[tags.WARNING]})." in said


def test_seeds_with_one_kind_of_warning_have_the_text_of_the_first(make_run):
    runs = [
        make_run("base", seed, {SCORE: 0.9}, **{tags.NOTES: "falling", tags.WARNING: f"it fell to {seed}"}) for seed in range(3)
    ]
    (said,) = findings.of_trainings(compare("s", runs))
    assert said == "**Training warnings**: base on sst2, seeds 0, 1, 2 (the first: it fell to 0)."


def test_arms_at_ceiling_on_several_tasks_are_named_once():
    assert findings._places([("bag", "a"), ("order", "a"), ("bag", "b")]) == "a, b on bag; a on order"
    assert findings._places([("bag", "a"), ("order", "a")]) == "a on bag and order"


def test_verdicts_stand_below_the_sentence_that_an_open_hypothesis_gets(make_run):
    said = {tags.HYPOTHESIS: "new is better", tags.HYPOTHESIS_TIME: "10", tags.STUDY: "s"}
    runs = [make_run(arm, seed, {SCORE: 0.8 + seed / 100}, **said) for arm in ("base", "new") for seed in range(3)]
    _, sentence, verdicts = overview.hypotheses(compare("s", runs, "base"))
    assert sentence.startswith("**Open**")
    assert all(one.startswith("**") and "new in score" in one for one in verdicts.items)


def test_a_sign_says_one_thing_where_a_pretraining_has_a_warning_and_a_score_is_low(make_run):
    runs = [
        make_run("base", 0, {SCORE: 0.4, MAJORITY: 0.5, ITEMS: 400}),
        make_run("base", 0, {"pretrain/masked_loss": 6.5}, task="pretraining", **WARNED),
    ]
    table, notes = parts(overview.tasks_table(compare("s", runs)))
    assert [sign for cell in rows(table)["base"] for sign in "†‡" if sign in cell] == ["†", "‡"]
    assert notes.split("\n") == [overview.NOTES["†"], overview.NOTES["‡"]]
    alone, note = parts(
        overview.tasks_table(compare("s", [make_run("base", 0, {SCORE: 0.9, MAJORITY: 0.5, ITEMS: 400}), runs[1]]))
    )
    assert (note, "‡" in alone) == (overview.NOTES["†"], False)


def test_an_arm_that_is_another_one_is_named(make_run):
    runs = [make_run("base", 0, {SCORE: 0.9}), make_run("other", 0, {SCORE: 0.9}, **{tags.SAME_AS: "base"})]
    assert "**The same model and recipe under two names**: other is base." in "\n".join(
        parts(findings.cautions(compare("s", runs)))
    )


@pytest.mark.parametrize(("cpus", "said"), [(1.5, ["**Timed on a busy machine**: 6 of 6 launches."]), (0.1, [])])
def test_a_busy_machine_is_named_first(timed, cpus, said):
    runs = [timed(arm, [4.0, 4.1, last], cpus=cpus) for arm, last in (("base", 4.2), ("other", 4.3))]
    lines = [item for block in findings.cautions(compare("s", runs, "base")) for item in block.items]
    assert [line for line in lines if "busy" in line] == said


@pytest.mark.parametrize(("again", "said"), [(0.3, True), (0.0, False)])
def test_a_difference_below_the_noise_floor_is_named(timed, again, said):
    """The rounds are paired, so that they show what two timings of one model may hide."""
    times = [4.0, 4.2, 3.9, 4.1, 4.3, 4.0]
    second = [time * (1 + again * (-1) ** place / 2) for place, time in enumerate(times)]
    other = [1.07 * math.sqrt(one * two) for one, two in zip(times, second, strict=True)]
    runs = [timed("base", times), timed("base", second, replicate="true"), timed("other", other)]
    lines = [item for block in findings.cautions(compare("s", runs, "base")) for item in block.items]
    assert (
        any(line.startswith("**Significant over rounds, but below the noise floor**: other in latency (+7") for line in lines)
        is said
    )
    (text,) = answer(compare("s", runs, "base"))
    assert bool(re.search(r"worse in latency \(\+7\.\d %, below the noise floor\)", text)) is said
