"""Holm's correction: with many tests some would settle by chance, so that each must settle at a stricter confidence.

The tests of one claim are one family: the points of the reading that decides it. A verdict does not depend on which other
claims are audited.
"""

from dataclasses import replace

from harness.audit import verdicts
from harness.audit.kinds import Reading
from harness.audit.measured import Measured, Point
from harness.paired import CONFIDENCE, holm

HALVINGS = 40
"""Halvings of the range of p: its error is below 1e-12."""


def corrected(reading: Reading, measured: Measured) -> Measured:
    """What was measured, each test with its interval at the confidence at which it must settle."""
    claimed = verdicts.with_claimed(reading, measured)
    tests = {at: p_value(reading, point, value) for at, (point, value) in enumerate(claimed) if point.is_test}
    factors = dict(zip(tests, holm(list(tests.values())), strict=True))
    points = (
        point.at(1 - (1 - CONFIDENCE) / factors[at]) if at in factors else point for at, point in enumerate(measured.points)
    )
    return replace(measured, points=tuple(points))


def p_value(reading: Reading, point: Point, claimed: float) -> float:
    """The smallest p at which the point's interval settles what is claimed of it; 1 where it does so at none."""
    if verdicts.holds(reading, point.at(0.0), claimed) is None:
        return 1.0
    low, high = 0.0, 1.0  # it settles at p = high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        settles = verdicts.holds(reading, point.at(1 - middle), claimed) is not None
        low, high = (low, middle) if settles else (middle, high)
    return high
