"""The rules of verdicts on trained models: replicates, items, the majority baseline, and a solved task."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from harness.comparison import paired
from harness.comparison.paired import Difference, Replicate, Tells, compare_paired, of_differences
from harness.comparison.verdicts import Evidence
from harness.metrics import Direction
from harness.plugins.shared.seeds import has_enough, smallest_difference

STUDIES = 1000


def seeds(scores: np.ndarray) -> dict[Replicate, float]:
    return {Replicate("", str(seed)): float(score) for seed, score in enumerate(scores)}


def study(rng: np.random.Generator, count: int, items: int, own: float, luck: float, bias: float = 0.0) -> np.ndarray:
    """Which items come out right, of two arms of equal quality: (2, seeds, items).

    Items have a difficulty, arms a strength of their own on each (`own`), seeds luck over all items (`luck`) and on each.
    """
    difficulty = rng.normal(0.8, 1, items)
    strength = rng.normal(0, own, (2, 1, items))
    of_seed = rng.normal(0, luck, (2, count, 1)) + rng.normal(0, 0.5, (2, count, items))
    return (difficulty + strength + of_seed + np.array([0, bias])[:, None, None] > 0).astype(float)


def difference(right: np.ndarray, with_predictions: bool) -> Difference:
    before, after = right
    apart = paired.share_apart(before, after) if with_predictions else 1.0
    error = paired.items_error(float(before.mean()), float(after.mean()), [right.shape[2]] * 2, apart=apart)
    return compare_paired(seeds(before.mean(axis=1)), seeds(after.mean(axis=1))).with_items(error)


@pytest.mark.parametrize(("own", "luck", "with_predictions"), [(0.5, 0.2, True), (1.5, 0.05, True), (1.5, 0.05, False)])
@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.long
def test_equal_arms_are_told_apart_in_at_most_one_study_of_twenty(count: int, own: float, luck: float, with_predictions: bool):
    """Whatever scatters most: seeds, items, or the strengths of an arm on single items, which no number of seeds shows."""
    rng = np.random.default_rng([count, int(100 * own), int(100 * luck)])
    found = [difference(study(rng, count, 200, own, luck), with_predictions) for _ in range(STUDIES)]
    alarms = np.mean([one.t_test_p() <= paired.LEVEL for one in found])
    print(f"{count} seeds, own {own}, luck {luck}: {alarms:.4f}")
    assert alarms <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.mark.long
def test_seeds_alone_take_what_one_sample_of_items_favours_for_a_difference():
    """What the items' share is for: many seeds of two equal arms on the same items agree on who is better there."""
    rng = np.random.default_rng(0)
    studies = [study(rng, 10, 200, 1.5, 0.02) for _ in range(500)]
    alone = [compare_paired(*(seeds(side.mean(axis=1)) for side in right)).t_test_p() <= 0.05 for right in studies]
    assert np.mean(alone) > 0.3


@pytest.mark.long
def test_a_clear_difference_is_still_found_with_three_seeds():
    rng = np.random.default_rng(1)
    found = [difference(study(rng, 3, 500, 0.5, 0.05, bias=0.8), True).t_test_p() <= 0.05 for _ in range(300)]
    assert np.mean(found) > 0.8


def test_an_interval_with_items_holds_what_its_p_says():
    found = of_differences([0.02, 0.03, 0.05, 0.01]).with_items(0.012)
    for confidence in (0.5, 0.9, 0.95, 0.999):
        low, high = found.interval_at(confidence)
        for end in (low, high):
            assert found.t_test_p(end) == pytest.approx(1 - confidence, rel=1e-6)
        assert found.t_test_p(low, 1) == pytest.approx((1 - confidence) / 2, rel=1e-6)
        assert found.t_test_p(high, 1) == pytest.approx(1 - (1 - confidence) / 2, rel=1e-6)


def test_items_widen_an_interval_and_none_leave_it():
    found = of_differences([0.02, 0.03, 0.05])
    assert found.with_items(0.0).interval == found.interval
    assert found.with_items(0.01).interval[0] < found.interval[0]
    assert of_differences([0.02]).with_items(0.01).interval is None


def test_equal_differences_are_as_wide_as_the_items():
    found = of_differences([0.0246, 0.0246, 0.0246]).with_items(0.01)
    assert found.interval == pytest.approx((0.0246 - 0.0196, 0.0246 + 0.0196), abs=1e-4)


