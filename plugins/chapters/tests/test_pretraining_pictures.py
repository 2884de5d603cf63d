"""Pictures of pretraining: the same step of every curve, one line an arm."""

from collections.abc import Callable

import matplotlib as mpl
import numpy as np
import pytest

from harness.comparison import compare as comparing
from harness.comparison.section import ACCURACY, LOSS
from harness.plugins.chapters import pretraining_pictures
from harness.plugins.pictures import plots
from harness.reports import render
from harness.reports.reading.study import Study


@pytest.fixture
def points(pretrained, study_of) -> Callable[..., list[tuple[float, float]]]:
    """(x, y) of one arm, of the curves of its seeds."""

    def make(cost: list[dict], measure: list[dict]) -> list[tuple[float, float]]:
        result = comparing.compare("s", [pretrained(seed=seed) for seed in range(len(cost))])
        row = result.sections[0].rows[0]
        ids = [run.run_id for run in row.runs]
        study = study_of(
            result, {"pretrain/flops": dict(zip(ids, cost, strict=True)), LOSS: dict(zip(ids, measure, strict=True))}
        )
        line = pretraining_pictures.points(row, "pretrain/flops", LOSS, study)
        return list(zip(line.x, line.y, strict=True))

    return make


def test_costs_are_those_of_the_same_step(points):
    cost = {step: step**2 * 7.0 for step in range(0, 101, 10)}
    assert points([cost], [{30: 4.0, 35: 3.5, 100: 3.0}]) == [(6300.0, 4.0), (70000.0, 3.0)]


def test_seeds_are_averaged_at_the_steps_that_all_have(points):
    cost = [{10: 1.0, 20: 2.0, 30: 3.0}, {10: 3.0, 20: 6.0}]
    assert points(cost, [{10: 5.0, 20: 4.0, 30: 1.0}, {10: 3.0, 20: 2.0}]) == [(2.0, 4.0), (4.0, 3.0)]


def test_seeds_evaluated_at_other_steps_are_averaged_one_by_one(points):
    assert points([{10: 1.0, 21: 2.0}, {11: 3.0, 20: 6.0}], [{10: 5.0, 21: 4.0}, {11: 3.0, 20: 2.0}]) == [
        (2.0, 4.0),
        (4.0, 3.0),
    ]


def panels_of(study: Study) -> list:
    """The panels of masked_loss.svg."""
    with mpl.rc_context(fname=plots.STYLE):
        return pretraining_pictures.masked_loss(study).axes


def curves_of(comparison, slowness: list[float]) -> dict:
    """Curves of runs that spend so much a step, and get ever better in two evaluations."""
    ids = [run.run_id for run in comparison.runs]
    curves = {name: {run: {50: 5e6, 100: 1e7} for run in ids} for name in pretraining_pictures.COSTS}
    curves["pretrain/flops"] = {run: {50: 50e9 * slow, 100: 100e9 * slow} for run, slow in zip(ids, slowness, strict=True)}
    curves["pretrain/duration_s"] = {run: {50: 60.0 * slow, 100: 600.0 * slow} for run, slow in zip(ids, slowness, strict=True)}
    return curves | {LOSS: {run: {50: 6.0, 100: 5.0} for run in ids}, ACCURACY: {run: {50: 0.1, 100: 0.2} for run in ids}}


def test_picture_has_a_line_an_arm_in_every_panel_and_the_entropy_with_the_losses(pretrained, study_of):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    panels = panels_of(study_of(result, curves_of(result, [1.0, 2.0])))
    losses = {axes.get_xlabel(): axes for axes in panels[:3]}
    assert list(losses) == ["tokens pretrained on (M)", "pretraining time, own clock (min)", "pretraining FLOPs (GFLOP)"]
    for axes in panels[:3]:
        base, other, entropy = axes.lines
        assert list(base.get_ydata()) == list(other.get_ydata()) == [6.0, 5.0]
        assert list(entropy.get_ydata()) == [6.4, 6.4]
    assert [len(axes.lines) for axes in panels[3:]] == [2, 2, 2]
    assert [list(line.get_xdata()) for line in losses["pretraining time, own clock (min)"].lines[:2]] == [
        [1.0, 10.0],
        [2.0, 20.0],
    ]
    assert [list(line.get_xdata()) for line in losses["pretraining FLOPs (GFLOP)"].lines[:2]] == [[50.0, 100.0], [100.0, 200.0]]


