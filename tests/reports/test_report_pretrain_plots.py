"""What is drawn of pretraining: the same step of every curve, one line a variant."""

import matplotlib as mpl
import numpy as np
import pytest

from reports import compare as comparing
from reports import plots, pretrain_plots, render
from reports.pretraining import ACCURACY, LOSS


def test_costs_are_those_of_the_same_step():
    cost = {step: step**2 * 7.0 for step in range(0, 101, 10)}
    seen = pretrain_plots.join(cost, {30: 4.0, 35: 3.5, 100: 3.0})
    assert seen.to_dict("index") == {30: {"x": 6300.0, "y": 4.0}, 100: {"x": 70000.0, "y": 3.0}}


def points(pretrained, cost: list[dict], measure: list[dict]) -> list[tuple[float, float]]:
    """(x, y) of one variant, of the curves of its seeds."""
    row = comparing.compare("s", [pretrained(seed=seed) for seed in range(len(cost))]).sections[0].rows[0]
    ids = [run.run_id for run in row.runs.values()]
    curves = {"pretrain/flops": dict(zip(ids, cost, strict=True)), LOSS: dict(zip(ids, measure, strict=True))}
    return list(pretrain_plots.points(row, "pretrain/flops", LOSS, curves).itertuples(index=False, name=None))


def test_seeds_are_averaged_at_the_steps_that_all_have(pretrained):
    cost = [{10: 1.0, 20: 2.0, 30: 3.0}, {10: 3.0, 20: 6.0}]
    assert points(pretrained, cost, [{10: 5.0, 20: 4.0, 30: 1.0}, {10: 3.0, 20: 2.0}]) == [(2.0, 4.0), (4.0, 3.0)]


def test_seeds_that_looked_at_other_steps_are_averaged_look_by_look(pretrained):
    assert points(pretrained, [{10: 1.0, 21: 2.0}, {11: 3.0, 20: 6.0}], [{10: 5.0, 21: 4.0}, {11: 3.0, 20: 2.0}]) == [
        (2.0, 4.0),
        (4.0, 3.0),
    ]


def drawn(comparison, curves: dict) -> list:
    """The panels of masked_loss.svg."""
    with mpl.rc_context(plots.STYLE):
        return pretrain_plots.masked_loss(comparison, plots.panel_names(comparison), curves).axes


def curves_of(comparison, slowness: list[float]) -> dict:
    """Curves of runs that spend so much a step, and get ever better in two evaluations."""
    ids = [run.run_id for run in comparison.runs]
    curves = {name: {run: {50: 5e6, 100: 1e7} for run in ids} for name in pretrain_plots.COSTS}
    curves["pretrain/flops"] = {run: {50: 50e9 * slow, 100: 100e9 * slow} for run, slow in zip(ids, slowness, strict=True)}
    curves["pretrain/duration_s"] = {run: {50: 60.0 * slow, 100: 600.0 * slow} for run, slow in zip(ids, slowness, strict=True)}
    return curves | {LOSS: {run: {50: 6.0, 100: 5.0} for run in ids}, ACCURACY: {run: {50: 0.1, 100: 0.2} for run in ids}}


def test_picture_has_a_line_a_variant_in_every_panel_and_the_entropy_with_the_losses(pretrained):
    seen = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    panels = drawn(seen, curves_of(seen, [1.0, 2.0]))
    losses = {axes.get_xlabel(): axes for axes in panels[:3]}
    assert list(losses) == ["tokens pretrained on (M)", "pretraining time (min)", "pretraining FLOPs (GFLOP)"]
    for axes in panels[:3]:
        base, other, entropy = axes.lines
        assert list(base.get_ydata()) == list(other.get_ydata()) == [6.0, 5.0]
        assert list(entropy.get_ydata()) == [6.4, 6.4]
    assert [len(axes.lines) for axes in panels[3:]] == [2, 2, 2]
    assert [list(line.get_xdata()) for line in losses["pretraining time (min)"].lines[:2]] == [[1.0, 10.0], [2.0, 20.0]]
    assert [list(line.get_xdata()) for line in losses["pretraining FLOPs (GFLOP)"].lines[:2]] == [[50.0, 100.0], [100.0, 200.0]]


@pytest.mark.parametrize(("slow", "scale"), [(2.0, "linear"), (100.0, "log")])
def test_costs_far_apart_get_a_logarithmic_axis(pretrained, slow: float, scale: str):
    seen = comparing.compare("s", [pretrained(), pretrained("gpt+clm")])
    panels = drawn(seen, curves_of(seen, [1.0, slow]))
    assert [axes.get_xscale() for axes in panels[:3]] == ["linear", scale, scale]


def test_entropy_far_above_is_a_word_and_no_line(pretrained, ended):
    seen = comparing.compare("s", [pretrained(seen=ended(3.0, {"pretrain/unigram_entropy": 60.0}))])
    axes = drawn(seen, curves_of(seen, [1.0]))[0]
    assert len(axes.lines) == 1
    assert [text.get_text() for text in axes.texts] == ["↑ unigram entropy 60.00"]


def test_protocols_of_pretraining_are_drawn_apart(pretrained):
    seen = comparing.compare("s", [pretrained(protocol="p1"), pretrained(protocol="p2")])
    panels = drawn(seen, curves_of(seen, [1.0, 1.0]))
    assert [axes.get_title(loc="left") for axes in panels if axes.get_title(loc="left")] == [
        "pretraining (p1)",
        "pretraining (p2)",
    ]
    assert [len(axes.lines) for axes in panels] == [2, 2, 2, 1, 1, 1] * 2


def test_training_losses_of_two_objectives_have_a_panel_each(pretrained):
    seen = comparing.compare("s", [pretrained(), pretrained("gpt+clm"), pretrained("albert+mlm")])
    ids = [run.run_id for run in seen.runs]
    curves = {"pretrain/loss": {run: dict.fromkeys(range(1, 31), 5.0) for run in ids}}
    curves["pretrain/tokens"] = {run: {10: 100.0, 20: 400.0, 30: 700.0} for run in ids}
    figure = pretrain_plots.training_loss(seen, plots.panel_names(seen), curves)
    assert [(axes.get_title(), len(axes.lines)) for axes in figure.axes] == [("mlm", 4), ("clm", 2)]
    places = pretrain_plots.training_line(seen.sections[0].rows[0], curves)["x"]
    assert np.allclose(places.iloc[[0, 9, 14, 29]], [10.0, 100.0, 250.0, 700.0])


def test_pretraining_without_curves_has_no_picture(pretrained):
    assert [name for name in render.render(comparing.compare("s", [pretrained()]), {}) if name.endswith(".svg")] == []