def test_two_replicates_are_not_enough_on_either_level():
    assert not has_enough(of_differences([0.02, 0.03]))
    assert has_enough(of_differences([0.02, 0.03, 0.02]))
    both = {Replicate(str(first), str(second)): 0.01 * first + 0.003 * second for first in range(2) for second in range(5)}
    assert not has_enough(compare_paired(dict.fromkeys(both, 0.0), both))
    crossed = {Replicate("", str(second)): 0.7 + 0.01 * second for second in range(2)}
    pretrained = {Replicate(str(first), str(second)): 0.8 + 0.01 * first for first in range(5) for second in range(2)}
    assert not has_enough(compare_paired(crossed, pretrained))


def test_errors_of_items():
    assert paired.item_error(0.8, 10_000) == pytest.approx(0.004, rel=0.01)
    assert 0.001 < paired.item_error(1.0, 500) < 0.005
    assert paired.item_error(0.8, 10_000, "pearson") == pytest.approx(0.0036, rel=0.01)
    assert paired.item_error(1.0, 500, "pearson") > 0
    assert paired.over_tasks([0.03, 0.04]) == pytest.approx(0.025)


@pytest.mark.parametrize(("hit", "false_alarm"), [(0.85, 0.15), (0.9, 0.4), (0.7, 0.6)])
def test_the_error_of_matthews_is_that_of_samples_of_items(hit: float, false_alarm: float):
    rng = np.random.default_rng(0)
    labels = rng.random((1000, 1000)) < 0.6
    predicted = np.where(labels, rng.random(labels.shape) < hit, rng.random(labels.shape) < false_alarm)
    scores = [np.corrcoef(*both)[0, 1] for both in zip(labels, predicted, strict=True)]
    assert paired.item_error(float(np.mean(scores)), 1000, "matthews") == pytest.approx(np.std(scores), rel=0.15)


@pytest.mark.parametrize("count", [10, 20, 60, 300])
def test_the_interval_of_a_share_never_leaves_what_it_can_be_and_holds_the_truth(count: int):
    """Exact coverage over all numbers of right answers; Wilson's own is 0.83 at its lowest, and 0.95 on average."""
    quantile, right = ndtri(0.975), np.arange(count + 1)
    found = [paired.score_interval(k / count, quantile * paired.item_error(k / count, count), items=count) for k in right]
    assert all(
        0 <= low <= k / count + 1e-12 and k / count - 1e-12 <= high <= 1 for k, (low, high) in zip(right, found, strict=True)
    )
    truths = np.linspace(0.01, 0.99, 99)
    covered = [
        sum(binom.pmf(k, count, p) for k, (low, high) in zip(right, found, strict=True) if low <= p <= high) for p in truths
    ]
    assert 0.945 < np.mean(covered) < 0.97
    assert min(covered) > 0.83


def test_intervals_of_scores_are_within_their_own_ends():
    for kind, score in (("accuracy", 0.1), ("f1", 0.99), ("matthews", -0.98), ("pearson", 0.97), ("spearman", 0.0)):
        low, high = paired.score_interval(score, 0.14, kind)
        least, most = paired.ends(kind)
        assert least <= low < score < high <= most
    assert paired.score_interval(0.5, 0.01) == pytest.approx((0.49, 0.51), abs=1e-4)  # far from the ends it is what was given
    assert paired.score_interval(1.0, 0.0) == (1.0, 1.0)


def test_what_both_arms_get_wrong_is_no_scatter_of_their_difference():
    right = np.random.default_rng(0).random((3, 400)) < 0.7
    other = right.copy()
    other[:, :4] = ~other[:, :4]
    assert paired.share_apart(right.astype(float), other.astype(float)) < 0.1
    assert paired.share_apart(np.ones((2, 50)), np.ones((2, 50))) == 1.0  # nothing is known of what is never wrong


@pytest.mark.parametrize(
    ("before", "after", "constant", "found"),
    [
        ((0.51, 0.50, 0.52), (0.52, 0.49, 0.51), 0.51, Tells.NOTHING),
        ((0.40, 0.41, 0.42), (0.45, 0.46, 0.47), 0.51, Tells.NOTHING),
        ((0.40, 0.41, 0.42), (0.80, 0.81, 0.82), 0.51, Tells.EVERYTHING),
        ((0.52, 0.53, 0.53), (0.52, 0.53, 0.53), 0.51, Tells.NOTHING),  # 500 items do not show one or two points
        ((0.998, 1.0, 0.996), (1.0, 1.0, 1.0), 0.5, Tells.NO_EQUALITY),
        ((0.985, 0.985, 0.985), (0.999, 0.999, 0.998), 0.5, Tells.NO_EQUALITY),
        ((0.9, 0.91, 0.92), (0.999, 0.999, 0.998), 0.5, Tells.EVERYTHING),
        ((0.97, 0.97, 0.97), (0.97, 0.97, 0.971), 0.5, Tells.EVERYTHING),
        ((0.8, 0.81, 0.82), (0.8, 0.81, 0.82), None, Tells.EVERYTHING),
    ],
)
def test_what_a_task_can_tell(before: tuple, after: tuple, constant: float | None, found: Tells):
    assert paired.tells(before, after, constant, 0.01, (500, 500)) is found


