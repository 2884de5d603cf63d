"""All pairs of arms: changes as those against a baseline, letters, intervals of ranks, probabilities of being best."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow
import pytest
from scipy import stats

from harness import tags
from harness.comparison import paired
from harness.comparison.compare import compare
from harness.comparison.paired import Design
from harness.plugins.judge.ranks import Ranking, drawn, groups_of, lettered, rankings, runs_of
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.store import Packed

SCORE, LATENCY = "eval/score", "inference/latency_ms_p50"
NOISE = {"base": (0, 2, -1, 1, -2), "a": (1, -1, 2, -2, 0), "b": (-2, 0, 1, 2, -1), "c": (2, 1, 0, -1, -2)}


def of_levels(scored, levels: dict[str, float], tasks: tuple[str, ...] = ("rte",), **more) -> list[Ranking]:
    """Arms of these mean scores, each with five seeds of its own noise of 1 to 2 thousandths."""
    runs = [
        run
        for arm, level in levels.items()
        for run in scored(arm, {task: [level + noise / 1000 for noise in NOISE[arm]] for task in tasks}, **more)
    ]
    return rankings(compare("s", runs))


def test_pairs_are_paired_t_tests_corrected_by_holm_over_all_of_them(scored):
    levels = {"base": 0.80, "a": 0.804, "b": 0.81, "c": 0.81}
    (ranking,) = of_levels(scored, levels, values={"eval/examples": 1e12})
    values = {arm: levels[arm] + np.array(NOISE[arm]) / 1000 for arm in levels}
    tests = {pair: stats.ttest_rel(*(values[arm] for arm in pair[::-1])) for pair in combinations(levels, 2)}
    ordered, highest = sorted(tests, key=lambda pair: tests[pair].pvalue), 0.0
    for left, pair in zip(range(6, 0, -1), ordered, strict=True):
        highest = max(highest, min(1.0, left * tests[pair].pvalue))
        assert ranking.changes[pair].p == pytest.approx(highest, rel=1e-3)
    assert ranking.better == {(better, worse) for better in ("b", "c") for worse in ("base", "a")}
    assert 0.02 < tests["base", "a"].pvalue < 0.05 < ranking.changes["base", "a"].p


def test_places_say_the_rank_its_interval_and_the_letters(scored):
    first, second, third, last = of_levels(scored, {"base": 0.80, "a": 0.82, "b": 0.8205, "c": 0.75})[0].places
    assert [place.label for place in (first, second, third, last)] == ["b", "a", "base", "c"]
    assert [(place.rank, place.ranks, place.letters) for place in (first, second, third, last)] == [
        (1, (1, 2), "a"), (2, (1, 2), "a"), (3, (3, 3), "b"), (4, (4, 4), "c")
    ]  # fmt: skip
    assert first.best + second.best == pytest.approx(1, abs=1e-3)
    assert first.best > second.best > 0.1
    assert first.mean == pytest.approx(0.8205)
    assert first.interval[0] < 0.82 < 0.821 < first.interval[1]


def test_an_arm_that_no_seed_changes_leaves_the_others_their_scatter(scored):
    others = [run for arm in ("a", "b") for run in scored(arm, {"rte": [0.8 + noise / 100 for noise in NOISE[arm]]})]
    fixed, equal = scored("base", {"rte": [0.79]}, **{tags.FIXED: "true"}), scored("base", {"rte": [0.79] * 5})
    (first,), (second,) = ([one.places for one in rankings(compare("s", [*base, *others]))] for base in (fixed, equal))
    assert first[0].best < 0.9
    for one, other in zip(first, second, strict=True):
        assert (one.label, one.best, one.interval) == (other.label, other.best, pytest.approx(other.interval))


def test_scores_without_scatter_have_no_probability_of_being_best(scored):
    runs = [run for arm, level in {"base": 0.6, "a": 0.7}.items() for run in scored(arm, {"rte": [level] * 3})]
    (ranking,) = rankings(compare("s", [replace(run, metrics={SCORE: run.metrics[SCORE]}) for run in runs]))
    assert [(place.label, place.best, place.interval) for place in ranking.places] == [("a", None, None), ("base", None, None)]


@pytest.mark.parametrize("apart", [[], [("a", "d")], [("a", "c"), ("a", "d"), ("b", "d")], [("b", "c")], "all"])
def test_two_labels_share_a_letter_unless_they_are_apart(apart):
    labels = "abcdefgh"
    apart = list(combinations(labels, 2)) if apart == "all" else apart
    letters = lettered(labels, groups_of(labels, [pair[::-1] for pair in apart]))
    for pair in combinations(labels, 2):
        assert bool({*letters[pair[0]]} & {*letters[pair[1]]}) == (pair not in apart)
    assert letters["a"].startswith("a")
    assert len({*"".join(letters.values())}) <= (8 if len(apart) > 3 else 1 + len(apart))  # as few as it takes


def test_labels_that_would_have_many_letters_share_those_of_the_neighbours_they_stand_between():
    """Each of ten labels can be told apart from that of the next pair alone, which takes 2^5 groups."""
    labels = "abcdefghij"
    apart = [(labels[place], labels[place + 1]) for place in range(0, 10, 2)]
    assert groups_of(labels, apart) is None
    assert runs_of(labels, apart) == [{*labels}]
    far = [pair for pair in combinations(labels, 2) if ord(pair[1]) - ord(pair[0]) > 3]
    assert runs_of(labels, {*far, ("a", "b")}) == [{*labels[start : start + 4]} for start in range(7)]
    assert lettered(labels, runs_of(labels, far))["d"] == "abcd"


def test_sixty_groups_have_sixty_names():
    labels = [str(number) for number in range(60)]
    letters = lettered(labels, groups_of(labels, combinations(labels, 2)))
    assert len({*letters.values()}) == 60
    assert (letters["51"], letters["52"]) == ("Z", "a'")


def test_equal_arms_share_the_chance_and_a_shorter_time_is_the_better(make_run):
    runs = [make_run(arm, seed, {SCORE: 0.8}) for arm in ("base", "a") for seed in range(3)]
    assert [(place.rank, place.best) for place in rankings(compare("s", runs))[0].places] == [(1, 0.5), (1, 0.5)]
    loss = "eval/loss"
    times = {"base": (2.0, 2.1, 1.9), "a": (1.0, 1.05, 0.96), "b": (4.0, 4.1, 3.9)}
    runs = [make_run(arm, seed, {loss: value}) for arm, values in times.items() for seed, value in enumerate(values)]
    places = rankings(compare("s", runs), loss)[0].places
    assert [(place.label, place.rank) for place in places] == [("a", 1), ("base", 2), ("b", 3)]
    assert places[0].best > 0.99
    low, high = places[0].interval
    assert low * high == pytest.approx(places[0].mean ** 2)  # of logarithms


def test_draws_have_the_pooled_variance_of_arms_and_replicates_and_that_of_the_items():
    """The luck that all arms share counts for none."""
    rng = np.random.default_rng(0)
    values = rng.normal(0, 5.0, 4) + rng.normal(0, 0.1, (3, 4))
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    pooled = np.sum(rest**2) / 6 / 4  # (3 - 1)(4 - 1) degrees of freedom, four replicates
    half = np.quantile(np.abs(drawn(values, 0.0)), 0.95)
    assert half == pytest.approx(stats.t.ppf(0.975, 6) * np.sqrt(pooled), rel=0.02)
    apart = [rng.normal(0, 0.1, 3), rng.normal(5, 0.1, 5)]  # runs that do not pair: Student's test of two samples
    halves = np.quantile(np.abs(drawn(apart, 0.0, paired=False)), 0.95, axis=0)
    pooled = (2 * np.var(apart[0], ddof=1) + 4 * np.var(apart[1], ddof=1)) / 6
    assert halves == pytest.approx(stats.t.ppf(0.975, 6) * np.sqrt(pooled / np.array([3, 5])), rel=0.02)
    alone = drawn(values[:, :1], 0.01)
    assert np.std(alone, axis=0) == pytest.approx([0.01] * 3, rel=0.02)


def test_arms_without_a_task_leave_it_out_of_the_mean_over_tasks(scored):
    runs = [*scored("base", {"rte": [0.8, 0.81, 0.79], "cola": [0.4, 0.41, 0.39], "sst2": [0.9] * 3})]
    runs += scored("a", {"rte": [0.7, 0.71, 0.69], "cola": [0.41, 0.4, 0.39]})
    overall, *each = rankings(compare("s", runs))
    assert [section.task for section in overall.sections] == ["rte", "cola"]
    assert overall.places[0].mean == pytest.approx(0.6)
    assert [table.sections[0].task for table in each] == ["rte", "cola"]  # a single arm has no rank


def test_tasks_are_the_replicates_where_asked(scored):
    levels, tasks = {"base": 0.80, "a": 0.81}, ("t1", "t2", "t3", "t4")
    shifts = {"base": (0, 0.02, -0.03, 0.01), "a": (0.001, 0.024, -0.03, 0.01)}
    runs = [
        run
        for arm, level in levels.items()
        for task, shift in zip(tasks, shifts[arm], strict=True)
        for run in scored(arm, {task: [level + shift + noise / 1000 for noise in NOISE[arm]]})
    ]
    (ranking,) = rankings(compare("s", runs), design=Design.TASKS)
    test = stats.ttest_1samp(0.01 + np.subtract(shifts["a"], shifts["base"]), 0)
    change = ranking.changes["base", "a"]
    assert (change.n, change.p) == (4, pytest.approx(test.pvalue, rel=1e-3))
    assert change.evidence.found.items == 0  # the scatter over tasks holds it


def test_without_a_seed_in_common_there_are_ranks_of_means_and_no_more(make_run):
    runs = [make_run(arm, seed, {SCORE: score}) for arm, seed, score in (("base", 0, 0.8), ("a", 1, 0.9))]
    (ranking,) = rankings(compare("s", runs))
    assert ranking.changes == {}
    assert [(place.rank, place.ranks, place.best, place.interval) for place in ranking.places] == [
        (1, (1, 2), None, None),
        (2, (1, 2), None, None),
    ]


def test_a_second_timing_of_the_baseline_stands_for_no_other_arm(timed):
    runs = [timed("base", [10.0, 10.1]), timed("base", [10.0, 10.2], replicate="true"), timed("late", [11.0, 11.1])]
    section = compare("s", [*runs, timed("early", [12.0, 12.1], session="s0")]).sections[0]
    base, late, early = map(section.row_of, ("base", "late", "early"))
    assert section.pairing(base, late).side_by_side()
    assert section.pairing(early, late).side_by_side() is None


def test_errors_over_the_items_are_those_of_each_pair(make_run):
    """Two arms without the baseline: of their own predictions, which are alike, and not of those of the baseline."""
    right = {
        "base": [i % 3 > 0 for i in range(90)],
        "a": [i % 5 > 0 for i in range(90)],
        "b": [i % 5 > 0 for i in range(89)] + [False],
    }
    runs, predictions = [], {}
    for arm, answers in right.items():
        for seed in range(3):
            runs.append(make_run(arm, seed, {SCORE: float(np.mean(answers)), "eval/examples": 90.0}))
            columns = {"item": range(90), "label": [1] * 90, "prediction": [int(one) for one in answers]}
            predictions[runs[-1].run_id] = pyarrow.table({name: [*column] for name, column in columns.items()})
    (ranking,) = rankings(compare("s", runs, errors=errors_in(Packed(predictions))))
    items = {pair: change.evidence.found.items for pair, change in ranking.changes.items()}
    means = {arm: float(np.mean(answers)) for arm, answers in right.items()}
    for one, other in items:
        apart = paired.share_apart(*(1.0 - np.array([right[arm]] * 3) for arm in (one, other)))
        assert items[one, other] == pytest.approx(paired.items_error(means[one], means[other], (90, 90), "accuracy", apart))
    assert items["a", "b"] < items["base", "b"] / 3
