"""Holm's correction: with many tests some would settle by chance, so that each must settle at a stricter confidence.

All tests of one audit are one family: every point with an interval in a reading that counts. A point that does not survive
is as open as one whose interval leaves the claim open.
"""

from collections.abc import Sequence
from dataclasses import replace

from harness.audit import verdicts
from harness.audit.kinds import Reading
from harness.audit.measured import Measured, Point
from harness.paired import CONFIDENCE, holm

HALVINGS = 40
"""Of the range of p: its error is below 1e-12."""


def corrected(found: Sequence[tuple[Reading, Measured]]) -> tuple[list[Measured], int]:
    """What was measured, with the points marked that do not survive; and the number of tests."""
    tests = {
        (row, column): p_value(reading, point, claimed)
        for row, (reading, measured) in enumerate(found)
        if not reading.beside
        for column, (point, claimed) in enumerate(verdicts.with_claimed(reading, measured))
        if point.is_test
    }
    factors = zip(tests, holm(list(tests.values())), strict=True)
    refused = {place for place, factor in factors if tests[place] <= 1 - CONFIDENCE < factor * tests[place]}
    marked = [
        replace(one, points=tuple(replace(point, open=(row, at) in refused) for at, point in enumerate(one.points)))
        for row, (_, one) in enumerate(found)
    ]
    return marked, len(tests)


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
