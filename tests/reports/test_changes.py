"""A change in percent of the baseline's size, worked by hand."""

import pytest

from harness import metrics
from harness.metrics import Direction
from harness.paired import Replicate
from reports import tables
from reports.compare import compare
from reports.statistics import Verdict, change

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
    assert "(+200.0 %)" in tables.before_after(section)