def test_an_arm_that_fails_on_one_seed_solves_no_task():
    assert paired.tells((1.0, 1.0, 0.5), (1.0, 0.99, 1.0), None, 0.01, (500, 500)) is Tells.EVERYTHING


@pytest.mark.long
@pytest.mark.parametrize(("sd", "items"), [(0.02, 0.0), (0.02, 0.01)])
def test_the_smallest_difference_is_found_four_times_of_five(sd: float, items: float):
    """And a quarter of it seldom: the items of all seeds are the same sample."""
    rng, effect = np.random.default_rng(0), smallest_difference(5, sd, items=items)
    found = []
    for size in (effect, effect / 4):
        drawn = size + rng.normal(0, sd, (2000, 5)) + rng.normal(0, items, (2000, 1))
        judged = [of_differences(list(differences)).with_items(items) for differences in drawn]
        found.append(np.mean([one.t_test_p() <= paired.LEVEL for one in judged]))
    assert 0.78 < found[0] < 0.88
    assert found[1] < 0.2


def test_as_many_pairs_differ_as_their_interval_leaves_zero_out():
    for expected, looks, items in ((5, 1.0, 0.0), (7, 4.0, 0.0), (paired.MOST_PAIRS + 1, 1.0, 0.02)):
        error = math.hypot(0.02 / math.sqrt(5), items)
        found = Difference(5, 0.03, error, freedom=4, independent=5, items=items)
        assert Evidence(Direction.HIGHER, found, 0.01, looks=looks).needed(as_measured=True) == expected


@pytest.mark.parametrize(("count", "text"), [(0, "only 0 seeds"), (1, "only 1 seed;"), (3, "")])
def test_a_study_has_three_replicates(count: int, text: str):
    said = paired.no_study(count)
    assert said.startswith(text)
    assert bool(said) == bool(text)


def recorded(**values: float) -> dict[str, float]:
    return {"eval/examples": 300} | {f"eval/{name}": value for name, value in values.items()}


def test_f1_counts_as_the_rows_of_its_class_by_its_interval_or_by_the_constant_answer():
    """30 of 300 rows; precision and recall of 0.58, so that the delta method gives F (1 - F) (2 - F) / 60."""
    score = 0.58
    error = math.sqrt(score * (1 - score) * (2 - score) / 60)
    low, high = paired.score_interval(score, 1.96 * error, "f1")
    by_interval = paired.rows_of(recorded(f1=score, f1_low=low, f1_high=high), "f1")
    by_constant = paired.rows_of(recorded(score=score, majority_score=2 * 0.1 / 1.1), "f1")
    assert by_interval == pytest.approx(60 / (2 - score))
    assert by_constant == pytest.approx(by_interval)
    assert paired.item_error(score, by_interval, "f1") == pytest.approx(error, rel=0.06)
    assert paired.item_error(score, 300, "f1") < 0.4 * error


def test_other_scores_count_as_all_rows():
    interval = {"accuracy_low": 0.1, "accuracy_high": 0.9, "pearson_low": 0.1, "pearson_high": 0.9}
    measured = recorded(accuracy=0.5, pearson=0.5, **interval)
    assert [paired.rows_of(measured, name) for name in ("accuracy", "pearson", None)] == [300] * 3
    assert paired.rows_of(recorded(score=0.5, f1=0.5, exact_match=0.4, majority_score=0.3), "f1") == 300, "of spans"
    assert paired.rows_of(recorded(f1=0.0, f1_low=0.0, f1_high=0.0), "f1") == 300, "of a class that does not occur"
    assert paired.rows_of({}, "f1") is None


def test_the_error_of_matthews_correlation_is_that_of_its_interval():
    low, high = paired.score_interval(0.5, 0.1, "matthews", 300)
    rows = paired.rows_of(recorded(matthews=0.5, matthews_low=low, matthews_high=high), "matthews")
    assert paired.item_error(0.5, rows, "matthews") == pytest.approx(0.1 / 1.96, rel=0.01)
