"""Non-inferiority: simulated arms that are equal or worse, and what no test can decide."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import nct, t

from harness import metrics
from harness.comparison import by_launch, launches
from harness.comparison.compare import compare
from harness.comparison.paired import MOST_PAIRS, Replicate
from harness.comparison.verdicts import Change, Verdict, change, of_evidence
from harness.metrics import Margin
from harness.plugins.decide import gate
from harness.plugins.decide.gate import Limit, Outcome, Pair, pairs_needed

SCORE, LATENCY = metrics.get("eval/score"), metrics.get("inference/latency_ms_p50")
DROP = Limit("eval/score", Margin(0.02), "2points")
SLOWDOWN = Limit("inference/latency_ms_p50", Margin(0.05, relative=True), "5%")
STUDIES = 1500


def judge(found: Change, limit: Limit) -> tuple[Outcome, str]:
    return gate.Test(None, "new", limit, found).judged


def allowance(share: float, studies: int = STUDIES) -> float:
    """Three standard errors of a share: there are a dozen such tests."""
    return 3 * math.sqrt(share * (1 - share) / studies)


def of_scores(before: np.ndarray, after: np.ndarray, item: float | None = None) -> Change:
    sides = [{Replicate("", str(seed)): float(score) for seed, score in enumerate(scores)} for scores in (before, after)]
    return change(SCORE, *sides, item)


def outcomes(effect: float, seeds: int, sd: float = 0.01, items: int | None = None) -> Counter[Outcome]:
    """Of simulated studies in which the arm's true score differs by `effect`; with `items`, scores are shares of so many."""
    rng, found = np.random.default_rng([seeds, round(1e4 * abs(effect)), items or 0]), Counter()
    for _ in range(STUDIES):
        luck = rng.normal(0, 0.02, seeds)
        quality = [0.8 + luck + shift + rng.normal(0, sd / math.sqrt(2), seeds) for shift in (0, effect)]
        scores = [rng.binomial(items, one.clip(0, 1)) / items for one in quality] if items else quality
        found[judge(of_scores(*scores, 1 / items if items else None), DROP)[0]] += 1
    return found


@pytest.mark.long
@pytest.mark.parametrize("seeds", [2, 3, 10])
@pytest.mark.parametrize("items", [None, 56, 872])
def test_an_inferior_arm_seldom_passes(seeds, items):
    """Worse by exactly what is allowed."""
    assert outcomes(-0.02, seeds, items=items)[Outcome.PASSED] / STUDIES <= 0.05 + allowance(0.05)


@pytest.mark.long
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_an_equal_arm_fails_as_often_as_the_design_says(seeds):
    """Power of the one-sided t test: the noncentral t distribution."""
    designed = 1 - nct.sf(t.ppf(0.95, seeds - 1), seeds - 1, 0.02 * math.sqrt(seeds) / 0.01)
    found = outcomes(0.0, seeds)
    failed = 1 - found[Outcome.PASSED] / STUDIES
    print(f"{seeds} seeds: failed {failed:.3f}, by design {designed:.3f}")
    assert failed == pytest.approx(designed, abs=allowance(max(designed, 0.02)))
    assert found[Outcome.INFERIOR] / STUDIES <= 0.01


@pytest.mark.long
def test_an_arm_worse_than_allowed_is_called_inferior():
    found = outcomes(-0.06, 5)
    assert found[Outcome.INFERIOR] / STUDIES > 0.9
    assert found[Outcome.PASSED] == 0


@pytest.mark.parametrize("sd", [0.005, 0.02, 0.05])
def test_advised_number_of_pairs_is_enough_for_an_equal_arm(sd):
    pairs = pairs_needed(sd, 0.02)
    power = 1 - nct.cdf(t.ppf(0.95, pairs - 1), pairs - 1, 0.02 * math.sqrt(pairs) / sd)
    assert power >= 0.75
    assert pairs == 2 or 1 - nct.cdf(t.ppf(0.95, pairs - 2), pairs - 2, 0.02 * math.sqrt(pairs - 1) / sd) < 0.85
    assert pairs_needed(10.0, 0.001) > MOST_PAIRS


