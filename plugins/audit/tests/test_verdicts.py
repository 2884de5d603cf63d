"""From points to verdicts: what is counted, what has an interval, and claims that are read in several ways."""

import math

import pytest

from harness.plugins.audit.claims import Reading, Relation
from harness.plugins.audit.verdicts import PAIRS, Measured, Point, Verdict, of_reading


def reading(relation: str = "equal", claimed: object = 100, tolerance: float = 0.0, margin: float = 0.0):
    return Reading(measure="parameters", claimed=claimed, relation=Relation[relation], tolerance=tolerance, margin=margin)


def by_length(**values: float) -> Measured:
    return Measured(tuple(Point(value, {"length": int(length[1:])}) for length, value in values.items()), "share")


@pytest.mark.parametrize(
    ("relation", "claimed", "tolerance", "value", "verdict"),
    [
        ("equal", 100, 0, 100, "confirmed"),
        ("equal", 100, 0, 101, "refuted"),
        ("equal", 100, 0.01, 101, "confirmed"),
        ("equal", -0.8, 0.01, -0.807, "confirmed"),
        ("equal", -0.8, 0.01, -0.809, "refuted"),
        ("at_most", 100, 0, 100, "confirmed"),
        ("at_most", 100, 0, 100.1, "refuted"),
        ("at_most", -0.87, 0, -0.9, "confirmed"),
        ("at_least", 0.6, 0, 0.6, "confirmed"),
        ("at_least", 0.6, 0, 0.5, "refuted"),
        ("equal", "a b", 0, "a b", "confirmed"),
        ("equal", "a b", 0, "a c", "refuted"),
        ("equal", "a b", 0, 100, "refuted"),
        ("at_most", 100, 0, "a b", "refuted"),
    ],
)
def test_a_counted_value_settles(relation, claimed, tolerance, value, verdict):
    settled = of_reading(reading(relation, claimed, tolerance), Measured((Point(value, {}),)))
    assert settled.verdict.value == verdict


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict"),
    [
        ("better", 0.005, 0.03, "confirmed"),
        ("better", -0.005, 0.03, "undecided"),
        ("better", -0.03, -0.005, "refuted"),
        ("better", -0.005, 0.009, "refuted"),  # not by the margin
        ("better", 0.001, 0.009, "refuted"),
        ("better", -math.inf, math.inf, "undecided"),
        ("no_difference", -0.005, 0.009, "confirmed"),
        ("no_difference", -0.005, 0.011, "undecided"),
        ("no_difference", 0.011, 0.02, "refuted"),
        ("at_least", 0.009, 0.02, "undecided"),
    ],
)
def test_an_interval_settles_where_it_is_on_one_side(relation, low, high, verdict):
    measured = Measured((Point((low + high) / 2 if math.isfinite(low) else 0.01, {}, low, high),), missing="a study")
    settled = of_reading(reading(relation, 0.01, margin=0.01), measured)
    assert settled.verdict.value == verdict
    assert settled.text == ("needs a study" if verdict == "undecided" else "")


def test_a_claim_that_names_no_length_holds_from_one_on():
    at_most = reading("at_most", -0.87)
    assert str(of_reading(at_most, by_length(_64=-0.6, _128=-0.8, _256=-0.9, _512=-0.95))) == "holds only where length ≥ 256"
    assert str(of_reading(at_most, by_length(_64=-0.9, _128=-0.9, _256=-0.8))) == "holds only where length ≤ 128"
    inner = by_length(_16=-0.8, _64=-0.9, _128=-0.9, _256=-0.8)
    assert str(of_reading(at_most, inner)) == "holds only where length from 64 to 128"
    gap = by_length(_16=-0.8, _64=-0.9, _128=-0.8, _256=-0.9, _512=0)
    assert str(of_reading(at_most, gap)) == "holds only where length = 64, 256"
    assert of_reading(at_most, by_length(_64=-0.9, _128=-0.9)).verdict is Verdict.CONFIRMED
    assert of_reading(at_most, by_length(_64=-0.1, _128=-0.2)).verdict is Verdict.REFUTED


def test_no_difference_needs_no_claimed_value():
    for value, verdict in ((0.005, "confirmed"), (-0.02, "refuted")):
        assert of_reading(reading("no_difference", None, margin=0.01), Measured((Point(value, {}),))).verdict.value == verdict


def test_several_conditions_are_named_together():
    points = [Point(batch * length, {"length": length, "batch": batch}) for length in (10, 20) for batch in (1, 2)]
    settled = of_reading(reading("equal", 20), Measured(tuple(points)))
    assert str(settled) == "holds only where length 10, batch 2; length 20, batch 1"


def test_each_point_may_have_its_own_claimed_value():
    measured = by_length(_1=10, _2=20)
    assert of_reading(reading(claimed=[10, 20]), measured).verdict is Verdict.CONFIRMED
    assert str(of_reading(reading(claimed=[10, 21]), measured)) == "holds only where length ≤ 1"
    with pytest.raises(ValueError, match="expected 2 values"):
        of_reading(reading(claimed=[10, 20, 30]), measured)


def test_points_that_the_claim_speaks_of_must_all_be_there():
    part = Measured((Point(0.02, {"task": "a"}, 0.01, 0.03),), scope="task a", incomplete="b, c")
    settled = of_reading(reading("better"), part)
    assert str(settled) == "undecided (confirmed (task a); not measured: b, c)"


def test_points_of_studies_with_other_budgets_are_told_apart():
    """One study counts its steps, the other its epochs."""
    points = (Point(0.1, {"task": "order", "max_steps": 60}, -0.1, 0.3), Point(0.5, {"task": "order", "epochs": 3}, 0.4, 0.6))
    settled = of_reading(reading("better"), Measured(points))
    assert str(settled) == "holds only where epochs 3; undecided where max_steps 60"


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.001, 0.011, "undecided"), (0.0032, 0.0088, "refuted"), (0.001, 0.021, "confirmed")]
)
def test_better_means_better_by_the_margin(low, high, verdict):
    found = Measured((Point((low + high) / 2, {}, low, high),), "score")
    assert of_reading(reading("better", margin=0.01), found).verdict.value == verdict


def test_the_number_of_pairs_is_no_condition():
    points = [
        Point(value, {"rate": rate, PAIRS: n}, value - 0.01, value + 0.01)
        for value, rate, n in ((0.1, 1e-3, 5), (-0.1, 1e-4, 3))
    ]
    found = of_reading(reading("better", margin=0.01), Measured(tuple(points), "score"))
    assert (found.verdict, found.text) == (Verdict.HOLDS_WHERE, "rate ≥ 0.001")
