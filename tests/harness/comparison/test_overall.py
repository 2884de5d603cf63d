"""Every arm over all tasks: means by hand, pairs that are kept, and false verdicts of simulated studies."""

import math

import numpy as np
import pytest

from harness.comparison import overall
from harness.comparison.compare import Comparison, compare
from harness.comparison.verdicts import Verdict

SCORE, TOTAL, MEMORY = "eval/score", "model/params_total", "inference/peak_memory_bytes"
RATE, LATENCY, ITEMS = "finetune/tokens_per_s", "inference/latency_ms_p50", "eval/examples"
TASKS = ("sst2", "cola", "rte")


def comparison(make_run, scores: dict[str, dict[str, list[float]]], items: int | None = None) -> Comparison:
    """Arm -> task -> score of each seed."""
    beside = {ITEMS: items} if items else {}
    return compare(
        "s",
        [
            make_run(arm, seed, {SCORE: score} | beside, task=task)
            for arm, tasks in scores.items()
            for task, of_seeds in tasks.items()
            for seed, score in enumerate(of_seeds)
        ],
    )


def test_score_is_averaged_over_tasks_for_every_seed_before_it_is_compared(make_run):
    scores = {"base": {"sst2": [0.8, 0.7], "cola": [0.2, 0.3]}, "new": {"sst2": [0.9, 0.8], "cola": [0.2, 0.2]}}
    over = overall.of_tasks(comparison(make_run, scores))
    found = over.spread("base", SCORE)
    assert (found.n, found.mean, found.sd) == (2, 0.5, pytest.approx(0, abs=1e-12))
    change = over.change("new", SCORE)  # of the seeds: 0.55 - 0.50 and 0.50 - 0.50
    assert change.n == 2
    assert (change.absolute, change.baseline_mean) == (pytest.approx(0.025), pytest.approx(0.5))
    half = 12.7062 * 0.05 / 2  # Student's t of one degree of freedom, sd 0.05 / sqrt(2) over sqrt(2)
    assert change.interval == pytest.approx((0.025 - half, 0.025 + half), rel=1e-4)
    assert over.change("base", SCORE) is None


def test_changes_are_over_the_tasks_that_both_have(make_run):
    over = overall.of_tasks(
        comparison(make_run, {"base": {"sst2": [0.8], "cola": [0.2]}, "new": {"sst2": [0.9], "rte": [0.1]}})
    )
    assert [section.task for section in over.shared("new", SCORE)] == ["sst2"]
    assert over.spread("new", SCORE).mean == pytest.approx(0.9)  # over the tasks of the baseline
    assert (over.change("new", SCORE).absolute, over.change("new", SCORE).baseline_mean) == pytest.approx((0.1, 0.8))
    apart = overall.of_tasks(comparison(make_run, {"base": {"sst2": [0.8]}, "new": {"rte": [0.1]}}))
    assert apart.change("new", SCORE) is None


def test_only_seeds_that_have_every_task_are_paired(make_run):
    scores = {"base": {"sst2": [0.8, 0.8, 0.8], "cola": [0.4, 0.4]}, "new": {"sst2": [0.9, 0.7, 0.0], "cola": [0.4, 0.4, 0.4]}}
    change = overall.of_tasks(comparison(make_run, scores)).change("new", SCORE)
    assert (change.n, change.absolute) == (2, pytest.approx(0.0))


def test_one_item_in_every_task_is_the_floor(make_run):
    scores = {"base": {"sst2": [0.8] * 3, "cola": [0.4] * 3}, "new": {"sst2": [0.83] * 3, "cola": [0.4] * 3}}
    change = overall.of_tasks(comparison(make_run, scores, items=50)).change("new", SCORE)
    assert change.absolute == pytest.approx(0.015)
    assert change.evidence.floor == pytest.approx(1 / 50)
    assert change.verdict is Verdict.INCONCLUSIVE


def test_one_item_is_that_of_the_smaller_number_of_items(make_run):
    runs = [make_run(arm, 0, {SCORE: 0.8, ITEMS: items}) for arm, items in (("base", 872), ("new", 100))]
    section = compare("s", runs).sections[0]
    assert section.against(section.row_of("new")).item == 1 / 100


def test_counts_are_means_and_memories_geometric_means(make_run):
    def runs(arm: str, sizes: tuple[float, float], peaks: tuple[float, float]):
        both = zip(TASKS, sizes, peaks, strict=False)
        return [make_run(arm, values={TOTAL: size, MEMORY: peak}, task=task) for task, size, peak in both]

    over = overall.of_tasks(compare("s", [*runs("base", (100, 300), (1e6, 4e6)), *runs("new", (50, 150), (1e6, 1e6))]))
    assert over.spread("base", TOTAL).mean == 200
    assert over.spread("base", MEMORY).mean == pytest.approx(2e6)
    assert (over.change("new", TOTAL).percent, over.change("new", TOTAL).verdict) == (-50, Verdict.BETTER)
    assert over.change("new", MEMORY).percent == pytest.approx(-50)
    assert over.change("new", MEMORY).verdict is Verdict.DIRECTION_BETTER  # one seed


