"""Pareto fronts: which arms are optimal, and how often their probability misleads."""

import numpy as np
import pytest

from harness.comparison.compare import compare
from harness.plugins.chapters import trade_offs

PARAMETERS, LATENCY = "model/params_total", "inference/latency_ms_p50"


@pytest.fixture
def front(make_run):
    """The front of arms, given as name -> (scores, cost), of one task."""

    def made(arms: dict[str, tuple[list[float], float]], cost: str = PARAMETERS) -> trade_offs.Front:
        runs = [
            make_run(name, seed, {"eval/score": score, cost: spent})
            for name, (scores, spent) in arms.items()
            for seed, score in enumerate(scores)
        ]
        return trade_offs.front(compare("s", runs, next(iter(arms))).sections, list(arms), cost)

    return made


def test_front_has_what_no_other_arm_beats_in_both(front):
    found = front({"a": ([0.9], 10.0), "b": ([0.8], 5.0), "c": ([0.7], 6.0), "d": ([0.6], 4.0), "e": ([0.5], 20.0)})
    assert {name: place.dominated_by for name, place in found.places.items()} == {
        "a": None,
        "b": None,
        "c": "b",
        "d": None,
        "e": "a",
    }


def test_equal_cost_or_equal_score_is_beaten_by_the_better_of_both(front):
    found = front({"a": ([0.9], 5.0), "b": ([0.8], 5.0), "c": ([0.9], 6.0), "twin": ([0.9], 5.0)})
    assert {name: place.dominated_by for name, place in found.places.items()} == {"a": None, "b": "a", "c": "a", "twin": None}


def test_clear_differences_are_sure_and_one_replicate_is_not(front):
    clear = {"good": ([0.9, 0.91, 0.92], 5.0), "bad": ([0.7, 0.71, 0.72], 6.0), "cheap": ([0.5, 0.51, 0.5], 1.0)}
    places = front(clear).places
    assert {name: place.probability for name, place in places.items()} == {"good": 1.0, "bad": 0.0, "cheap": 1.0}
    alone = front({name: (scores[:1], cost) for name, (scores, cost) in clear.items()})
    assert alone.replicates == 1
    assert {place.probability for place in alone.places.values()} == {None}


def test_seeds_are_paired(front):
    """Luck that all arms share takes nothing away: b is worse by a hundredth in every seed."""
    luck = np.array([0.5, 0.7, 0.9, 0.6])
    places = front({"a": (luck.tolist(), 5.0), "b": ((luck - 0.01).tolist(), 6.0)}).places
    assert places["b"].probability == 0.0


def test_only_replicates_in_common_count(make_run):
    runs = [make_run("a", seed, {"eval/score": 0.8, PARAMETERS: 1.0}) for seed in range(5)]
    runs += [make_run("b", seed, {"eval/score": 0.9, PARAMETERS: 2.0}) for seed in (3, 4, 5)]
    assert trade_offs.front(compare("s", runs, "a").sections, ["a", "b"], PARAMETERS).replicates == 2


def test_fine_tunings_of_one_pretraining_are_one_replicate(make_run):
    runs = [
        make_run(arm, seed, {"eval/score": 0.8, PARAMETERS: 1.0}, pretrain_seed=str(pretraining))
        for arm in ("a", "b")
        for pretraining in (0, 1)
        for seed in (0, 1, 2)
    ]
    assert trade_offs.front(compare("s", runs, "a").sections, ["a", "b"], PARAMETERS).replicates == 2


def test_an_arm_without_a_cost_is_left_out_of_its_front(front, make_run):
    runs = [make_run("a", 0, {"eval/score": 0.8, PARAMETERS: 1.0}), make_run("b", 0, {"eval/score": 0.8})]
    assert trade_offs.front(compare("s", runs, "a").sections, ["a", "b"], PARAMETERS) is None
    runs.append(make_run("c", 0, {"eval/score": 0.9, PARAMETERS: 1.0}))
    places = trade_offs.front(compare("s", runs, "a").sections, ["b", "a", "c"], PARAMETERS).places
    assert [(label, place.score, place.dominated_by) for label, place in places.items()] == [("a", 0.8, "c"), ("c", 0.9, None)]


def test_latency_is_resampled_by_round(timed):
    scores = {"fast": 0.8, "equal": 0.7, "slow": 0.6}
    times = {"fast": [10.0, 11.0, 9.0, 10.5], "equal": [10.1, 10.8, 9.1, 10.4], "slow": [20.0, 21.0, 19.0, 20.5]}
    runs = [timed(arm, times[arm], seed, {"eval/score": scores[arm]}) for arm in times for seed in (0, 1)]
    places = trade_offs.front(compare("s", runs, "fast").sections, list(times), LATENCY).places
    assert 0.1 < places["equal"].probability < 0.9
    assert places["slow"].probability == 0.0


def test_fronts_of_draws_are_those_of_the_definition():
    """With ties in score, in cost and in both."""
    rng = np.random.default_rng(0)
    scores, costs = (rng.integers(0, 5, (9, 300)) / 10 + rng.normal(0, 1e-15, (9, 300)) for _ in range(2))
    found = trade_offs._on_front(scores, costs)
    for draw, (score, cost) in enumerate(zip(scores.T, costs.T, strict=True)):
        arms = list(zip(score.round(9), -cost.round(9), strict=True))
        beaten = [any(other[0] >= arm[0] and other[1] >= arm[1] and other != arm for other in arms) for arm in arms]
        assert found[:, draw].tolist() == [not one for one in beaten]


@pytest.mark.long
@pytest.mark.parametrize(("n", "share"), [(2, 0.19), (3, 0.15), (5, 0.07), (10, 0.06)])
def test_probabilities_of_equal_arms_mislead_as_often_as_the_report_says(n, share):
    """Two equal arms; the costlier one is Pareto-optimal where its score is higher. Numbers of the chapter."""
    rng, studies = np.random.default_rng(n), 1500
    costs = np.array([[1.0], [2.0]]) * np.ones(1 + trade_offs.DRAWS)
    wrong = 0
    for _ in range(studies):
        scores = trade_offs._mean_draws([rng.normal(0, 1, (2, n)).tolist()], "score")
        wrong += trade_offs._on_front(scores, costs)[1, 1:].mean() > 0.95
    assert wrong / studies == pytest.approx(share, abs=0.03)
