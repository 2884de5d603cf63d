"""One table of cases: what report, `pick`, `gate` and audit say of each, by the same rules; and verdicts beside brackets."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from harness import metrics
from harness.comparison import overall
from harness.comparison.compare import Comparison, compare
from harness.comparison.verdicts import EQUIVALENCE, Change, Verdict
from harness.metrics import Margin
from harness.plugins.audit import scores
from harness.plugins.decide import gate
from harness.plugins.decide.gate import Limit, Outcome, Pair
from harness.plugins.decide.pick import Bound, Satisfies, candidates
from harness.plugins.shared.seeds import has_enough
from harness.reports.writing import tables

SCORE, LATENCY = "eval/score", "inference/latency_ms_p50"
MANY = 1e6
"""Items that leave nothing open."""
STEADY, LOOSE = [0.80, 0.81, 0.79, 0.805], [0.70, 0.85, 0.78, 0.90]
QUIET, AGAIN = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95], [10.1, 10.0, 10.0, 9.9, 10.0, 10.0]
NOISY, WILD = [9.0, 11.0, 10.5, 9.6, 10.9, 9.4], [4.0, 25.0, 10.0, 8.0, 30.0, 9.0]


@dataclass(frozen=True)
class Case:
    """Scores of the baseline and an arm by seed, with the majority baseline's and the number of items; or times by round."""

    before: list[float]
    after: list[float]
    report: Verdict
    gate: Outcome  # a drop of 2 points, or a slow-down of 5 %, is allowed
    pick: Satisfies  # the arm itself: a score of at least 0.75, or a latency of at most 11 ms
    audit: str = ""  # "better", "worse", "open", or "silent" where the task cannot tell; times are not audited by runs
    constant: float = 0.5
    items: float = MANY
    again: list[float] | None = None  # the A/A replicate of times


def moved(by: float, scores: list[float] = STEADY, scatter: float = 0.001) -> list[float]:
    return [score + by + scatter * (-1) ** at for at, score in enumerate(scores)]


def slowed(factor: float, times: list[float] = AGAIN) -> list[float]:
    return [factor * time for time in times]


