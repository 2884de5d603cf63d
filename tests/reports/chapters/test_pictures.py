"""Score against cost, and the curves of the training loss."""

import itertools

import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.reports.chapters import pictures
from harness.reports.render import render


@pytest.mark.parametrize(("kind", "top_of_cola"), [("classification", 9), ("regression", 1)])
def test_losses_of_one_kind_share_an_axis_and_squared_errors_have_their_own(make_run, kind, top_of_cola):
    """A similarity from 0 to 5 begins at a squared error of 9: beside it all cross-entropies are a flat line."""
    runs = [make_run(task=task, params={"task.kind": own}) for task, own in (("cola", "classification"), ("other", kind))]
    curves = {runs[0].run_id: {1: 0.7, 2: 0.5}, runs[1].run_id: {1: 9.0, 2: 2.0}}
    cola, other = pictures.loss_curves(compare("s", runs), curves).axes[:2]
    assert cola.get_ylim()[0] == other.get_ylim()[0] == 0
    assert cola.get_ylim()[1] == pytest.approx(top_of_cola, rel=0.3)
    assert other.get_ylim()[1] == pytest.approx(9, rel=0.3)


@pytest.mark.parametrize("other", [1.001, 1.5])
def test_costs_that_are_nearly_equal_look_nearly_equal(make_run, other):
    values = {"eval/score": 0.8, "model/params_total": 1e6}
    runs = [make_run(values=values), make_run("new", values=values | {"model/params_total": other * 1e6})]
    (axes,) = pictures.score_against(compare("s", runs), "model/params_total").axes
    low, high = axes.get_xlim()
    assert high - low >= 0.2 * other
    assert low < 1.0 <= other < high


def test_what_is_the_same_in_all_arms_is_in_no_picture_and_said_in_a_line(make_run, study_of):
    """Fifteen arms of one shape, such as a sweep of rates, have one number of parameters."""
    parts = {"model/params_component_layers": 6e5, "model/params_component_token_embedding": 4e5}
    values = {"eval/score": 0.8, "model/params_total": 1e6, "inference/peak_memory_bytes": 4e6} | parts
    runs = []
    for rate, seed in itertools.product(range(1, 6), range(3)):
        arm, params = "base" if rate == 1 else f"base learning_rate={rate}", {"finetune.learning_rate": str(rate)}
        own = {"inference/peak_memory_bytes": 1e6 * rate + seed}
        runs.append(make_run(arm, seed, values | own, params, **{tags.LIFTED: '["finetune.learning_rate"]'}))
    files = render(study_of(compare("s", runs)), ("md",))
    assert {"score_parameters.svg", "parameters.svg"}.isdisjoint(files)
    assert b"parameters" not in files["changes.svg"]
    report = files["report.md"].decode()
    assert "The same in all arms, and in no picture: score, parameters." in report
    assert "All arms have the same parameters in every component" in report


def test_no_error_bar_strikes_through_the_mark_of_another_arm(make_run):
    """Both have nearly as many parameters, so that the long bar of the baseline crosses the mark above it."""
    scores = {"base": (0.5, 0.9), "new": (0.99, 1.0)}
    runs = [
        make_run(arm, seed, {"eval/score": score, "model/params_total": 1e6 + (arm == "new")})
        for arm, of_arm in scores.items()
        for seed, score in enumerate(of_arm)
    ]
    (axes,) = pictures.score_against(compare("s", runs), "model/params_total").axes
    bars = [line.get_zorder() for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    marks = [line.get_zorder() for line in axes.lines if line.get_marker() not in ("None", "")]
    assert (len(bars), len(marks)) == (2, 2)
    assert max(bars) < min(marks)
