"""The verdict on a change, from differences paired by seed (harness/paired.py)."""

import enum
import math
from dataclasses import dataclass

from harness.metrics import Direction, Metric
from harness.paired import (
    Values,
    compare_paired,
    group_means,
    pair,
    spread,
)


class Verdict(enum.Enum):
    """What may be said of a change; DIRECTION_*: one seed or launch only, which is no evidence.

    WITHIN_NOISE: a timing that differs no more than two equal things may; OPEN: a timing that nothing can judge.
    """

    BETTER = "better"
    WORSE = "worse"
    DIRECTION_BETTER = "direction better"
    DIRECTION_WORSE = "direction worse"
    EQUAL = "equal"
    UNCLEAR = "unclear"
    WITHIN_NOISE = "within noise"
    OPEN = "no verdict"


@dataclass(frozen=True)
class Change:
    """After minus before over the pairs, which `n` counts; None where it is not known.

    Pairs are replicates, or rounds of launches (`by_round`). `pretrainings` counts the clusters that they form, 0 without
    pretraining; `floor` is the noise of the session in percent, for a timing.
    """

    n: int
    baseline_mean: float
    absolute: float
    interval: tuple[float, float] | None
    p: float | None
    verdict: Verdict | None
    floor: float | None = None
    by_round: bool = False
    pretrainings: int = 0

    @property
    def percent(self) -> float | None:
        """Of the baseline's size; None where the baseline is 0."""
        return 100 * self.absolute / abs(self.baseline_mean) if self.baseline_mean else None


def change(metric: Metric, before: Values, after: Values) -> Change | None:
    """Of one metric; None where no pair of replicates has both."""
    if metric.deterministic:
        return _counted_change(metric, before, after)
    found = compare_paired(before, after)
    if found is None:
        return None
    pairs = pair(before, after)
    sure = found.interval is not None
    unclear = sure and found.interval[0] <= 0 <= found.interval[1] and any(before[one] != after[other] for one, other in pairs)
    verdict = Verdict.UNCLEAR if unclear else judge(metric.direction, found.mean, sure)
    if metric.direction is Direction.NEITHER:
        verdict = None
    earlier = group_means([one.pretrain_seed or other.pretrain_seed for one, other in pairs], [before[one] for one, _ in pairs])
    interval, pretrainings = found.interval, found.pretrainings
    return Change(found.n, spread(earlier).mean, found.mean, interval, found.p, verdict, pretrainings=pretrainings)


def _counted_change(metric: Metric, before: Values, after: Values) -> Change | None:
    if not before or not after:
        return None
    earlier, later = (math.fsum(values.values()) / len(values) for values in (before, after))
    absolute = later - earlier
    return Change(min(len(before), len(after)), earlier, absolute, None, None, judge(metric.direction, absolute, True))


def judge(direction: Direction, absolute: float, sure: bool) -> Verdict | None:
    """Better or worse by the metric's own direction; None for a metric that is no merit."""
    if direction is Direction.NEITHER:
        return None
    if absolute == 0:
        return Verdict.EQUAL
    better = (absolute < 0) == (direction is Direction.LOWER)
    if sure:
        return Verdict.BETTER if better else Verdict.WORSE
    return Verdict.DIRECTION_BETTER if better else Verdict.DIRECTION_WORSE