CASES = {
    "one seed": Case([0.8], [0.9], Verdict.DIRECTION_BETTER, Outcome.NOT_JUDGED, Satisfies.UNSURE, "open"),
    "two seeds": Case(STEADY[:2], moved(0.1)[:2], Verdict.INCONCLUSIVE, Outcome.NOT_JUDGED, Satisfies.UNSURE, "open"),
    "two equal differences": Case(
        [0.80, 0.81], [0.8246, 0.8346], Verdict.INCONCLUSIVE, Outcome.NOT_JUDGED, Satisfies.UNSURE, "open", items=500
    ),
    "three equal differences on few items": Case(
        STEADY[:3], moved(0.0246, scatter=0)[:3], Verdict.INCONCLUSIVE, Outcome.NOT_SHOWN, Satisfies.YES, "open", items=200
    ),
    "all at the majority baseline": Case(
        [0.80, 0.801, 0.799], [0.80, 0.799, 0.801], Verdict.OPEN, Outcome.NOT_JUDGED, Satisfies.UNSURE, "silent", constant=0.8
    ),
    "all below the majority baseline": Case(
        [0.60, 0.601, 0.599], [0.70, 0.701, 0.699], Verdict.OPEN, Outcome.NOT_JUDGED, Satisfies.NO, "silent", constant=0.8
    ),
    "both at the ceiling": Case(
        [0.999, 1.0, 0.998], [1.0, 0.999, 0.999], Verdict.INCONCLUSIVE, Outcome.NOT_JUDGED, Satisfies.YES, "silent"
    ),
    "a loss from the ceiling": Case(
        [0.999, 1.0, 0.998], [0.95, 0.951, 0.949], Verdict.WORSE, Outcome.INFERIOR, Satisfies.YES, "worse"
    ),
    "a clear gain": Case(STEADY, moved(0.1), Verdict.BETTER, Outcome.PASSED, Satisfies.YES, "better"),
    "a clear loss": Case(STEADY, moved(-0.1), Verdict.WORSE, Outcome.INFERIOR, Satisfies.NO, "worse"),
    "a gain that the items may explain": Case(
        STEADY, moved(0.03), Verdict.INCONCLUSIVE, Outcome.PASSED, Satisfies.YES, "open", items=872
    ),
    "the same, narrow": Case(STEADY, moved(0.001), Verdict.SAME, Outcome.PASSED, Satisfies.YES, "open"),
    "the same, wide": Case(STEADY, LOOSE, Verdict.INCONCLUSIVE, Outcome.NOT_SHOWN, Satisfies.UNSURE, "open"),
    "the same on few items": Case(
        STEADY, moved(0.001), Verdict.INCONCLUSIVE, Outcome.NOT_SHOWN, Satisfies.UNSURE, "open", items=100
    ),
    "a time within the floor": Case(
        QUIET, slowed(1.03, QUIET), Verdict.INCONCLUSIVE, Outcome.NOT_JUDGED, Satisfies.UNSURE, again=NOISY
    ),
    "a time beyond the floor": Case(QUIET, slowed(1.5), Verdict.WORSE, Outcome.INFERIOR, Satisfies.NO, again=AGAIN),
    "a time beside a floor that supports nothing": Case(
        QUIET, slowed(1.5), Verdict.OPEN, Outcome.NOT_JUDGED, Satisfies.UNSURE, again=WILD
    ),
    "a time without a floor": Case(QUIET, slowed(1.5), Verdict.OPEN, Outcome.NOT_JUDGED, Satisfies.UNSURE, again=[]),
    "the same time": Case(QUIET, slowed(1.001), Verdict.SAME, Outcome.PASSED, Satisfies.YES, again=AGAIN),
}


@pytest.fixture
def compared(make_run, timed):
    """The comparison of the two arms of a case."""

    def made(case: Case) -> Comparison:
        sides = {"base": case.before, "new": case.after}
        if case.again is not None:
            again = [timed("base", case.again, replicate="true")] if case.again else []
            return compare("s", [timed("base", case.before), *again, timed("new", case.after)])
        beside = {"eval/majority_score": case.constant, "eval/examples": case.items}
        runs = [
            make_run(arm, seed, {SCORE: score} | beside) for arm, scores in sides.items() for seed, score in enumerate(scores)
        ]
        return compare("s", runs)

    return made


@pytest.mark.parametrize("name", CASES)
def test_report_pick_and_gate_decide_by_one_set_of_rules(compared, name: str):
    case = CASES[name]
    comparison, is_time = compared(case), case.again is not None
    metric = LATENCY if is_time else SCORE
    section = comparison.sections[0]
    assert overall.of_tasks(comparison).change("new", metric).verdict is case.report  # the first table
    assert section.change(section.row_of("new"), metric).verdict is case.report
    margin = Margin(0.05, relative=True) if is_time else Margin(0.02)
    (test,) = gate.tests(comparison, [Pair("new", "new", "base")], [Limit(metric, margin, "X")])
    outcome, reason = test.judged
    assert outcome is case.gate, reason
    assert (outcome is Outcome.PASSED) == (reason == "")
    bound = Bound(LATENCY, 11.0) if is_time else Bound(SCORE, 0.75, at_least=True)
    (found,) = [one for one in candidates(comparison, [bound]) if one.arm == "new"]
    assert found.fit is case.pick, found.checked[0].found


def audited(comparison: Comparison) -> str:
    """What the audit makes of the same scores, for a claim that the arm is better."""
    (section,) = comparison.sections
    found = scores.difference(section.against(section.row_of("new")), metrics.get(SCORE), 0.01)
    if isinstance(found, str):
        return "silent"
    low, high = found.interval if has_enough(found) else (-math.inf, math.inf)
    return "better" if low > 0 else "worse" if high < 0 else "open"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.again is None])
