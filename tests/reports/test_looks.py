"""Simulated studies that add seeds until every arm is resolved, judged by the rule of the tool at every look.

The numbers of seeds are those of the harness, the rule is that of `reports.after_look`, the verdict at the end a report's.
All arms share the luck of a seed and have luck of their own.
"""

import math
from functools import cache

import numpy as np
import pytest

from harness import tags
from harness.comparison import by_launch, overall
from harness.comparison.compare import compare
from harness.comparison.paired import FEWEST_REPLICATES, Replicate
from harness.comparison.section import HEADLINE
from harness.comparison.verdicts import Verdict, change, corrected
from harness.reports import after_look
from harness.reports.writing import findings

STUDIES = 2000
LOOKS = by_launch.looks(FEWEST_REPLICATES, 12)
DIFFERENT = (Verdict.BETTER, Verdict.WORSE)


def at_look(scores: np.ndarray, seeds: int, looks: int = len(LOOKS)) -> dict[int, after_look.Change]:
    """Change of every arm after so many seeds; `scores`: (arms, seeds), the baseline first."""
    values = [{Replicate("", str(seed)): float(score) for seed, score in enumerate(arm[:seeds])} for arm in scores]
    return corrected({arm: change(SCORE, values[0], values[arm], looks=looks) for arm in range(1, len(scores))})


SCORE = after_look.metrics.get(HEADLINE)


def ended(scores: np.ndarray) -> tuple[int, list[Verdict]]:
    """Seeds after which the study ends, and the verdict on each arm."""
    for seeds in LOOKS:
        changes = at_look(scores, seeds)
        if not any(map(after_look.is_open, changes.values())):
            break
    return seeds, [one.verdict for one in changes.values()]


@cache
def studies(arms: int, effect: float = 0.0, last: float = 0.02, studies: int = STUDIES) -> list[tuple[int, list[Verdict]]]:
    """`effect`: how much the first arm is better; `last`: scatter of the last one, 0.02 of the others."""
    rng = np.random.default_rng([arms, int(1000 * effect)])
    sds = np.array([0.02] * arms + [last])
    made = 0.7 + rng.normal(0, 0.02, (studies, 1, LOOKS[-1])) + rng.normal(0, 1, (studies, arms + 1, LOOKS[-1])) * sds[:, None]
    made[:, 1] += effect
    return [ended(one) for one in made]


def share(found: list[tuple[int, list[Verdict]]], verdicts: tuple[Verdict, ...], arm: int | None = None) -> float:
    return float(np.mean([any(one in verdicts for one in (each if arm is None else each[arm : arm + 1])) for _, each in found]))


def allowance(count: int) -> float:
    """Two standard errors of a share of 5 %."""
    return 2 * math.sqrt(0.05 * 0.95 / count)


@pytest.mark.slow
@pytest.mark.parametrize("last", [0.02, 0.06])
@pytest.mark.parametrize("arms", [1, 3])
def test_equal_arms_are_seldom_told_apart_whenever_a_study_ends(arms: int, last: float):
    found = studies(arms, last=last)
    alarms, seeds = share(found, DIFFERENT), np.mean([number for number, _ in found])
    print(f"{arms} arms, sd {last}: false verdicts {alarms:.4f} of {len(found)}, {seeds:.1f} seeds")
    assert alarms <= 0.05 + allowance(len(found))


@pytest.mark.slow
def test_an_arm_that_is_better_by_the_margin_is_seldom_called_the_same():
    """Just at the margin, which is the worst place; scatter small enough for the test of equivalence."""
    rng, same = np.random.default_rng(3), []
    for _ in range(STUDIES):
        base = rng.normal(0.7, 0.02, LOOKS[-1])
        same.append(Verdict.SAME in ended(np.stack([base, base + 0.01 + rng.normal(0, 0.004, LOOKS[-1])]))[1])
    print(f"called the same at the margin {np.mean(same):.4f}")
    assert np.mean(same) <= 0.05 + allowance(STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize(("effect", "power", "seeds"), [(0.05, 0.9, 9), (0.1, 0.99, 5)])
def test_power_and_seeds_of_a_study_that_ends_early(effect: float, power: float, seeds: float):
    """Differences of single seeds scatter by 2.8 points."""
    found = studies(1, effect, studies=600)
    taken = np.mean([number for number, _ in found])
    print(f"{100 * effect:.0f} points: found in {share(found, DIFFERENT):.3f} of studies, after {taken:.1f} seeds")
    assert share(found, (Verdict.BETTER,)) >= power
    assert share(found, (Verdict.WORSE,)) <= 0.005
    assert taken <= seeds


@pytest.mark.long
def test_looks_that_do_not_share_the_level_would_not_be_honest():
    """What the shared level is for: the same rule, each look at the whole level."""
    rng, alarms = np.random.default_rng(5), []
    for _ in range(800):
        scores = rng.normal(0.7, 0.02, (2, LOOKS[-1]))
        alarms.append(any(at_look(scores, seeds, looks=1)[1].verdict in DIFFERENT for seeds in LOOKS))
    print(f"false verdicts of looks at the whole level each {np.mean(alarms):.4f}")
    assert np.mean(alarms) > 0.08


def runs_of(scored, scores: dict[str, list[float]], **more: str) -> list:
    return [
        run for arm, of_arm in scores.items() for run in scored(arm, {"sst2": of_arm}, {"eval/majority_score": 0.3}, **more)
    ]


NEAR = {"base": [0.80, 0.81, 0.79], "new": [0.829, 0.838, 0.823]}


def test_a_report_corrects_for_the_looks_that_its_runs_name(scored):
    """The difference has p 0.003: enough for one look, and for 12 and more no longer."""
    verdicts = []
    for looks in ("1", "4", "40"):
        comparison = compare("s", runs_of(scored, NEAR, **{tags.SEED_LOOKS: looks}))
        verdicts.append(overall.of_tasks(comparison).change("new", HEADLINE).verdict)
        assert ("in at most 4 interim analyses" in findings.opening(comparison)) == (looks == "4")
    assert verdicts == [Verdict.BETTER, Verdict.BETTER, Verdict.INCONCLUSIVE]


def test_a_look_says_what_is_resolved_and_waits_for_the_rest(scored):
    scores = NEAR | {"open": [0.75, 0.9, 0.8], "late": [0.9, 0.9]}
    looked = after_look.judge(compare("s", runs_of(scored, scores)))
    assert looked["unresolved"] == ["late", "open"]
    assert looked["arms"]["new"].endswith("▲ better")
    assert "seeds if the effect is as measured" in looked["arms"]["open"] or "needs" in looked["arms"]["open"]


def test_a_look_at_pretrainings_is_at_their_masked_loss(make_run):
    losses = {"base+mlm": [5.0, 5.01, 4.99], "new+mlm": [4.5, 4.52, 4.51]}
    runs = [
        make_run(arm, seed, {"pretrain/masked_loss": loss}, task=tags.PRETRAINING_TASK, pretrain_seed=str(seed))
        for arm, of_arm in losses.items()
        for seed, loss in enumerate(of_arm)
    ]
    looked = after_look.judge(compare("s", runs))
    assert (list(looked["arms"]), looked["unresolved"]) == (["new+mlm"], [])
    with pytest.raises(after_look.InputError, match="no run has a value of eval/f1"):
        after_look.judge(compare("s", runs), "eval/f1")