def test_tasks_that_share_their_launches_count_once(timed):
    times = {"base": [10.0, 10.2, 9.9, 10.1], "new": [12.0, 12.1, 11.9, 12.2], "again": [10.1, 10.1, 10.0, 10.0]}
    runs = [
        timed("base" if arm == "again" else arm, each, task=task, replicate="true" if arm == "again" else "false")
        for arm, each in times.items()
        for task in TASKS[:2]
    ]
    result = compare("s", runs)
    over, one = overall.of_tasks(result), result.sections[0]
    pooled, alone = over.change("new", LATENCY), one.change(one.row_of("new"), LATENCY)
    assert pooled.by_round
    assert (pooled.n, pooled.interval, pooled.verdict) == (4, pytest.approx(alone.interval), alone.verdict)
    assert over.spread("base", LATENCY).n == 4


def test_tasks_with_launches_of_their_own_are_averaged_round_by_round(timed):
    first, second = {"base": [10.0, 10.0, 10.0], "new": [11.0, 12.0, 13.0]}, {"base": [20.0] * 3, "new": [26.0, 24.0, 22.0]}
    runs = [
        timed(arm, each, task=task) for task, times in zip(TASKS, (first, second), strict=False) for arm, each in times.items()
    ]
    change = overall.of_tasks(compare("s", runs)).change("new", LATENCY)
    logs = [(math.log(one / 10) + math.log(other / 20)) / 2 for one, other in zip(first["new"], second["new"], strict=True)]
    assert change.percent == pytest.approx(100 * math.expm1(np.mean(logs)))
    assert change.evidence.found.error == pytest.approx(np.std(logs, ddof=1) / math.sqrt(3), rel=1e-6)
    assert change.verdict is Verdict.OPEN  # there is no noise floor


def test_sessions_are_independent_of_one_another(timed):
    runs = [
        timed(arm, times, seed, task=task, session=session)
        for task, session in (("sst2", "s1"), ("cola", "s2"))
        for arm, times in {"base": [10.0, 10.0, 10.0], "new": [11.0, 12.0, 13.0]}.items()
        for seed in (0, 1)
    ]
    over = overall.of_tasks(compare("s", runs))
    assert over.spread("new", LATENCY).sd is None  # no round, and no seed, is of both
    change = over.change("new", LATENCY)
    error = np.std(np.log([1.1, 1.2, 1.3]), ddof=1) / math.sqrt(3)
    assert (change.n, change.evidence.found.error) == (6, pytest.approx(error / math.sqrt(2), rel=1e-6))
    assert change.evidence.found.freedom == pytest.approx(4)


def test_freedom_of_sessions_that_scatter_unequally_is_satterthwaites(timed):
    """A session that scatters far more than the other brings nearly all of the error, and hardly more freedom than its own."""
    runs = [
        timed(arm, times, task=task, session=session)
        for task, session, new in (("sst2", "s1", [11.0, 12.0, 13.0]), ("cola", "s2", [12.0, 12.1, 12.2]))
        for arm, times in {"base": [10.0, 10.0, 10.0], "new": new}.items()
    ]
    found = overall.of_tasks(compare("s", runs)).change("new", LATENCY).evidence.found
    squares = [np.var(np.log(ratios), ddof=1) for ratios in ([1.1, 1.2, 1.3], [1.2, 1.21, 1.22])]
    assert found.freedom == pytest.approx(sum(squares) ** 2 / sum(square**2 / 2 for square in squares), rel=1e-6)
    assert found.freedom < 2.1


def test_without_launches_side_by_side_there_is_a_number_and_no_verdict(timed):
    runs = [timed("base", [10.0, 10.0], session="s1"), timed("new", [12.0, 12.0], session="s2")]
    change = overall.of_tasks(compare("s", runs)).change("new", LATENCY)
    assert (change.percent, change.interval, change.verdict) == (pytest.approx(20), None, Verdict.OPEN)


def test_each_task_has_its_change_of_the_score(make_run):
    scores = {"base": {"sst2": [0.8], "cola": [0.2], "rte": [0.5]}, "new": {"sst2": [0.7], "cola": [0.4], "rte": [0.2]}}
    changes = overall.of_tasks(comparison(make_run, scores)).of_scores("new")
    assert {section.task: round(change.absolute, 6) for section, change in changes} == {"sst2": -0.1, "cola": 0.2, "rte": -0.3}


def test_pretrainings_have_no_change_where_the_baseline_was_not_pretrained(make_run, pretrained):
    result = compare("s", [make_run(values={SCORE: 0.8}), pretrained(), make_run("base+mlm", values={SCORE: 0.9})])
    over = overall.of_pretrainings(result)
    assert over.spread("base+mlm", "pretrain/masked_loss").mean == 3.0
    assert over.change("base+mlm", "pretrain/masked_loss") is None


@pytest.mark.long
@pytest.mark.parametrize(("arms", "seeds", "studies"), [(1, 3, 400), (6, 3, 100), (2, 5, 200)])
def test_equal_arms_are_seldom_told_apart_over_several_tasks(make_run, arms: int, seeds: int, studies: int):
    rng = np.random.default_rng([arms, seeds])
    labels = ["base", *(f"arm{index}" for index in range(arms))]
    alarms = 0
    for _ in range(studies):
        luck = 0.7 + rng.normal(0, 0.02, (1, len(TASKS), seeds)) + rng.normal(0, 0.02, (arms + 1, len(TASKS), seeds))
        right = rng.binomial(200, luck) / 200
        scores = {label: dict(zip(TASKS, own.tolist(), strict=True)) for label, own in zip(labels, right, strict=True)}
        over = overall.of_tasks(comparison(make_run, scores, items=200))
        alarms += any(over.change(label, SCORE).verdict in (Verdict.BETTER, Verdict.WORSE) for label in labels[1:])
    assert alarms / studies <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)