def test_the_audit_decides_by_the_same_rules(compared, name: str):
    assert audited(compared(CASES[name])) == CASES[name].audit


def cells(rng: np.random.Generator, make_run, timed) -> list[tuple[str, Change]]:
    """Metric and change of all arms of a random study: scores, a loss, memory, and times of a session."""
    arms, seeds, rounds = int(rng.integers(2, 6)), int(rng.integers(1, 7)), int(rng.integers(2, 9))
    items, level = float(rng.choice([56, 872, 40_000])), float(rng.choice([0.5, 0.8, 0.985]))
    runs = []
    for arm in ["base", *(f"arm{number}" for number in range(arms))]:
        effect, scatter, slower = rng.normal(0, 0.02), rng.choice([0.0005, 0.005, 0.03]), rng.choice([0.8, 1.0, 1.02, 1.3])
        times = list(10 * slower * rng.lognormal(0, rng.choice([0.002, 0.02, 0.1]), rounds))
        for seed in range(seeds):
            score = float(np.clip(round((level + effect + rng.normal(0, scatter)) * items) / items, 0, 1))
            values = {SCORE: score, "eval/majority_score": 0.5, "eval/examples": items, "eval/loss": 1 - score}
            values |= {"inference/peak_memory_bytes": 4096.0 * round(1e4 * slower)}
            runs.append(timed(arm, times, seed, values))
    runs.append(timed("base", list(10 * rng.lognormal(0, rng.choice([0.002, 0.02]), rounds)), replicate="true"))
    comparison = compare("s", runs)
    section, over = comparison.sections[0], overall.of_tasks(comparison)
    names = (SCORE, "eval/loss", "inference/peak_memory_bytes", LATENCY, "inference/tokens_per_s")
    changes = [(name, section.change(row, name)) for row in section.rows[1:] for name in names]
    changes += [(name, over.change(row.label, name)) for row in section.rows[1:] for name in names]
    return [(name, change) for name, change in changes if change and change.interval]


def printed(text: str) -> tuple[float, float]:
    low, high = re.search(r"\[([−+\d.]+), ([−+\d.]+)\]", text).groups()
    return tuple(float(end.replace("−", "-")) for end in (low, high))


@pytest.mark.long
def test_no_verdict_stands_beside_a_bracket_that_denies_it(make_run, timed):
    """In all cells of generated studies what is the same is within its margin, and what differs leaves 0 out."""
    rng, seen = np.random.default_rng(0), set()
    for _ in range(150):
        for name, change in cells(rng, make_run, timed):
            metric, (low, high) = metrics.get(name), change.interval
            seen.add((change.verdict, metric.unit))
            margin = change.evidence.margin
            ends = (math.expm1(-margin), math.expm1(margin)) if change.evidence.ratio else (-margin, margin)
            lower, upper = (end * (change.baseline_mean if change.evidence.ratio else 1) for end in ends)
            text, room = " ".join(tables.difference(change, metric.unit).lines), 0.1
            if change.verdict is Verdict.SAME:
                assert change.confidence == EQUIVALENCE
                assert lower <= low <= change.absolute <= high <= upper
                assert " (90 %)" in text
                in_units = 100 / change.baseline_mean if change.evidence.ratio else 100 if metric.unit == "score" else 1
                shown = printed(text)
                assert lower * in_units - room <= shown[0]
                assert shown[1] <= upper * in_units + room
            else:
                assert "(90 %)" not in text
                assert "same" not in text
            if change.verdict in (Verdict.BETTER, Verdict.WORSE):
                assert low > 0 or high < 0
                rises = (change.verdict is Verdict.BETTER) == (metric.direction is metrics.Direction.HIGHER)
                assert rises == (low > 0)
    assert {verdict for verdict, _ in seen} >= {Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.OPEN}
    assert (Verdict.SAME, "score") in seen
