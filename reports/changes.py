"""What changed, and what may be said of it: by the metric's own direction, and only as much as the evidence carries."""

import enum
from dataclasses import dataclass

from harness.metrics import Direction, Metric
from reports.statistics import paired, spread


class Verdict(enum.Enum):
    """What may be said of a change; DIRECTION_* rest on one seed or launch and carry no evidence.

    WITHIN_NOISE: a timing that may as well be that of two equal things; OPEN: one without what could tell.
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

    Pairs are seeds, or rounds of launches (`by_round`); `floor` is the noise of the session in percent, for a timing.
    """

    n: int
    baseline_mean: float
    absolute: float
    interval: tuple[float, float] | None
    p: float | None
    verdict: Verdict | None
    floor: float | None = None
    by_round: bool = False

    @property
    def percent(self) -> float | None:
        """Of the baseline's size; None where the baseline is 0."""
        return 100 * self.absolute / abs(self.baseline_mean) if self.baseline_mean else None


def change(metric: Metric, before: dict[str, float], after: dict[str, float]) -> Change | None:
    """Of one metric, from values by seed; None where no seed has both."""
    if metric.deterministic:
        return _counted_change(metric, before, after)
    seeds = [seed for seed in after if seed in before]
    if not seeds:
        return None
    earlier = [before[seed] for seed in seeds]
    seen = paired(earlier, [after[seed] for seed in seeds])
    sure = seen.interval is not None
    unclear = sure and seen.interval[0] <= 0 <= seen.interval[1] and any(before[seed] != after[seed] for seed in seeds)
    verdict = Verdict.UNCLEAR if unclear else judge(metric.direction, seen.mean, sure)
    if metric.direction is Direction.NEITHER:
        verdict = None
    return Change(seen.n, spread(earlier).mean, seen.mean, seen.interval, seen.p, verdict)


def _counted_change(metric: Metric, before: dict[str, float], after: dict[str, float]) -> Change | None:
    if not before or not after:
        return None
    earlier, later = spread(list(before.values())), spread(list(after.values()))
    absolute = later.mean - earlier.mean
    return Change(min(earlier.n, later.n), earlier.mean, absolute, None, None, judge(metric.direction, absolute, True))


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
