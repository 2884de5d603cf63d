"""The chapter on trade-offs."""

import pytest
from texts import line

from harness.comparison.compare import compare
from harness.plugins.chapters import trade_offs


@pytest.fixture
def chapter(make_run, study_of, typical):
    """Of arms given as name -> (tasks, shrink, scores)."""

    def made(arms: dict[str, tuple[tuple[str, ...], float, list[float]]]) -> str:
        runs = [
            make_run(name, seed, typical(shrink, score), task=task)
            for name, (tasks, shrink, scores) in arms.items()
            for task in tasks
            for seed, score in enumerate(scores)
        ]
        return "\n".join(trade_offs.chapter(study_of(compare("s", runs))).paragraphs)

    return made


def test_arms_are_placed_against_every_cost_that_was_measured(chapter):
    text = chapter({"base": (("a", "b"), 1, [0.8, 0.81]), "small": (("a", "b"), 2, [0.9, 0.91])})
    assert "| arm | score | parameters | forward FLOPs | latency, wall clock | inference peak memory |" in text
    assert line(text, "base") == ["base", "0.805", *["dominated by small<br>< 1 %"] * 4]
    assert line(text, "small") == ["small", "0.905", *["**Pareto-optimal**<br>> 99 %"] * 4]
    assert "Bootstrap over only 2 seeds" in text


def test_enough_replicates_need_no_warning_and_one_has_no_probability(chapter):
    many = [0.8, 0.82, 0.81, 0.79, 0.8]
    assert "are few" not in chapter({"base": (("a",), 1, many), "small": (("a",), 2, many)})
    text = chapter({"base": (("a",), 1, [0.8]), "small": (("a",), 2, [0.7])})
    assert line(text, "base")[2] == "not dominated (not evidence)"
    assert "**" not in text
    assert trade_offs.ALONE in text


def test_arms_that_ran_other_tasks_are_compared_on_what_they_share(chapter):
    text = chapter({
        "base": (("a", "b"), 1, [0.8, 0.8]),
        "small": (("a", "b"), 2, [0.7, 0.7]),
        "late": (("b",), 2, [0.9, 0.9]),
    })  # fmt: skip
    assert "### Score against cost: a" in text
    assert "### Score against cost: b" in text
    assert "Left out, without a score on these tasks: late." in text


def test_the_scores_shown_are_those_that_decide_where_an_arm_has_more_replicates(chapter):
    """A luckier seed that one arm has alone puts it behind none, so that its score must not show it either."""
    text = chapter({"base": (("a",), 1, [0.5, 0.52, 0.9]), "small": (("a",), 2, [0.55, 0.57])})
    assert line(text, "base") == ["base", "0.510 ‡", *["dominated by small<br>< 1 %"] * 4]
    assert line(text, "small")[1] == "0.560 ‡"
    assert "means over tasks and over the seeds that all arms share" in " ".join(text.split())


def test_an_arm_without_a_cost_has_a_dash_in_its_column(make_run, study_of, typical):
    runs = [make_run(arm, 0, typical(size, 0.8)) for arm, size in (("base", 1), ("small", 2), ("untimed", 1))]
    del runs[-1].metrics["inference/latency_ms_p50"]
    text = "\n".join(trade_offs.chapter(study_of(compare("s", runs))).paragraphs)
    assert line(text, "base")[4] == "dominated by small"
    assert line(text, "untimed")[3:5] == ["dominated by small", "–"]


def test_equal_costs_are_no_trade_off(chapter, make_run, study_of):
    """Not even for the arm of the highest score; an arm without the cost may have another one."""
    arms = {"base": (("a",), 1, [0.8, 0.81]), "tuned": (("a",), 1, [0.9, 0.91])}
    equal = "parameters, forward FLOPs, latency, wall clock, inference peak memory"
    assert chapter(arms) == f"## Trade-offs\nNo trade-off on a: all arms have equal {equal}."
    more = chapter(arms | {"small": (("b",), 2, [0.9, 0.9]), "large": (("b",), 1, [0.9, 0.9])})
    assert more.startswith(f"## Trade-offs\n{trade_offs.INTRO}\n### Score against cost: b\n")
    assert more.endswith(f"\nNo trade-off on a: all arms have equal {equal}.")
    runs = [make_run(arm, 0, {"eval/score": 0.8, "model/params_total": 5.0}) for arm in ("base", "tuned")]
    text = "\n".join(
        trade_offs.chapter(study_of(compare("s", [*runs, make_run("other", values={"eval/score": 0.8})]))).paragraphs
    )
    assert "all arms have equal" not in text


def test_scores_that_are_no_evidence_are_marked(make_run, study_of, typical):
    """As in the tables above: a training warning, no task above the majority baseline, selected on the reported rows."""
    runs = [make_run(arm, 0, typical(size, score), task=task) for arm, size, score in (
        ("base", 1, 0.8), ("small", 2, 0.51), ("half", 4, 0.8)) for task in ("a", "b")]  # fmt: skip
    runs[-1].metrics["eval/score"] = 0.51
    runs[0].tags["warning"] = "collapsed"
    runs[-2].params["tuned.selected_on"] = "validation"
    text = "\n".join(trade_offs.chapter(study_of(compare("s", runs))).paragraphs)
    assert [line(text, arm)[1] for arm in ("base", "small", "half")] == ["0.800 †", "0.510 ‡", "0.655 §"]
    assert all(f"\n{sign} " in text for sign in "†‡§")


def test_one_arm_or_no_score_gives_no_chapter(chapter, make_run, study_of):
    assert chapter({"base": (("a",), 1, [0.8])}) == ""
    runs = [make_run(arm, 0, {"model/params_total": 5.0}) for arm in ("base", "small")]
    assert trade_offs.chapter(study_of(compare("s", runs))).sections == []
    runs = [make_run(arm, 0, {"eval/score": 0.5}) for arm in ("base", "small")]
    assert trade_offs.chapter(study_of(compare("s", runs))).sections == []


def test_an_arm_that_was_not_pretrained_takes_no_probability_from_the_others(make_run, study_of, typical):
    runs = [make_run("base", seed, typical(1, 0.8 + seed / 100), pretrain_seed=str(seed)) for seed in range(5)]
    runs += [make_run("small", seed, typical(2, 0.7 + seed / 100), pretrain_seed=str(seed)) for seed in range(5)]
    runs += [make_run("random", seed, typical(1, 0.5 + seed / 100)) for seed in range(5)]
    text = "\n".join(trade_offs.chapter(study_of(compare("s", runs))).paragraphs)
    assert line(text, "base")[2] == line(text, "small")[2] == "**Pareto-optimal**<br>> 99 %"
    assert line(text, "random")[2] == "dominated by base<br>< 1 %"
    assert trade_offs.ALONE not in text
