"""Estimates of an arm's own value: what they scatter over."""

import math

import numpy as np
import pytest

from reports.comparison.compare import compare
from reports.comparison.estimates import estimate


def row(runs: list, label: str = "base"):
    return compare("s", runs, label).sections[0].row_of(label)


def test_seeds_are_what_a_score_scatters_over(make_run):
    found = estimate(
        row([make_run("base", seed, {"eval/score": score}) for seed, score in enumerate((0.8, 0.9, 0.7))]), "eval/score"
    )
    assert (found.mean, found.n) == (pytest.approx(0.8), 3)
    assert found.interval == pytest.approx((0.8 - 4.303 * 0.1 / math.sqrt(3), 0.8 + 4.303 * 0.1 / math.sqrt(3)), abs=1e-4)


def test_fine_tunings_of_one_pretraining_are_one_value(make_run):
    runs = [
        make_run("base", seed, {"eval/score": 0.8 + 0.1 * pretraining}, pretrain_seed=str(pretraining))
        for pretraining in (0, 1)
        for seed in (0, 1, 2)
    ]
    assert estimate(row(runs), "eval/score").n == 2
    assert estimate(row(runs[:3]), "eval/score").n == 3


def test_counts_are_exact_even_of_one_run(make_run):
    assert estimate(row([make_run(values={"model/params_total": 5.0})]), "model/params_total").interval == (5.0, 5.0)
    assert estimate(row([make_run(values={"eval/score": 0.5})]), "eval/score").interval is None
    assert estimate(row([make_run()]), "eval/score") is None


def test_rounds_are_what_a_latency_scatters_over_and_seeds_share_them(timed):
    runs = [timed("base", [9.0, 10.0, 11.0, 10.0], seed) for seed in (0, 1)]
    found = estimate(row(runs), "inference/latency_ms_p50")
    assert found.n == 4
    assert found.mean == pytest.approx(float(np.exp(np.mean(np.log([9, 10, 11, 10])))))
    assert found.interval[0] < found.mean < found.interval[1]


def test_the_newest_session_counts(timed):
    runs = [timed("base", [9.0, 9.1], 0), timed("base", [20.0, 20.1], 1, session="s2")]
    assert estimate(row(runs), "inference/latency_ms_p50").mean == pytest.approx(20.05, abs=0.01)
