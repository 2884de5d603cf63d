"""The gate at its limit, on the F1 of a rare class: of an arm that is worse by it, the gate passes few."""

import numpy as np
import pytest
from rare_class import SHARES, allowed, judged, studies

from harness.metrics import Margin
from harness.plugins.decide import gate

DROP = gate.Limit("eval/score", Margin(0.05), "5points")


def false_passes(share: float, rows: int, seeds: int, count: int, how: str = "predictions") -> float:
    """Of an arm that is worse by the limit of the gate."""
    every = studies(share, rows, seeds, count, 0.05)
    found = [gate.Test(None, "new", DROP, judged(*study, "f1", how)).judged[0] for study in every]
    return float(np.mean([outcome.value == "passed" for outcome in found]))


@pytest.mark.long
@pytest.mark.parametrize(("share", "rows"), SHARES)
def test_the_gate_seldom_passes_an_arm_that_is_worse_by_its_limit(share: float, rows: int):
    assert false_passes(share, rows, 10, 300) <= allowed(300)


if __name__ == "__main__":
    for case in SHARES:
        for seeds in (5, 10):
            found = {how: false_passes(*case, seeds, 1000, how) for how in ("share", "predictions")}
            print(*case, seeds, "seeds, false passes:", found, flush=True)