def test_marks_of_a_probe_are_hollow_and_the_legend_says_so(pretrained, ended, study_of):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm", ends=ended(2.0, {"pretrain/probe_steps": 200.0}))])
    panels = panels_of(study_of(result, curves_of(result, [1.0, 2.0])))
    assert all([line.get_markerfacecolor() for line in axes.lines[:2]] == ["black", "white"] for axes in panels)
    (legend,) = panels[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["base+mlm", "gpt+clm", "hollow: by a probe", "unigram entropy"]


def test_legend_has_no_word_of_probes_where_there_are_none(pretrained, study_of):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    (legend,) = panels_of(study_of(result, curves_of(result, [1.0, 2.0])))[0].figure.legends
    assert "hollow: by a probe" not in [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize(("slow", "scale"), [(2.0, "linear"), (100.0, "log")])
def test_costs_far_apart_get_a_logarithmic_axis(pretrained, study_of, slow: float, scale: str):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    panels = panels_of(study_of(result, curves_of(result, [1.0, slow])))
    assert [axes.get_xscale() for axes in panels[:3]] == ["linear", scale, scale]


def test_what_arms_spend_alike_by_token_has_no_panel_beside_that_of_the_tokens(pretrained, study_of):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    curves = curves_of(result, [1.0, 1.04])
    curves["pretrain/duration_s"] = curves_of(result, [1.0, 1.3])["pretrain/duration_s"]
    panels = panels_of(study_of(result, curves))
    assert [axes.get_xlabel() for axes in panels] == ["tokens pretrained on (M)", "pretraining time, own clock (min)"] * 2


def test_equal_losses_look_equal(pretrained, study_of):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    curves = curves_of(result, [1.0, 1.0])
    curves[LOSS] = {run.run_id: {50: 6.400 + place / 1000, 100: 6.401} for place, run in enumerate(result.runs)}
    low, high = panels_of(study_of(result, curves))[0].get_ylim()
    assert high - low >= 0.19


def test_entropy_far_above_is_a_word_and_no_line(pretrained, ended, study_of):
    result = comparing.compare("s", [pretrained(ends=ended(3.0, {"pretrain/unigram_entropy": 60.0}))])
    axes = panels_of(study_of(result, curves_of(result, [1.0])))[0]
    assert len(axes.lines) == 1
    assert [text.get_text() for text in axes.texts] == ["↑ unigram entropy 60"]


def test_conditions_of_pretraining_have_panels_of_their_own(pretrained, study_of):
    result = comparing.compare("s", [pretrained(params={"pretrain.batch_size": size}) for size in ("8", "16")])
    panels = panels_of(study_of(result, curves_of(result, [1.0, 1.0])))
    assert [axes.get_title(loc="left") for axes in panels if axes.get_title(loc="left")] == [
        f"pretraining ({result.sections[0].conditions})",
        f"pretraining ({result.sections[1].conditions})",
    ]
    assert [len(axes.lines) for axes in panels] == [2, 1] * 2  # against tokens alone: an arm is alone in each


def test_training_losses_of_two_objectives_have_a_panel_each(pretrained, study_of):
    result = comparing.compare("s", [pretrained(), pretrained("gpt+clm"), pretrained("albert+mlm")])
    ids = [run.run_id for run in result.runs]
    curves = {"pretrain/loss": {run: dict.fromkeys(range(1, 31), 5.0) for run in ids}}
    curves["pretrain/tokens"] = {run: {10: 100.0, 20: 400.0, 30: 700.0} for run in ids}
    study = study_of(result, curves)
    figure = pretraining_pictures.training_loss(study)
    assert [(axes.get_title(), len(axes.lines)) for axes in figure.axes] == [("mlm", 4), ("clm", 2)]
    places = pretraining_pictures.training_line(result.sections[0].rows[0], study).x
    assert np.allclose(places[[0, 9, 14, 29]], [10.0, 100.0, 250.0, 700.0])


def test_pretraining_without_curves_has_no_picture(pretrained):
    assert [name for name in render.render(Study(comparing.compare("s", [pretrained()]))) if name.endswith(".svg")] == []


def test_own_objective_has_its_name(pretrained):
    run = pretrained()
    run.params.update({"pretrain.objective": "own", "model.objective": "plm"})
    assert pretraining_pictures.objective(run) == "plm"
