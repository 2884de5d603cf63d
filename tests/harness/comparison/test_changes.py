"""A change in percent of the baseline's size, worked by hand."""

import math
from dataclasses import replace

import pytest
from texts import md

from harness import metrics
from harness.comparison.compare import compare
from harness.comparison.overall import of_pretrainings
from harness.comparison.paired import Replicate
from harness.comparison.verdicts import Verdict, change, corrected, of_evidence
from harness.metrics import Direction
from harness.reports.writing import formats, tables

MATTHEWS = "eval/matthews"


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (-0.1, 0.1, 200.0),  # up by 0.2, twice the size of the baseline
        (-0.1, -0.2, -100.0),
        (-0.2, -0.1, 50.0),
        (0.1, -0.1, -200.0),
        (0.1, 0.2, 100.0),
    ],
)
def test_percent_has_the_sign_of_the_change_even_below_zero(before: float, after: float, percent: float):
    found = change(metrics.get(MATTHEWS), {Replicate("", "0"): before}, {Replicate("", "0"): after})
    assert found.percent == pytest.approx(percent)
    better = (percent > 0) == (metrics.get(MATTHEWS).direction is Direction.HIGHER)
    assert found.verdict is (Verdict.DIRECTION_BETTER if better else Verdict.DIRECTION_WORSE)


def test_a_report_shows_a_rise_from_below_zero_as_a_rise(make_run):
    runs = [make_run(name, values={MATTHEWS: score}) for name, score in (("base", -0.1), ("new", 0.1))]
    section = compare("s", runs).sections[0]
    assert section.change(section.rows[1], MATTHEWS).percent == pytest.approx(200)
    assert "(+200.0 %)" in md(tables.before_after(section))


def test_the_sampling_error_said_is_that_of_the_interval():
    """Of equal changes nothing else scatters: 1.96 standard errors over the items."""
    sides = [{Replicate("", str(seed)): value for seed in range(3)} for value in (0.8, 0.81)]
    found = change(metrics.get("eval/score"), *sides, items=0.01)
    assert found.interval[1] - found.absolute == pytest.approx(0.0196, rel=1e-3)
    assert tables.lacking(found, found.evidence, "score").startswith("sampling error ± 2 points")


def test_a_constant_of_the_task_has_no_sampling_error(make_run):
    values = {"eval/score": 0.8, "eval/majority_score": 0.5, "eval/examples": 100.0}
    section = compare("s", [make_run(arm, seed, values) for arm in ("base", "new") for seed in (0, 1, 2)]).sections[0]
    assert section.change(section.rows[1], "eval/score").interval[1] > 0.05
    assert section.change(section.rows[1], "eval/majority_score").interval == (0.0, 0.0)


FLOPS = "pretrain/flops"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((649.8e9, 635.0e9), (641.3e9, 592.6e9), Verdict.INCONCLUSIVE),  # what 12 s happened to reach: -4 %, interval ± 33 %
        ((650e9, 640e9), (656e9, 645e9), Verdict.SAME),  # with the padding of each seed
        ((650e9, 650e9), (656e9, 656e9), Verdict.SAME),
        ((650e9, 650e9), (700e9, 700e9), Verdict.WORSE),
    ],
)
def test_flops_that_scatter_are_the_same_where_tests_show_it(before: tuple, after: tuple, verdict: Verdict):
    sides = ({Replicate(str(seed), str(seed)): one for seed, one in enumerate(values)} for values in (before, after))
    assert change(metrics.get(FLOPS), *sides).verdict is verdict


@pytest.mark.parametrize(("budget", "verdict"), [("tokens", Verdict.SAME), ("seconds", Verdict.DIRECTION_BETTER)])
def test_one_pretraining_of_so_many_seconds_shows_no_equal_flops(pretrained, budget: str, verdict: Verdict):
    params = {"pretrain.tokens": "None", f"pretrain.{budget}": "12.0"}
    runs = [pretrained(arm, 0, {FLOPS: flops}, params) for arm, flops in (("base+mlm", 650e9), ("albert+mlm", 640e9))]
    study = compare("s", runs, "base+mlm")
    (section,) = study.sections
    assert section.change(section.rows[1], FLOPS).verdict is verdict
    assert of_pretrainings(study).change("albert+mlm", FLOPS).verdict is verdict


def test_an_interval_that_no_number_holds_is_infinite():
    """Two seeds of a noisy time, as one of hundreds of arms."""
    metric = metrics.get("finetune/duration_s")
    before, after = ({Replicate("", str(seed)): time for seed, time in enumerate(times)} for times in ((1.0, 9.0), (9.0, 1.0)))
    changes = corrected(dict.fromkeys(range(400), change(metric, before, after)))
    assert changes[0].interval == (pytest.approx(-changes[0].baseline_mean), math.inf)
    assert changes[0].verdict is Verdict.INCONCLUSIVE
    assert formats.difference(changes[0].absolute, "s", changes[0].interval) == "0 [−3, +∞] s"


@pytest.mark.parametrize("floor", [0.01, None])
def test_intervals_are_corrected_for_the_arms_with_and_without_a_verdict(floor: float | None):
    """Without a noise floor a time has no verdict; its interval is as wide as that of another."""
    metric = metrics.get("finetune/duration_s")
    sides = [
        {Replicate("", str(seed)): time for seed, time in enumerate(times)} for times in ((4.0, 4.1, 4.3), (5.0, 5.3, 5.2))
    ]
    untimed = change(metric, *sides)
    alone = of_evidence(replace(untimed.evidence, floor=floor, timing=True), untimed.baseline_mean)
    (first, second) = corrected({"a": alone, "b": alone}).values()
    assert first == second
    assert first.factor == 2.0
    assert first.p == pytest.approx(2 * alone.p)
    assert first.interval[0] < alone.interval[0] < alone.interval[1] < first.interval[1]


@pytest.mark.parametrize(("items", "verdict"), [(500, Verdict.SAME), (50, Verdict.INCONCLUSIVE)])
def test_scores_are_the_same_only_where_one_item_is_less_than_the_margin(items: int, verdict: Verdict):
    """Five seeds that differ by a thousandth: of 50 items one is 2 points, and the margin is one."""
    sides = [
        {Replicate("", str(seed)): 0.8 + one / 1000 for seed, one in enumerate(each)} for each in ([0] * 5, [1, -1, 0, 1, 0])
    ]
    assert change(metrics.get("eval/accuracy"), *sides, floor=1 / items).verdict is verdict
