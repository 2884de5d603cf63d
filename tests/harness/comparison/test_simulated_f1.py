"""Studies of F1 and Matthews' correlation where a class is rare: false verdicts and power. As a script: docs/method.md."""

import numpy as np
import pytest
from rare_class import SHARES, allowed, judged, studies

from harness.comparison.verdicts import Verdict


def false_verdicts(share: float, rows: int, seeds: int, count: int, score: str = "f1", how: str = "predictions") -> float:
    found = [judged(*study, score, how).verdict for study in studies(share, rows, seeds, count)]
    return float(np.mean([verdict in (Verdict.BETTER, Verdict.WORSE) for verdict in found]))


def power(share: float, rows: int, seeds: int, count: int, gain: float, how: str = "predictions") -> float:
    """How often an arm that is better by `gain` is called so."""
    return float(
        np.mean([judged(*study, "f1", how).verdict is Verdict.BETTER for study in studies(share, rows, seeds, count, -gain)])
    )


@pytest.mark.long
@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize(("share", "rows"), SHARES)
def test_equal_arms_are_seldom_told_apart_by_f1(share: float, rows: int, seeds: int):
    assert false_verdicts(share, rows, seeds, 400) <= allowed(400)


@pytest.mark.long
@pytest.mark.parametrize("score", ["f1_macro", "matthews"])
def test_other_scores_of_a_rare_class_likewise(score: str):
    assert false_verdicts(0.03, 1000, 10, 400, score) <= allowed(400)


@pytest.mark.long
@pytest.mark.parametrize("score", ["f1", "matthews"])
def test_without_predictions_the_recorded_intervals_decide(score: str):
    assert false_verdicts(0.1, 300, 10, 150, score, "intervals") <= allowed(150)


@pytest.mark.long
def test_as_a_share_of_all_rows_f1_of_a_rare_class_told_equal_arms_apart():
    assert false_verdicts(0.1, 300, 10, 200, how="share") > 0.15


@pytest.mark.long
def test_what_is_there_is_found():
    assert power(0.3, 1000, 5, 100, 0.1) > 0.8


if __name__ == "__main__":
    for case in SHARES:
        for seeds in (5, 10):
            both = {how: false_verdicts(*case, seeds, 1000, how=how) for how in ("share", "predictions")}
            found = [f"{power(*case, seeds, 500, gain):.2f}" for gain in (0.05, 0.1, 0.2)]
            print(*case, seeds, "seeds, false verdicts:", both, "power at 5, 10, 20 points:", *found, flush=True)
    for score in ("f1_macro", "matthews"):
        print(score, [false_verdicts(*case, 10, 1000, score) for case in SHARES], flush=True)