def timed_change(factor: float, rng: np.random.Generator, floor: float | None, rounds: int = 5) -> Change:
    """Of an arm that takes `factor` times as long; launches scatter by 1 %."""
    sides = [{launches.LATENCY: dict(enumerate(10 * scale * rng.lognormal(0, 0.01, rounds)))} for scale in (1.0, factor)]
    ratio = by_launch.compared(launches.LATENCY, *sides, with_reference=False)
    return of_evidence(launches.evidence(LATENCY, ratio, floor), 10.0)


@pytest.mark.long
def test_slower_arms_seldom_pass_and_equal_ones_mostly():
    rng = np.random.default_rng(0)
    passed = {
        factor: np.mean([judge(timed_change(factor, rng, 0.01), SLOWDOWN)[0] is Outcome.PASSED for _ in range(2000)])
        for factor in (0.9, 1.0, 1.05)
    }
    assert passed[1.05] <= 0.05 + allowance(0.05, 2000)
    assert passed[1.0] >= 0.95
    assert passed[0.9] == 1


def test_a_rate_that_falls_is_a_slowdown():
    """20 % less in the same time is 25 % more time."""
    metric, rng = "inference/tokens_per_s", np.random.default_rng(0)
    rates = [{metrics.THROUGHPUT: dict(enumerate(scale * rng.lognormal(0, 0.001, 5)))} for scale in (1000, 800)]
    ratio = by_launch.compared(metrics.THROUGHPUT, *rates, with_reference=False)
    found = of_evidence(launches.evidence(metrics.get(metric), ratio, 0.01), 1000.0)
    for allowed, outcome in ((0.2, Outcome.INFERIOR), (0.3, Outcome.PASSED)):
        assert judge(found, Limit(metric, Margin(allowed, relative=True), "X"))[0] is outcome


@pytest.mark.parametrize(
    ("ratio", "floor", "reason"),
    [
        (0.5, None, "no A/A replicate"),
        (1.0, math.log(1.06), "noise floor 6 %, above the limit of"),
        (0.99, math.log(1.06), "noise floor 6 %"),
        (0.5, math.log(1.4), "noise floor 40 %"),
    ],
)
def test_a_noise_floor_above_what_is_allowed_fails(ratio, floor, reason):
    outcome, said = judge(timed_change(ratio, np.random.default_rng(0), floor), SLOWDOWN)
    assert outcome is Outcome.NOT_JUDGED
    assert reason in said


@pytest.mark.parametrize(("ratio", "outcome"), [(0.5, Outcome.PASSED), (2.0, Outcome.INFERIOR)])
def test_a_change_beyond_the_limit_by_more_than_the_noise_floor_is_judged(ratio, outcome):
    assert judge(timed_change(ratio, np.random.default_rng(0), math.log(1.06)), SLOWDOWN)[0] is outcome


@pytest.mark.parametrize(("floor", "verdict"), [(0.01, Verdict.BETTER), (0.045, Verdict.SAME)])
def test_a_gain_within_the_noise_floor_is_none(floor, verdict):
    found = timed_change(0.96, np.random.default_rng(0), floor, rounds=30)
    assert gate.verdict([gate.Test(None, "new", SLOWDOWN, found)], 1) is verdict


def test_advice_is_for_the_level_of_the_test():
    """Looks by which a session could have ended divide the level, and so does a ledger: both take more pairs."""
    quiet = timed_change(1.03, np.random.default_rng(1), 0.01)
    found = replace(quiet.evidence.found, error=0.03)
    noisy = replace(quiet, evidence=replace(quiet.evidence, found=found))
    looked = replace(noisy, evidence=replace(noisy.evidence, looks=by_launch.independent(5)))
    each = ((noisy, 0.05), (looked, 0.05), (noisy, 0.001))
    advised = [gate.Test(None, "new", SLOWDOWN, one, level=level).needed(one, one.evidence) for one, level in each]
    assert advised == sorted(set(advised))
    power = nct.sf(t.ppf(1 - 0.05 / by_launch.independent(5), advised[1] - 1), advised[1] - 1, shift(noisy, advised[1]))
    assert power >= 0.75


def shift(found: Change, pairs: int) -> float:
    """How many standard errors the limit is away from an equal arm."""
    difference = found.evidence.found
    return math.log(1.05) * math.sqrt(pairs) / (difference.error * math.sqrt(difference.independent))


