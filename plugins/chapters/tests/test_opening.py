"""The pictures that a report opens with: of all changes, and along a number that is swept."""

import itertools
import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from harness import tags
from harness.comparison.compare import Comparison, compare
from harness.plugins.chapters import along, opening
from harness.plugins.pictures import plots
from harness.reports.chapters import overview

SCORE, TOTAL, MEMORY = "eval/score", "model/params_total", "inference/peak_memory_bytes"


@pytest.fixture
def result(make_run) -> Comparison:
    """Three arms on two tasks with three seeds, of which one is better in size and one is worse in score."""
    scores = {"sst2": [0.80, 0.81, 0.79], "cola": [0.40, 0.41, 0.39]}
    worse = {"sst2": [0.70, 0.70, 0.70], "cola": [0.41, 0.40, 0.38]}
    arms = {"base": (scores, 1000, 4e6), "small": (scores, 250, 4e6), "worse": (worse, 1000, 2e6)}
    runs = [
        make_run(arm, seed, {SCORE: score, TOTAL: total, MEMORY: memory, "eval/examples": 1e6}, task=task)
        for arm, (of_arm, total, memory) in arms.items()
        for task, of_seeds in of_arm.items()
        for seed, score in enumerate(of_seeds)
    ]
    return compare("s", runs)


def test_alone_the_baseline_has_no_picture(make_run):
    assert opening.change_picture(compare("s", [make_run(values={SCORE: 0.8})])) is None


def test_picture_has_a_panel_a_metric_whose_axis_fits_its_changes(result):
    figure = opening.change_picture(result)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == [
        "score (points)",
        "parameters (%)",
        "inference memory (%)",
    ]
    assert panels[1].get_xlim()[0] < 0.3 < panels[2].get_xlim()[0]  # a quarter of the parameters; memory changes by 2 %
    assert [text.get_text() for text in panels[0].get_yticklabels()] == ["small", "worse"]
    assert [text.get_text() for text in panels[0].texts] == ["0.0 points", "−5.2 points"]
    assert panels[0].get_xlim()[0] < 0 < panels[0].get_xlim()[1]
    assert panels[1].get_xlim()[0] < 1 < panels[1].get_xlim()[1]


def test_an_interval_that_reaches_0_or_infinity_is_drawn_in_part(pretrained, make_run):
    """FLOPs of a budget in seconds, and a memory, over two seeds."""
    flops = {"base": (100e9, 100e9), "a": (80e9, 95e9)}
    runs = [pretrained(arm, seed, {"pretrain/flops": flops[arm][seed]}) for arm in flops for seed in (0, 1)]
    memories = {"base": (4e6, 4e6), "a": (4e6, 4e9)}
    timed = [make_run(arm, seed, {MEMORY: memories[arm][seed]}) for arm in memories for seed in (0, 1)]
    for of_study in (runs, timed):
        (panel,) = opening.change_picture(compare("s", of_study)).axes
        low, high = panel.get_xlim()
        assert 0 < low < 1 < high < math.inf


@pytest.mark.parametrize(
    ("smaller", "title", "labels"),
    [(2, "parameters (%)", ["−40", "0"]), (1e4, "parameters (ratio)", ["÷10k", "÷100", "×1"])],
)
def test_ticks_are_percentages_or_all_of_them_factors(make_run, smaller, title, labels):
    runs = [make_run(arm, 0, {TOTAL: 1e6 / by}) for arm, by in (("base", 1), ("small", smaller))]
    (panel,) = opening.change_picture(compare("s", runs)).axes
    assert panel.get_title(loc="left") == title
    low, high = panel.get_xlim()
    ticks = [
        text.get_text() for text, place in zip(panel.get_xticklabels(), panel.get_xticks(), strict=True) if low < place < high
    ]
    assert {*labels} <= {*ticks}
    assert "0" not in ticks or not any(tick[0] in "×÷" for tick in ticks)


def test_values_beside_a_panel_are_no_ticks_of_the_next_one(result):
    """A panel has no axis line to the left, and its values end before the next panel begins."""
    figure = opening.change_picture(result)
    plots.lay_out(figure)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert not any(axes.spines["left"].get_visible() or axes.yaxis.get_tick_params()["length"] for axes in panels)
    renderer = FigureCanvasAgg(figure).get_renderer()
    for panel, following in itertools.pairwise(panels):
        ends = [text.get_window_extent(renderer).x1 for text in panel.texts]
        assert max(ends) + 0.1 * figure.dpi < following.get_window_extent().x0


@pytest.mark.long
def test_the_first_picture_of_a_swept_number_is_its_curve(make_run, study_of):
    """Arms are points on the axis of the number; the default has its value without naming it, and the control none."""
    lifted = {tags.LIFTED: '["pretrain.mask_rate"]'}
    runs = []
    for seed in range(3):
        for rate in (0.15, 0.3, 0.4, 0.6):
            arm = "base+mlm" if rate == 0.15 else f"base+mlm mask_rate={rate}"
            params = {"pretrain.mask_rate": str(rate)}
            runs.append(make_run(arm, seed, {SCORE: 0.5 + rate / 4 + seed / 1000}, params, **lifted))
        runs.append(make_run("base random_weights=true", seed, {SCORE: 0.4}, {"pretrain.mask_rate": "0.15"}))
    comparison = compare("s", runs, "base+mlm")
    key, values = along._swept(comparison)
    assert (key, sorted(value for _, value in values.values())) == ("mask_rate", [0.15, 0.3, 0.4, 0.6])
    assert {name for name, _ in values.values()} == {"base+mlm"}
    chapter = overview.chapter(study_of(comparison))
    assert [name for name in chapter.files if name.endswith(".svg")] == ["along_setting.svg", "changes.svg"]
    text = "\n".join(chapter.paragraphs)
    assert text.index("](along_setting.svg)") < text.index("](changes.svg)")
    picture = chapter.files["along_setting.svg"]
    assert b"mask_rate" in picture
    assert b"<title>base+mlm, sst2\nmask_rate: 0.600\nscore: 0.651" in picture


def test_the_axis_of_a_swept_number_ends_above_the_highest_score(make_run):
    lifted = {tags.LIFTED: '["model.depth"]'}
    runs = [make_run(f"base depth={depth}", 0, {SCORE: 1.0}, {"model.depth": depth}, **lifted) for depth in "123"]
    _, files = along.along_setting(compare("s", runs, "base depth=1"))
    assert files["along_setting.svg"].figure.axes[0].get_ylim() == pytest.approx((0.93, 1.04))


@pytest.mark.parametrize("second", ["2", "gelu"])
def test_two_swept_settings_or_two_values_are_no_axis(make_run, study_of, second):
    names = (
        ("base", *(f"base learning_rate={rate} other={second}{rate}" for rate in (2, 3, 4)))
        if second == "2"
        else ("base", "base act=gelu", "base act=relu")
    )
    runs = [
        make_run(name, seed, {SCORE: 0.5 + seed / 100 + index / 50}) for index, name in enumerate(names) for seed in range(3)
    ]
    assert "along_setting.svg" not in overview.chapter(study_of(compare("s", runs))).files
