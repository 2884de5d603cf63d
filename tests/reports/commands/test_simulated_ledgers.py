"""Simulated ledgers of up to 1,000 candidates against one baseline: how many hold a false pass, by the rule of the gate.

All candidates of a ledger share the scores of the baseline, so that their tests have much in common.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from harness import metrics
from harness.metrics import Margin
from harness.paired import LEVEL, Replicate
from reports.commands import gate
from reports.commands.gate import Limit, judge
from reports.commands.ledger import Ledger
from reports.comparison.statistics import Verdict, change

SCORE = metrics.get("eval/score")
DROP = Limit("eval/score", Margin(0.02), "2points")
PASSED = (Verdict.BETTER, Verdict.SAME)


def levels(candidates: int, looks: int | None) -> list[float]:
    """As the ledger gives them to one candidate after the other."""
    return [Ledger(Path(), [{"look": 1}] * before, looks).next_level for before in range(candidates)]


def verdict_of(before: np.ndarray, after: np.ndarray, level: float) -> Verdict:
    sides = [{Replicate("", str(seed)): float(score) for seed, score in enumerate(scores)} for scores in (before, after)]
    test = gate.Test(None, "new", DROP, *judge(found := change(SCORE, *sides), DROP, level), found, level)
    return gate.verdict([test])


def false_passes(ledgers: int, each: list[float], effect: float, verdicts: tuple[Verdict, ...], seeds: int = 5) -> float:
    """Share of ledgers in which a candidate, of which each differs by `effect`, has one of these verdicts."""
    rng, found = np.random.default_rng([len(each), ledgers, round(1e4 * abs(effect))]), 0
    for _ in range(ledgers):
        luck, base = rng.normal(0.8, 0.02, seeds), rng.normal(0, 0.01, seeds)
        scores = luck + effect + rng.normal(0, 0.01, (len(each), seeds))
        found += any(verdict_of(luck + base, one, level) in verdicts for one, level in zip(scores, each, strict=True))
    return found / ledgers


CASES = {
    "equal candidates, called better": (0.0, (Verdict.BETTER,)),
    "worse by the limit, passed": (-0.02, PASSED),
}


@pytest.mark.slow
@pytest.mark.parametrize("looks", [None, 1000])
@pytest.mark.parametrize("case", CASES)
def test_at_most_one_ledger_of_1000_looks_in_twenty_holds_a_false_pass(case: str, looks: int | None):
    ledgers = 200
    share = false_passes(ledgers, levels(1000, looks), *CASES[case])
    print(f"{case}, {looks or 'no limit of'} looks: {share:.4f} of {ledgers} ledgers of 1,000 candidates")
    assert share <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / ledgers)


@pytest.mark.long
def test_the_whole_level_for_each_of_50_candidates_would_not_be_honest():
    ledgers = 40
    shares = [false_passes(ledgers, each, 0.0, (Verdict.BETTER,)) for each in (levels(50, 50), [LEVEL] * 50)]
    print(f"false passes: shared level {shares[0]:.3f}, whole level each {shares[1]:.3f}")
    assert shares[0] <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / ledgers)
    assert shares[1] > 0.5


@pytest.mark.parametrize("looks", [None, 7])
def test_levels_sum_to_that_of_one_test(looks: int | None):
    each = levels(looks or 2000, looks)
    assert sum(each) == pytest.approx(LEVEL, rel=0.001)
    assert sum(each) <= LEVEL * (1 + 1e-9)
