"""The first two sentences of a report say no more and no less than its verdicts."""

import pytest

from harness.comparison.compare import compare
from harness.reports.chapters import overview
from harness.reports.reading.study import Study
from harness.reports.writing.answer import answer

SCORE, TOTAL, MEMORY, MAJORITY = "eval/score", "model/params_total", "inference/peak_memory_bytes", "eval/majority_score"
ITEMS = "eval/examples"


BASE = [0.80, 0.81, 0.79]


def test_score_comes_before_cost_and_each_arm_has_its_verdict(scored):
    runs = scored("base", {"sst2": BASE}, {TOTAL: 1000.0})
    runs += scored("lost", {"sst2": [0.70, 0.71, 0.69]}, {TOTAL: 250.0})
    runs += scored("alike", {"sst2": [0.80, 0.811, 0.789]}, {TOTAL: 1000.0})
    runs += scored("open", {"sst2": [0.90, 0.70, 0.82]}, {TOTAL: 2000.0})
    assert answer(compare("s", runs)) == [
        "**Score**: lost (−10.0 points) is **worse** than base; alike (within 1 point) is equivalent to base; open "
        "(+0.7 points) is inconclusive. **Cost**: lost is better in parameters (−75.0 %); open is worse in parameters "
        "(+100.0 %)."
    ]


def test_a_task_where_an_arm_is_worse_is_named_where_the_mean_says_nothing(scored):
    runs = scored("base", {"sst2": BASE, "cola": [0.4, 0.6, 0.9]}, {TOTAL: 1000.0})
    runs += scored("new", {"sst2": [0.70, 0.71, 0.69], "cola": [0.9, 0.5, 0.8]}, {TOTAL: 1200.0})
    (text,) = answer(compare("s", runs))
    assert text.startswith("**Score, mean of 2 tasks**: new (")
    assert "; worse on sst2: −10.0 points) is inconclusive. " in text
    assert text.endswith("**Cost**: new is worse in parameters (+20.0 %).")


def test_arms_that_solve_what_the_baseline_solves_are_said_to(scored):
    """Nothing shows them to be the same: harder tasks might tell them apart."""
    solved = {"order": [1.0, 1.0, 0.998], "bag": [0.998, 1.0, 0.996]}
    runs = scored("base", solved, {MAJORITY: 0.5})
    runs += scored("new", {"order": [1.0, 0.998, 1.0], "bag": [1.0, 0.996, 0.994]}, {MAJORITY: 0.5})
    runs += scored("half", {"order": [1.0, 0.998, 1.0], "bag": [0.9, 0.99, 0.7]}, {MAJORITY: 0.5})
    assert answer(compare("s", runs)) == [
        "**Score, mean of 2 tasks**: new (−0.1 points) solves all tasks, as base does; half (−6.7 points) is inconclusive."
    ]


def test_one_seed_is_no_evidence(make_run):
    runs = [make_run("base", values={SCORE: 0.8}), make_run("new", values={SCORE: 0.9})]
    assert answer(compare("s", runs)) == ["**Score**: new (+10.0 points) has one seed: not evidence."]


def test_scores_of_arms_that_have_not_learned_are_no_comparison(scored):
    runs = [run for arm in ("base", "new") for run in scored(arm, {"sst2": BASE}, {MAJORITY: 0.9})]
    (text,) = answer(compare("s", runs))
    assert text == "**Score**: no model beats the majority baseline, so scores can't rank them."


@pytest.mark.parametrize(("step", "span"), [(0.01, "−18.0 to −10.0"), (0.0, "−10.0")])
def test_of_many_arms_verdicts_are_counted_and_equal_ones_share_the_first_place(scored, step, span):
    runs = scored("base", {"sst2": BASE}, {TOTAL: 1000.0})
    for number in range(9):
        scores = [score - 0.1 - number * step for score in BASE]
        runs += scored(f"arm{number}", {"sst2": scores}, {TOTAL: 500.0 if number < 2 else 900.0})
    assert answer(compare("s", runs)) == [
        f"**Score**: none is better; 9 arms ({span} points) are **worse** than base. "
        "**Cost**: arm0, arm1 are best in parameters (−50.0 %). arm0 and arm1 are worse in score."
    ]


def test_the_best_of_what_is_measured_shares_its_place_with_those_within_the_margin(make_run):
    memories = {"base": 1e9, "half": 5e8, "near": 5.1e8, "third": 6e8, "fourth": 7e8}
    runs = [
        make_run(arm, seed, {SCORE: score, ITEMS: 1e6, MEMORY: size + 1e5 * seed})
        for arm, size in memories.items()
        for seed, score in enumerate(BASE)
    ]
    (text,) = answer(compare("s", runs))
    assert text.endswith("**Cost**: half, near are best in inference memory (−49.0 to −50.0 %).")


def test_what_each_of_few_arms_costs_is_said_arm_by_arm(make_run):
    costs = {"base": (1e9, 1000.0), "large": (2e9, 2000.0), "lean": (5e8, 400.0), "mixed": (2e9, 400.0)}
    runs = [
        make_run(arm, seed, {SCORE: score, ITEMS: 1e6, MEMORY: size + 1e5 * seed, TOTAL: total})
        for arm, (size, total) in costs.items()
        for seed, score in enumerate(BASE)
    ]
    (text,) = answer(compare("s", runs))
    each = "large is worse in parameters (+100.0 %) and inference memory (+100.0 %)"
    each += "; lean is better in parameters (−60.0 %) and inference memory (−50.0 %)"
    each += "; mixed is better in parameters (−60.0 %), but worse in inference memory (+100.0 %)."
    assert text.endswith(f"**Cost**: {each}")


def test_none_is_called_the_best_where_one_without_a_verdict_was_measured_to_be_better(make_run):
    memories = {"base": (1e9, 1.01e9, 9.9e8), "half": (5e8, 5.1e8, 5e8), "noisy": (1e7, 9e8, 2e7)}
    runs = [
        make_run(arm, seed, {SCORE: BASE[seed], ITEMS: 1e6, MEMORY: size})
        for arm, sizes in memories.items()
        for seed, size in enumerate(sizes)
    ]
    (text,) = answer(compare("s", runs))
    assert text.endswith("**Cost**: half is better in inference memory (−49.7 %).")
    (text,) = answer(compare("s", [run for run in runs if run.tags["arm"] != "noisy"]))
    assert text.endswith("**Cost**: half is better in inference memory (−49.7 %).")


@pytest.mark.parametrize("constant", [0.5, 0.9])
def test_one_arm_says_what_it_reached_and_that_nothing_is_compared(scored, constant):
    runs = scored("base", {"sst2": BASE}, {TOTAL: 1000.0, MAJORITY: constant})
    low = ", not shown to beat the majority baseline" * (constant == 0.9)
    assert answer(compare("s", runs)) == [
        f"**base**: score 0.800 (accuracy on sst2{low}); only one arm, nothing to compare. **Cost**: parameters 1.00 k."
    ]


def test_without_a_run_of_the_baseline_the_report_opens_with_that(make_run):
    runs = [make_run("base", status="failed"), make_run("new", values={SCORE: 0.8})]
    comparison = compare("s", runs, baseline="base")
    assert answer(comparison) == []
    (first, *_) = overview.chapter(Study(comparison, lambda name, some: {})).paragraphs
    assert first.startswith("**No changes: no run of the baseline base finished**")
