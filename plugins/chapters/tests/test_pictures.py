"""Score against cost, and the curves of the training loss."""

import itertools

import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.plugins.chapters import pictures
from harness.reports.render import render


@pytest.mark.parametrize("other", [1.001, 1.5])
def test_costs_that_are_nearly_equal_look_nearly_equal(make_run, other):
    values = {"eval/score": 0.8, "model/params_total": 1e6}
    runs = [make_run(values=values), make_run("new", values=values | {"model/params_total": other * 1e6})]
    (axes,) = pictures.score_against(compare("s", runs), "model/params_total").axes
    low, high = axes.get_xlim()
    assert high - low >= 0.2 * other
    assert low < 1.0 <= other < high


@pytest.mark.long
def test_what_is_the_same_in_all_arms_is_in_no_picture_and_said_in_a_line(make_run, study_of):
    """Fifteen arms of one shape, such as a sweep of rates, have one number of parameters."""
    parts = {"model/params_component_layers": 6e5, "model/params_component_token_embedding": 4e5}
    values = {"eval/score": 0.8, "model/params_total": 1e6, "inference/peak_memory_bytes": 4e6} | parts
    runs = []
    for rate, seed in itertools.product(range(1, 6), range(3)):
        arm, params = "base" if rate == 1 else f"base learning_rate={rate}", {"finetune.learning_rate": str(rate)}
        own = {"inference/peak_memory_bytes": 1e6 * rate + seed}
        runs.append(make_run(arm, seed, values | own, params, **{tags.LIFTED: '["finetune.learning_rate"]'}))
    files = render(study_of(compare("s", runs)), "md")
    assert {"score_parameters.svg", "parameters.svg"}.isdisjoint(files)
    assert b"parameters" not in files["changes.svg"]
    report = files["report.md"].decode()
    assert "Equal for all arms: parameters 1.00 M." in report
    assert "### At the trained size\n\nEqual for all arms: token embeddings 400.0 k; layers 600.0 k; total 1.00 M." in report
