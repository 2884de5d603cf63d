"""Simulated studies of scores, judged as a table of the report is: false verdicts, power, and what is called the same.

All arms share the luck of a seed (2 points) and have luck of their own (2 points); a score is this quality itself, or the share
of 56 validation items that come out right, which adds the luck of the items. Run as a script, this file prints the full
table.
"""

import math

import numpy as np
import pytest

from harness import metrics
from harness.comparison.paired import Replicate
from harness.comparison.verdicts import Change, Verdict, change, corrected

pytestmark = pytest.mark.long

SCORE = metrics.get("eval/score")
ALARM = (Verdict.BETTER, Verdict.WORSE)
ITEMS = 56
KINDS = ("continuous", "items", "rounded")
"""Quality itself; right answers among ITEMS; quality rounded to whole items."""


def scores(rng: np.random.Generator, kind: str, arms: int, seeds: int, effect: float = 0.0, sd: float = 0.02) -> np.ndarray:
    """Of the baseline and `arms` others that are better by `effect`: (arms + 1, seeds)."""
    quality = 0.8 + rng.normal(0, 0.02, (1, seeds)) + rng.normal(0, sd, (arms + 1, seeds))
    quality[1:] += effect
    if kind == "items":
        return rng.binomial(ITEMS, quality.clip(0, 1)) / ITEMS
    return np.round(quality * ITEMS) / ITEMS if kind == "rounded" else quality


def judged(found: np.ndarray, item: float | None) -> list[Change]:
    """Of every arm but the first, as the family that a table judges."""
    base, *others = [{Replicate("", str(seed)): float(score) for seed, score in enumerate(one)} for one in found]
    return list(corrected({arm: change(SCORE, base, one, item) for arm, one in enumerate(others)}).values())


def verdicts(studies: int, kind: str, arms: int, seeds: int, known: bool = True, **how: float) -> list[list[Verdict]]:
    """Study -> verdicts of its arms. `known`: whether the number of items is."""
    rng = np.random.default_rng([arms, seeds, KINDS.index(kind)])
    item = 1 / ITEMS if known and kind != "continuous" else None
    return [[one.verdict for one in judged(scores(rng, kind, arms, seeds, **how), item)] for _ in range(studies)]


def false_families(found: list[list[Verdict]]) -> float:
    """Share of studies with any false verdict."""
    return float(np.mean([any(verdict in ALARM for verdict in one) for one in found]))


def share(found: list[list[Verdict]], verdict: Verdict) -> float:
    """Of all arms."""
    return float(np.mean([one is verdict for of_study in found for one in of_study]))


def allowed(studies: int) -> float:
    """5 % and two standard errors of it."""
    return 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_two_equal_arms_are_seldom_told_apart(kind: str, seeds: int):
    assert false_families(verdicts(2000, kind, 1, seeds)) <= allowed(2000)


@pytest.mark.parametrize("seeds", [2, 3])
def test_ties_are_no_evidence_where_the_number_of_items_is_unknown(seeds: int):
    assert false_families(verdicts(2000, "rounded", 1, seeds, known=False)) <= allowed(2000)


@pytest.mark.parametrize(("arms", "studies"), [(2, 1000), (20, 200)])
def test_a_table_of_equal_arms_seldom_holds_any_difference(arms: int, studies: int):
    assert false_families(verdicts(studies, "continuous", arms, 3)) <= allowed(studies)


def test_without_a_correction_a_table_of_twenty_equal_arms_mostly_holds_one():
    """What Holm's correction is for."""
    rng = np.random.default_rng(0)
    found = [judged(scores(rng, "continuous", 20, 3), None) for _ in range(200)]
    assert np.mean([any(one.evidence.verdict() in ALARM for one in study) for study in found]) > 0.3


def test_what_is_there_is_found_and_small_differences_are_called_the_same():
    assert share(verdicts(200, "continuous", 2, 5, effect=0.08), Verdict.BETTER) > 0.8
    assert share(verdicts(200, "continuous", 2, 10, sd=0.004), Verdict.SAME) > 0.8
    apart = verdicts(500, "continuous", 1, 10, effect=0.01, sd=0.004)
    assert share(apart, Verdict.SAME) <= allowed(500)


if __name__ == "__main__":
    for arms, studies in ((1, 4000), (2, 2000), (20, 1000)):
        for kind in KINDS:
            shares = [f"{seeds} seeds {false_families(verdicts(studies, kind, arms, seeds)):.3f}" for seeds in (2, 3, 5, 10)]
            print(f"{arms} equal arms, {kind}, studies with a false verdict:", ", ".join(shares), flush=True)
    for arms in (2, 20):
        for effect in (0.01, 0.02, 0.04, 0.08):
            found = {seeds: verdicts(2000 // arms, "continuous", arms, seeds, effect=effect) for seeds in (3, 5, 10)}
            power = [f"{seeds} seeds {share(one, Verdict.BETTER):.2f}" for seeds, one in found.items()]
            print(f"{arms} arms better by {100 * effect:.0f} points, found:", ", ".join(power), flush=True)
