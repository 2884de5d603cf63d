"""Estimates of an arm's own value: what they scatter over."""

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.comparison.compare import compare
from harness.plugins.shared.estimates import Estimate, estimate


def estimated(runs: list, metric: str, label: str = "base") -> Estimate | None:
    section = compare("s", runs, label).sections[0]
    return estimate(section, section.row_of(label), metric)


def test_seeds_are_what_a_score_scatters_over(make_run):
    found = estimated(
        [make_run("base", seed, {"eval/score": score}) for seed, score in enumerate((0.8, 0.82, 0.78))], "eval/score"
    )
    assert (found.mean, found.n) == (pytest.approx(0.8), 3)
    assert found.interval == pytest.approx((0.8 - 4.303 * 0.02 / math.sqrt(3), 0.8 + 4.303 * 0.02 / math.sqrt(3)), abs=1e-4)


def test_the_interval_of_a_score_holds_the_share_of_its_items_and_stays_within_its_range(make_run):
    scores = [0.93, 0.945, 0.96]
    alone = [make_run("base", seed, {"eval/score": score}) for seed, score in enumerate(scores)]
    both = [make_run("base", seed, {"eval/score": score, "eval/examples": 100}) for seed, score in enumerate(scores)]
    narrow, wide = (estimated(runs, "eval/score").interval for runs in (alone, both))
    assert wide[0] < narrow[0] - 0.01
    assert wide[1] <= 1.0
    high = [make_run("base", seed, {"eval/score": score, "eval/examples": 50}) for seed, score in enumerate((1.0, 1.0, 0.98))]
    assert estimated(high, "eval/score").interval[1] == pytest.approx(1.0, abs=1e-3)
    assert estimated(high, "eval/score").interval[1] <= 1.0


@pytest.mark.parametrize("metric", ["eval/matthews", "eval/accuracy"])
@pytest.mark.parametrize("headline", ["matthews", "accuracy"])
def test_the_items_of_a_score_beside_the_headline_are_those_of_its_own_kind(make_run, metric: str, headline: str):
    scores = {0: 0.02, 1: 0.021, 2: 0.019}
    runs = [make_run("base", seed, {metric: score, "eval/examples": 100}) for seed, score in scores.items()]
    found = estimated([replace(run, params=run.params | {"task.headline": headline}) for run in runs], metric)
    half = 1.96 * (1 / math.sqrt(99) if metric == "eval/matthews" else math.sqrt(0.04 * 0.96 / 104))
    wilson = (0.0055, 0.0702)  # of 2 of 100
    assert found.interval == pytest.approx((0.02 - half, 0.02 + half) if metric == "eval/matthews" else wilson, abs=0.003)


def test_a_time_is_known_no_better_than_its_noise_floor(timed):
    runs = [timed("base", [10.0, 10.1, 9.9, 10.0]), timed("base", [10.6, 10.5, 10.6, 10.4], replicate="true")]
    found = estimated(runs, "inference/latency_ms_p50")
    assert found.doubt == ""
    assert found.interval[1] / found.mean > 1.05
    assert "unknown noise floor" in estimated(runs[:1], "inference/latency_ms_p50").doubt
    wild = timed("base", [30.0, 12.0, 40.0, 9.0], replicate="true")
    assert "supports no verdict on times" in estimated([runs[0], wild], "inference/latency_ms_p50").doubt


def test_fine_tunings_of_one_pretraining_are_one_value(make_run):
    runs = [
        make_run("base", seed, {"eval/score": 0.8 + 0.1 * pretraining}, pretrain_seed=str(pretraining))
        for pretraining in (0, 1)
        for seed in (0, 1, 2)
    ]
    assert estimated(runs, "eval/score").n == 2
    assert estimated(runs[:3], "eval/score").n == 3


def test_counts_are_exact_even_of_one_run(make_run):
    assert estimated([make_run(values={"model/params_total": 5.0})], "model/params_total").interval == (5.0, 5.0)
    assert estimated([make_run(values={"eval/score": 0.5})], "eval/score").interval is None
    assert estimated([make_run()], "eval/score") is None


def test_rounds_are_what_a_latency_scatters_over_and_seeds_share_them(timed):
    runs = [timed("base", [9.0, 10.0, 11.0, 10.0], seed) for seed in (0, 1)]
    found = estimated(runs, "inference/latency_ms_p50")
    assert found.n == 4
    assert found.mean == pytest.approx(float(np.exp(np.mean(np.log([9, 10, 11, 10])))))
    assert found.interval[0] < found.mean < found.interval[1]


def test_the_newest_session_counts(timed):
    runs = [timed("base", [9.0, 9.1], 0), timed("base", [20.0, 20.1], 1, session="s2")]
    assert estimated(runs, "inference/latency_ms_p50").mean == pytest.approx(20.05, abs=0.01)
