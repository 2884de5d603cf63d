"""Pictures: the same numbers give the same bytes, few or many arms."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from harness.comparison.compare import compare
from harness.plugins.chapters import pictures
from harness.plugins.pictures import plots
from harness.reports.reading.study import Study
from harness.reports.render import render

TOTAL, LAYERS, LATENCY = "model/params_total", "model/params_component_layers", "inference/latency_ms_p50"
VALUES = {"eval/score": 0.8, "model/params_total": 1e6, "inference/latency_ms_p50": 3.0, "eval/majority_score": 0.5}
VALUES |= {"model/params_component_layers": 6e5, "model/params_component_token_embedding": 4e5}


@pytest.fixture
def study(make_run, study_of) -> Study:
    """20 arms with curves."""
    own = [VALUES | {TOTAL: 1e6 + index, LAYERS: 6e5 + index, LATENCY: 3 + index / 100} for index in range(20)]
    runs = [make_run("base" if index == 0 else f"variant_{index}", values=values) for index, values in enumerate(own)]
    curves = {run.run_id: {step: 1 / (step + 1) for step in range(500)} for run in runs}
    return study_of(compare("s", runs), {"finetune/loss": curves})


@pytest.mark.long
def test_picture_is_drawn_and_laid_out_once(study, monkeypatch):
    calls = []

    def counted(method):
        return lambda *arguments: calls.append(method) or method(*arguments)

    monkeypatch.setattr(Figure, "draw", counted(Figure.draw))
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", counted(ConstrainedLayoutEngine.execute))
    assert plots.draw(pictures.score_against, study.comparison, "model/params_total")
    assert len(calls) == 2


@pytest.mark.filterwarnings("error")
def test_a_name_in_letters_that_no_font_has_is_drawn_without_a_warning():
    figure = Figure()
    figure.subplots().set_title("\N{ROCKET}")
    assert plots.svg(figure)


def test_every_arm_has_a_style_of_its_own():
    labels = [f"v{index}" for index in range(25)]
    styles = plots.arm_styles(labels).values()
    assert len({(style.colour, style.marker) for style in styles}) == 25
    assert len({(style.colour, style.line) for style in styles}) == 25


def test_picture_without_numbers_is_left_out(make_run):
    result = compare("s", [make_run(values={"model/params_total": 1.0})])
    assert [name for name in render(Study(result)) if name.endswith(".svg")] == []


def test_mean_curve_uses_the_steps_that_all_seeds_have():
    curve = plots.mean_curve([{0: 1.0, 1: 2.0, 2: 9.0}, {0: 3.0, 1: 4.0}])
    assert (curve.x.tolist(), curve.y.tolist()) == ([0.0, 1.0], [2.0, 3.0])


def test_long_curve_is_binned_without_moving_its_mean():
    curve = plots.mean_curve([{step: float(step) for step in range(5000)}])
    assert len(curve) == plots.CURVE_POINTS
    assert curve.y.mean() == pytest.approx(4999 / 2)
    assert (curve.x == curve.y).all()


@pytest.mark.parametrize("count", [1, 19, 40, 60, 200])
def test_smoothed_curve_is_the_mean_of_the_points_around(count):
    values = np.random.default_rng(0).normal(size=count)
    wide = max(1, count // 20)
    around = pd.Series(values).rolling(wide, center=True, min_periods=1).mean()
    assert plots.smooth(values) == pytest.approx(around.to_numpy())


@pytest.mark.long
def test_dollar_signs_in_names_are_no_formula(make_run):
    assert render(Study(compare("s", [make_run("a$_{$b", values=VALUES)], "a$_{$b")))["score_parameters.svg"]


@pytest.mark.long
def test_pictures_of_many_arms_show_the_best_and_say_so(make_run, study_of):
    """The baseline is the worst of 40; the tables keep all."""
    runs = [
        make_run(
            f"v{index:02d}" if index else "base",
            seed,
            VALUES
            | {
                "eval/score": 0.5 + index / 100 + seed / 1000,
                TOTAL: 1e6 + index,
                LAYERS: 6e5 + index,
                LATENCY: 3 + index / 100,
            },
        )
        for index in range(40)
        for seed in (0, 1)
    ]
    curves = {run.run_id: {step: 1 / (step + 1) for step in range(30)} for run in runs}
    made = render(study_of(compare("s", runs), {"finetune/loss": curves}), "md")
    text = made["report.md"].decode()
    assert "Pictures show 30 of 40 arms: the baseline and those of the highest mean score." in text
    for name in ("changes.svg", "loss.svg", "parameters.svg", "score_latency.svg", "score_parameters.svg"):
        picture = made[name].decode()
        shown = {label for label in ["base", *(f"v{index:02d}" for index in range(1, 40))] if f">{label}<" in picture}
        assert shown - {"base"} == {f"v{index:02d}" for index in range(11, 40)}, name
    assert "| v05 |" in text


def test_thirty_arms_are_all_shown(make_run):
    comparison = compare("s", [make_run(f"v{index}" if index else "base", values=VALUES) for index in range(30)])
    assert plots.drawn_arms(comparison) == set(comparison.labels)
    assert plots.drawn_note(comparison) == []


def test_a_logarithmic_axis_says_so_and_a_linear_one_does_not():
    def make() -> Figure:
        figure = Figure()
        axes = figure.subplots()
        axes.set(xscale="log", xlabel="tokens (M)", ylabel="loss")
        figure.add_subplot(axes_class=None).set(yscale="log", ylabel="loss")
        return figure

    one, other = plots.draw(make).figure.axes
    assert (one.get_xlabel(), one.get_ylabel()) == ("tokens (M, log scale)", "loss")
    assert (other.get_xlabel(), other.get_ylabel()) == ("", "loss (log scale)")


def test_an_axis_comes_no_closer_than_its_least_span_and_keeps_a_wider_one():
    axes = Figure().subplots()
    for limits, expected in (((4.39, 4.41), (4.3, 4.5)), ((1.0, 5.0), (1.0, 5.0))):
        axes.set_ylim(limits)
        plots.same_span([axes], 0.2)
        assert axes.get_ylim() == pytest.approx(expected)


def test_panels_of_scores_are_equally_long_and_end_at_the_highest_score():
    panels = Figure().subplots(1, 2)
    for axes, limits in zip(panels, ((0.97, 1.0), (0.2, 0.6)), strict=True):
        axes.set_ylim(limits)
    plots.same_span(panels, 0.1, highest=1.04)
    assert [axes.get_ylim() for axes in panels] == [pytest.approx((0.64, 1.04)), pytest.approx((0.2, 0.6))]