def test_one_pair_or_nothing_that_scatters_is_not_judged():
    one = of_scores(np.array([0.8]), np.array([0.9]))
    assert judge(one, DROP) == (Outcome.NOT_JUDGED, "only 1 pair; verdicts need 3")
    two = of_scores(np.array([0.8, 0.7]), np.array([0.81, 0.7]), 1 / 872)
    assert judge(two, DROP) == (Outcome.NOT_JUDGED, "only 2 pairs; verdicts need 3")
    scores = np.array([0.8, 0.7, 0.75])
    tied = of_scores(scores, scores)
    assert "all differences are equal" in judge(tied, DROP)[1]
    assert judge(of_scores(scores, scores, 1 / 872), DROP)[0] is Outcome.PASSED
    assert judge(of_scores(scores, scores, 1 / 20), DROP)[0] is Outcome.NOT_SHOWN


def test_interval_by_which_a_test_is_shown_is_the_one_that_decides_it():
    """Both of its ends are those of one-sided tests at 5 %: an arm passes where the interval is above the allowed loss."""
    decided = Counter()
    for drop in np.linspace(0.0, 0.05, 101):
        before = np.array([0.80, 0.78, 0.83, 0.81])
        found = of_scores(before, before - drop + np.array([0.01, -0.01, 0.006, -0.006]))
        outcome, _ = judge(found, DROP)
        low, high = gate.Test(None, "new", DROP, found).interval
        expected = Outcome.PASSED if low >= -0.02 else Outcome.INFERIOR if high <= -0.02 else Outcome.NOT_SHOWN
        assert outcome is expected, drop
        decided[outcome] += 1
    assert min(decided[outcome] for outcome in (Outcome.PASSED, Outcome.INFERIOR, Outcome.NOT_SHOWN)) > 5


def test_percent_is_of_the_score_before_and_points_are_not():
    before = np.array([0.4, 0.41, 0.39])
    found = of_scores(before, before - np.array([0.005, 0.0051, 0.0049]))
    assert judge(found, Limit("eval/score", Margin(0.01), "1points"))[0] is Outcome.PASSED
    assert judge(found, Limit("eval/score", Margin(0.01, relative=True), "1%"))[0] is Outcome.INFERIOR


def test_what_is_not_shown_says_how_many_seeds_it_takes():
    found = of_scores(np.array([0.8, 0.8, 0.8]), np.array([0.81, 0.78, 0.8]))
    outcome, reason = judge(found, DROP)
    assert outcome is Outcome.NOT_SHOWN
    assert "an equal arm needs 6 seeds" in reason


def arm(make_run, name: str, scores: list[float], first: int = 0, **more: object) -> list:
    return [make_run(name, first + seed, {"eval/score": score}, **more) for seed, score in enumerate(scores)]


def only(runs: list) -> gate.Test:
    (found,) = gate.tests(compare("s", runs), [Pair("new", "new", "base")], [DROP])
    return found


def test_without_pairs_there_is_nothing_to_judge(make_run):
    base = arm(make_run, "base", [0.8, 0.81, 0.8])
    assert (
        "the candidate has seeds 7, 8, the baseline seeds 0, 1, 2"
        in only([*base, *arm(make_run, "new", [0.8, 0.8], 7)]).judged[1]
    )
    elsewhere = [*base, *arm(make_run, "new", [0.8, 0.8], task="rte")]
    found = gate.tests(compare("s", elsewhere), [Pair("new", "new", "base")], [DROP])
    assert [(one.section.task, *one.judged) for one in found] == [
        ("rte", Outcome.NOT_JUDGED, "the baseline base has no finished run on this task"),
        ("sst2", Outcome.NOT_JUDGED, "new has no finished run of this task"),
    ]
    renamed = arm(make_run, "base learning_rate=0.1", [0.8, 0.8], task="rte")  # the task ran there, with another setting
    again = gate.tests(compare("s", [*elsewhere, *renamed]), [Pair("new", "new", "base")], [DROP])
    assert [one.judged for one in again] == [one.judged for one in found]
    unscored = only([*base, make_run("new", 0, {}), make_run("new", 1, {})])
    assert unscored.judged[1] == "eval/score was not measured for the candidate"


def test_other_conditions_are_named(make_run):
    base = arm(make_run, "base", [0.8, 0.81], params={"finetune.epochs": "3"})
    found = only([*base, *arm(make_run, "new", [0.8, 0.81], params={"finetune.epochs": "5"})])
    assert found.judged[0] is Outcome.NOT_JUDGED
    assert "finetune.epochs (5, baseline 3); along=KEY" in found.judged[1]
