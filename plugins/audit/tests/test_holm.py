"""Holm's correction: p values are those of the t test, and of many tests only those far enough from chance settle."""

import math

import numpy as np
import pytest
from scipy import stats

from harness.comparison.paired import CONFIDENCE, of_differences
from harness.plugins.audit import verdicts
from harness.plugins.audit.claims import Reading, Relation, read
from harness.plugins.audit.command import settle
from harness.plugins.audit.verdicts import Measured, Point

BETTER = Reading(measure="score", relation=Relation.better, margin=0.0)


def point(differences: list[float]) -> Point:
    found = of_differences(differences)
    return Point(found.mean, {}, difference=found).at(CONFIDENCE)


def with_p(p: float, n: int = 5) -> Point:
    """Differences whose t test has this p, two-sided."""
    shape = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])[:n]
    t = stats.t.isf(p / 2, n - 1)
    return point(list(shape + t * shape.std(ddof=1) / math.sqrt(n)))


def settled(ones: list[Point], reading: Reading = BETTER) -> list[bool]:
    """Which points of one reading are settled."""
    return [verdicts.holds(reading, one, 0.0) is not None for one in verdicts.corrected(reading, Measured(tuple(ones))).points]


@pytest.mark.parametrize("p", [0.3, 0.04, 1e-4])
def test_p_is_that_of_the_t_test(p: float):
    assert verdicts.p_value(BETTER, with_p(p), 0.0) == pytest.approx(p, rel=1e-6)


def test_p_of_a_ratio_is_that_of_its_logarithms():
    logs = [0.1, 0.3, 0.2, 0.25]
    found = of_differences(logs)
    one = Point(math.expm1(found.mean), {}, difference=found, ratio=True).at(CONFIDENCE)
    assert verdicts.p_value(BETTER, one, 0.0) == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, rel=1e-6)


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([0.04], [True]),
        ([0.04, 0.04], [False, False]),
        ([0.01, 0.04], [True, True]),  # 0.05 / 2, then 0.05 / 1
        ([0.04, 0.001, 0.02], [True, True, True]),
        ([0.04, 0.001, 0.03], [False, True, False]),  # 0.05 / 3, 0.05 / 2, and no further
        ([0.2, 0.001], [False, True]),
    ],
)
def test_of_several_tests_each_must_pass_its_own_level(ps: list[float], expected: list[bool]):
    assert settled([with_p(p) for p in ps]) == expected


def test_an_interval_is_shown_at_the_confidence_at_which_it_must_settle():
    """So that the verdict is read off it: of two tests at 0.04, neither interval leaves out 0, as each alone does."""
    alone, both = (verdicts.corrected(BETTER, Measured((with_p(0.04),) * n)).points for n in (1, 2))
    assert alone[0].low > 0
    assert all(one.low < 0 for one in both)


def test_counts_are_no_tests():
    counted = Measured((Point(5, {}),))
    assert verdicts.corrected(Reading(claimed=5, relation=Relation.equal, tolerance=0.0), counted) == counted


CLAIMS = {
    "better": (Relation.better, 0.0, 0.5),
    "better by more than there is": (Relation.better, 0.0, 0.0),
    "no difference, at its end": (Relation.no_difference, 0.5, 0.5),
}
"""Claim -> its relation, the true difference in standard deviations, and the margin."""


def is_false(relation: Relation, truth: float, margin: float, held: bool | None) -> bool:
    """Better: true above 0, false below the margin. No difference: neither at the margin itself."""
    if relation is Relation.better:
        return (held is True and truth <= 0) or (held is False and truth >= margin > 0)
    return held is not None


@pytest.mark.long
@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("tests", [1, 4])
def test_at_most_one_claim_in_twenty_gets_a_false_verdict(name: str, tests: int):
    """Whatever else is audited, 5 seeds, 1,000 claims of so many lengths or tasks; uncorrected, four tests have up to 19 %."""
    relation, truth, margin = CLAIMS[name]
    reading = Reading(measure="score", relation=relation, margin=margin)
    stream, claims = np.random.default_rng(0), 1000
    false = 0
    for _ in range(claims):
        ones = [point(list(stream.normal(truth, size=5))) for _ in range(tests)]
        found = verdicts.corrected(reading, Measured(tuple(ones))).points
        false += any(is_false(relation, truth, margin, verdicts.holds(reading, one, 0.0)) for one in found)
    assert false <= (0.05 + 2 * math.sqrt(0.05 * 0.95 / claims)) * claims


def test_the_verdict_of_a_claim_does_not_depend_on_the_others(tmp_path):
    claim = "{claim: it is better, relation: better, readings: {it: {measure: score, of: model=a, against: model=b}}}"
    text = "source: a test\nclaims:\n" + "".join(f"  c{n}: {claim}\n" for n in range(20))
    (tmp_path / "many.yaml").write_text(text)
    claims = read(tmp_path / "many.yaml")
    assert {settle(claim, [Measured((with_p(0.04),), "score")]).text for claim in claims} == {"confirmed"}
    several = settle(claims[0], [Measured((with_p(0.04), with_p(0.03)), "score")])
    assert (several.verdict, several.readings[0].family) == ("undecided", "2 tests in one family")
