"""Simulated ledgers of up to 1,000 candidates against one baseline: how many hold a false pass, by the rule of the gate.

All candidates of a ledger share the scores of the baseline, so that their tests have much in common.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from harness import metrics
from harness.comparison.paired import LEVEL, Replicate
from harness.comparison.verdicts import Verdict, change
from harness.metrics import Margin
from harness.plugins.decide import gate
from harness.plugins.decide.gate import Limit
from harness.plugins.decide.ledger import Ledger

SCORE = metrics.get("eval/score")
DROP = Limit("eval/score", Margin(0.02), "2points")
SEEDS = 5
PASSED = (Verdict.BETTER, Verdict.SAME)


def levels(candidates: int, looks: int | None) -> list[float]:
    """As the ledger gives them to one candidate after the other."""
    return [Ledger(Path(), [{"look": before, "runs": []}], looks).place(["new"])[1] for before in range(candidates)]


def verdict_of(before: np.ndarray, after: np.ndarray, level: float) -> Verdict:
    sides = [{Replicate("", str(seed)): float(score) for seed, score in enumerate(scores)} for scores in (before, after)]
    return gate.verdict([gate.Test(None, "new", DROP, change(SCORE, *sides), level=level)], 1)


def false_passes(ledgers: int, each: list[float], effect: float, verdicts: tuple[Verdict, ...], all_judged: int = 2) -> float:
    """Share of ledgers in which a candidate, of which each differs by `effect`, has one of these verdicts.

    From the third ledger on, candidates whose t test is far from their level are not judged: in the first two they fail.
    """
    rng, found, null = np.random.default_rng([len(each), ledgers, round(1e4 * abs(effect))]), 0, np.array(each)
    for ledger in range(ledgers):
        luck, base = rng.normal(0.8, 0.02, SEEDS), rng.normal(0, 0.01, SEEDS)
        scores = luck + effect + rng.normal(0, 0.01, (len(each), SEEDS))
        near = ttest_1samp(scores - luck - base, effect, axis=1, alternative="greater").pvalue <= 2 * null
        judged = [
            verdict_of(luck + base, scores[at], each[at]) in verdicts
            for at in range(len(each))
            if near[at] or ledger < all_judged
        ]
        found += any(judged)
        assert ledger >= all_judged or not any(passed and not at for passed, at in zip(judged, near, strict=True))
    return found / ledgers


CASES = {
    "equal candidates, called better": (0.0, (Verdict.BETTER,)),
    "worse by the limit, passed": (-0.02, PASSED),
}


def allowance(ledgers: int) -> float:
    """Two standard errors of a share of 5 %."""
    return 2 * math.sqrt(LEVEL * (1 - LEVEL) / ledgers)


@pytest.mark.long
@pytest.mark.parametrize("looks", [None, 1000])
@pytest.mark.parametrize("case", CASES)
def test_at_most_one_ledger_of_1000_looks_in_twenty_holds_a_false_pass(case: str, looks: int | None):
    ledgers = 1000
    share = false_passes(ledgers, levels(1000, looks), *CASES[case])
    print(f"{case}, {looks or 'no limit of'} looks: {share:.4f} of {ledgers} ledgers of 1,000 candidates")
    assert share <= LEVEL + allowance(ledgers)


@pytest.mark.long
def test_the_whole_level_for_each_of_50_candidates_would_not_be_honest():
    shares = [false_passes(300, each, *CASES["worse by the limit, passed"]) for each in (levels(50, 50), [LEVEL] * 50)]
    print(f"false passes: shared level {shares[0]:.3f}, whole level each {shares[1]:.3f}")
    assert shares[0] <= LEVEL + allowance(300)
    assert shares[1] > 0.3


@pytest.mark.parametrize("looks", [None, 7])
def test_levels_sum_to_that_of_one_test(looks: int | None):
    each = levels(looks or 2000, looks)
    assert sum(each) == pytest.approx(LEVEL / 2, rel=0.001)  # the other half is for further looks
    assert sum(each) <= LEVEL / 2 * (1 + 1e-9)


@pytest.mark.parametrize("looks", [None, 3])
def test_whatever_seeds_of_a_candidate_are_judged_levels_sum_to_that_of_one_test(looks: int | None):
    """All of them, then twenty parts that have no seed in common; then two candidates, and both as one."""
    seeds, lines, spent = [f"seed {seed}" for seed in range(60)], [], 0.0
    parts = [seeds, *(seeds[first : first + 3] for first in range(0, 60, 3)), ["other"], ["other", seeds[0]]]
    for runs in parts:
        look, level = Ledger(Path(), lines, looks).place(runs)
        lines.append({"look": look, "runs": runs})
        spent += level
    assert spent <= LEVEL


@pytest.mark.long
@pytest.mark.parametrize("looks", [None, 20])
def test_the_best_of_15_may_be_looked_at_again_and_again(looks: int | None):
    """With one seed more each time, five times: where each look had a 20th of the level, 7.7 % passed falsely."""
    rng, ledgers, wrong = np.random.default_rng(0), 2000, 0
    first, again = levels(15, looks), [0.5**look for look in range(1, 6)]
    for _ in range(ledgers):
        differences = rng.normal(0, 1, (15, SEEDS + 5)) - rng.normal(0, 1, SEEDS + 5)
        p = ttest_1samp(differences[:, :SEEDS], 0, axis=1, alternative="greater").pvalue
        best = int(p.argmin())
        later = [ttest_1samp(differences[best, : SEEDS + more], 0, alternative="greater").pvalue for more in range(1, 6)]
        wrong += any(p <= first) or any(one <= first[best] * part for one, part in zip(later, again, strict=True))
    print(f"{looks or 'no limit of'} looks: {wrong / ledgers:.4f} of {ledgers} ledgers")
    assert wrong / ledgers <= LEVEL
