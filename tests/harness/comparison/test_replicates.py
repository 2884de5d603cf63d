"""Two levels of replicates: hand-worked intervals, what the tables say, and simulated studies whose truth is known."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from texts import md

from harness import metrics
from harness.comparison.compare import compare
from harness.comparison.paired import Replicate, Values, compare_paired, of_differences
from harness.comparison.section import HEADLINE, Section
from harness.comparison.verdicts import Change, Verdict, change
from harness.reports.__main__ import main
from harness.reports.writing import section_text, tables

T_2 = 4.302653  # Student's t, 0.975, 2 degrees of freedom
SCORE = metrics.get(HEADLINE)
ALARM = (Verdict.BETTER, Verdict.WORSE)


def values(by_pretraining: dict[str, list[float]]) -> Values:
    """Of fine-tunings with seeds 0, 1, ... of each pretraining."""
    return {Replicate(one, str(seed)): value for one, own in by_pretraining.items() for seed, value in enumerate(own)}


def zeros(like: Values) -> Values:
    return dict.fromkeys(like, 0.0)


def test_interval_is_over_the_means_of_the_pretrainings():
    after = values({"1": [0.0, 2.0], "2": [1.0, 3.0], "3": [2.0, 4.0]})  # means 1, 2, 3: mean 2, sd 1
    result = compare_paired(zeros(after), after)
    half = T_2 / math.sqrt(3)
    assert (result.n, result.pretrainings, result.mean) == (6, 3, 2)
    assert result.interval == pytest.approx((2 - half, 2 + half), rel=1e-6)
    assert result.p == 0.25  # of three clusters, not of six pairs


def test_pretrainings_count_alike_however_many_fine_tunings_they_have():
    after = values({"1": [1.0], "2": [2.0] * 7, "3": [3.0, 3.0]})
    result = compare_paired(zeros(after), after)
    assert (result.n, result.mean) == (10, 2)
    assert result.interval == pytest.approx((2 - T_2 / math.sqrt(3), 2 + T_2 / math.sqrt(3)), rel=1e-6)


def test_missing_pair_is_left_out_on_both_sides():
    before = values({"1": [5.0, 1.0], "2": [1.0, 1.0], "4": [9.0]})
    after = values({"1": [7.0], "2": [2.0, 4.0], "3": [99.0]})
    result = compare_paired(before, after)
    assert (result.n, result.pretrainings, result.mean) == (3, 2, 2)  # means 2 and (1 + 3) / 2
    of_score = change(SCORE, before, after)
    assert (of_score.baseline_mean, of_score.absolute, of_score.n, of_score.pretrainings) == (3, 2, 3, 2)


def test_one_pretraining_has_the_interval_of_its_fine_tunings():
    after = values({"1": [1.0, 2.0, 3.0]})
    result = compare_paired(zeros(after), after)
    assert (result.pretrainings, result.interval) == (1, pytest.approx(of_differences([1.0, 2.0, 3.0]).interval))


def test_seed_for_every_pretraining_of_its_own_is_one_cluster_each():
    after = {Replicate(str(seed), str(seed)): float(seed) for seed in (1, 2, 3)}
    assert compare_paired(zeros(after), after).interval == pytest.approx(of_differences([1.0, 2.0, 3.0]).interval)


def test_arm_without_pretraining_is_paired_by_the_seed_of_fine_tuning():
    before = {Replicate("", str(seed)): 0.0 for seed in (0, 1, 2)}
    result = compare_paired(before, values({"1": [1.0, 3.0], "2": [2.0, 4.0]}))
    # over pretrainings: means 2, 3, error 1/4 with 1 degree of freedom; over seeds: 1.5, 3.5, error 1 with 1
    assert (result.n, result.pretrainings, result.mean) == (4, 2, 2.5)
    half = (result.interval[1] - result.interval[0]) / 2
    assert half == pytest.approx(12.7062 * math.sqrt(1.25), rel=1e-4)  # Satterthwaite's 1.47 degrees are too many for two means


def test_one_fine_tuning_of_a_baseline_without_pretraining_carries_no_interval():
    result = compare_paired({Replicate("", "0"): 0.0}, values({"1": [1.0], "2": [1.5]}))
    assert (result.mean, result.interval) == (1.25, None)
    assert change(SCORE, {Replicate("", "0"): 0.0}, values({"1": [1.0], "2": [1.5]})).verdict is Verdict.DIRECTION_BETTER


@pytest.fixture
def section(make_run) -> Callable[..., Section]:
    """One task: arm -> scores by pretraining, which is empty for an arm without."""

    def make(**arms: dict[str, list[float]]) -> Section:
        runs = []
        for name, by_pretraining in arms.items():
            for replicate, score in values(by_pretraining).items():
                more = {"pretrain_seed": replicate.pretrain_seed} if replicate.pretrain_seed else {}
                runs.append(make_run(name, int(replicate.seed), {HEADLINE: score}, **more))
        return compare("s", runs).sections[0]

    return make


TWO = {"1": [0.80, 0.82], "2": [0.70, 0.72], "3": [0.75, 0.76]}


def test_a_mean_weighs_pretrainings_as_the_change_does(section):
    uneven = {"base": {"1": [0.5] * 6, "2": [0.8]}, "new": {"1": [0.52] * 6, "2": [0.7]}}
    base, new = section(**uneven).rows
    assert (base.mean(HEADLINE), new.mean(HEADLINE)) == (pytest.approx(0.65), pytest.approx(0.61))


def test_tables_show_both_counts(section):
    result = section(
        base=TWO, new={"1": [0.9, 0.8], "2": [0.7, 0.7], "3": [0.8]}, scratch={"": [0.5, 0.6, 0.4]}, one={"1": [0.5]}
    )
    counts = {row.label: tables.replicates_text(row) for row in result.rows}
    assert counts == {
        "base": "3 pretraining runs × 2 seeds",
        "new": "3 pretraining runs × 1 to 2 seeds",
        "scratch": "3 seeds",
        "one": "1 pretraining run × 1 seed",
    }
    lines = [line.strip("| ").split(" | ") for line in md(tables.differences(result)).splitlines()]
    pairs = {line[0]: line[1].rpartition(", ")[2] for line in lines[2:]}
    assert pairs == {"new": "5 seeds of 3 pretraining runs", "scratch": "6 seeds of 3 pretraining runs"}
    assert "Multi-Bootstrap, arXiv:2106.16163" in tables.differences_intro(result)


def test_one_pretraining_is_said_in_one_sentence(section):
    result = section(base={"1": [0.8, 0.9]}, new={"1": [0.7, 0.9]})
    (sentence,) = section_text.section_notes(result)
    assert sentence.startswith("Only one pretraining: intervals of new cover fine-tuning seeds, not other pretraining seeds")
    assert "Multi-Bootstrap" not in tables.differences_intro(result)
    assert section_text.section_notes(section(base=TWO, new=TWO)) == []
    assert section_text.section_notes(section(base={"": [0.8, 0.9]}, new={"": [0.7, 0.9]})) == []


def test_unpaired_replicates_are_said_by_both_seeds(section):
    result = section(base={"1": [0.8, 0.9], "2": [0.8, 0.9]}, new={"1": [0.7, 0.9], "3": [0.7]})
    assert section_text.section_notes(result)[0] == (
        "new ran seeds 0, 1 of pretraining 1 and seed 0 of pretraining 3, the baseline seeds 0, 1 of pretraining 1, 2: changes "
        "use seeds 0, 1 of pretraining 1 (counted metrics do not depend on the seed)."
    )


@pytest.mark.long
def test_both_counts_in_a_real_store(tracking):
    for arm, gain in (("base+mlm", 0.0), ("albert+mlm", 0.02)):
        for pretrain_seed in "12":
            for seed in (0, 1):
                score = {HEADLINE: 0.8 + gain + seed / 100}
                tracking.log(arm, seed, score, pretrain_seed=pretrain_seed, pretraining=f"{arm}{pretrain_seed}")
    assert main(["--out", "here"]) == 0
    text = Path("here/report.md").read_text()
    assert "- **seeds**: 0, 1 (of pretraining: 1, 2)" in text
    assert "Equal for all arms: replicates 2 pretraining runs × 2 seeds." in text
    assert "| base+mlm | 0.805 ± 0.006 |" in text
    line = pd.read_csv("here/summary.csv").set_index(["arm", "metric"]).loc[("albert+mlm", HEADLINE)]
    assert line[["pairs", "pretrainings"]].tolist() == [4, 2]


STUDIES = 1500


def simulated(rng: np.random.Generator, pretrainings: int, seeds: list[int], sd: float = 1.0) -> Values:
    """Scores of equal arms: a pretraining's luck of standard deviation `sd`, and a fine-tuning's of 1."""
    luck = rng.normal(0, sd, pretrainings)
    return values({str(index + 1): list(luck[index] + rng.normal(0, 1, seeds[index])) for index in range(pretrainings)})


def false_verdicts(judge: Callable[[Values, Values], Change], make: Callable[[], tuple[Values, Values]]) -> float:
    return float(np.mean([judge(*make()).verdict in ALARM for _ in range(STUDIES)]))


def of_score(before: Values, after: Values) -> Change:
    return change(SCORE, before, after)


def ignoring_clusters(before: Values, after: Values) -> Change:
    """As if every fine-tuning were independent: the same values under seeds of their own."""
    sides = (
        {Replicate("", f"{one.pretrain_seed}/{one.seed}"): value for one, value in side.items()} for side in (before, after)
    )
    return change(SCORE, *sides)


@pytest.mark.long
def test_equal_arms_of_three_pretrainings_are_told_apart_in_one_study_of_twenty():
    rng = np.random.default_rng(0)
    share = false_verdicts(of_score, lambda: (simulated(rng, 3, [5] * 3), simulated(rng, 3, [5] * 3)))
    print(f"false verdicts with clusters {share:.3f} of {STUDIES} studies")
    assert 0.025 <= share <= 0.08


@pytest.mark.long
def test_ignoring_that_fine_tunings_share_their_pretraining_claims_too_much():
    rng = np.random.default_rng(0)
    share = false_verdicts(ignoring_clusters, lambda: (simulated(rng, 3, [5] * 3), simulated(rng, 3, [5] * 3)))
    print(f"false verdicts without clusters {share:.3f} of {STUDIES} studies")
    assert share > 0.10


@pytest.mark.parametrize(
    ("pairs", "needs"),
    [
        ({"p": [0.5]}, "pretrainings"),
        ({"p": [0.5, 0.504]}, "seeds"),
        ({"p": [0.5], "q": [0.504]}, "pretrainings"),
        ({"": [0.5]}, "seeds"),
    ],
)
def test_too_few_replicates_ask_for_more_of_their_kind(pairs: dict[str, list[float]], needs: str):
    few = change(SCORE, dict.fromkeys(values(pairs), 0.502), values(pairs))
    assert f" {needs}" in tables.lacking(few, few.evidence, "score")


@pytest.mark.long
def test_unequal_numbers_of_fine_tunings_and_missing_pairs_keep_the_level():
    rng = np.random.default_rng(1)

    def make() -> tuple[Values, Values]:
        sides = [simulated(rng, 4, [1, 5, 3, 2]) for _ in range(2)]
        return tuple({one: value for one, value in side.items() if rng.random() > 0.15} for side in sides)

    def with_pairs() -> tuple[Values, Values]:
        while True:
            before, after = make()
            if len({one.pretrain_seed for one in before.keys() & after.keys()}) > 1:
                return before, after

    share = false_verdicts(of_score, with_pairs)
    print(f"false verdicts with unequal numbers and missing pairs {share:.3f} of {STUDIES} studies")
    assert 0.025 <= share <= 0.08


@pytest.mark.long
def test_pretrained_against_a_baseline_without_pretraining_claims_no_more_than_the_level():
    rng = np.random.default_rng(2)

    def make() -> tuple[Values, Values]:
        return values({"": list(rng.normal(0, 1, 5))}), simulated(rng, 3, [5] * 3)

    share = false_verdicts(of_score, make)
    print(f"false verdicts against a baseline without pretraining {share:.3f} of {STUDIES} studies")
    assert share <= 0.08


def test_section_of_a_report_judges_as_the_simulation_does(section):
    rng = np.random.default_rng(3)
    for _ in range(20):
        scores = [simulated(rng, 3, [5, 4, 3]) for _ in range(2)]
        nested = [
            {str(one): [side[Replicate(str(one), str(seed))] for seed in range(6 - one)] for one in (1, 2, 3)}
            for side in scores
        ]
        result = section(base=nested[0], new=nested[1])
        assert result.change(result.rows[1], HEADLINE) == of_score(*scores)
