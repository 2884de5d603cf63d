"""The latency of a shape against that of the baseline: interleaved launches of fresh processes, compared round by round.

Each latency is divided by the time of the reference workload beside its calls, which takes out how busy the machine was.
"""

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev

from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.measure.intervals import t_quantile
from harness.measure.launch import TIMING, launch
from harness.measure.records import Request
from harness.study.match.shapes import Ladder

MOST_TRIED = 8
"""Shapes that are timed before the search ends with the best of them."""


@dataclass(frozen=True)
class Ratio:
    """Latency over that of the baseline: logarithms of the rounds' ratios, and the baseline's geometric mean in ms."""

    logs: tuple[float, ...]
    baseline_ms: float

    @property
    def log(self) -> float:
        return fmean(self.logs)

    @property
    def half_width(self) -> float:
        """Of the 95 % interval of `log`: Student's t over the rounds."""
        return t_quantile(len(self.logs) - 1) * stdev(self.logs) / math.sqrt(len(self.logs))

    @property
    def is_equal(self) -> bool:
        """Whether the interval holds 0: no difference is seen in this noise."""
        return abs(self.log) <= self.half_width


def measured(baseline: RunConfig, variant: RunConfig) -> Ratio:
    """Of match.rounds rounds, in each of which both are launched, in changing order; InputError where a launch fails."""
    logs, times = [], []
    for number in range(variant.match.rounds):
        first = number % 2
        launched = [_launch(config) for config in ((baseline, variant) if first == 0 else (variant, baseline))]
        before, after = launched[first], launched[1 - first]
        logs.append(math.log(after.share / before.share))
        times.append(math.log(before.ms))
    return Ratio(tuple(logs), math.exp(fmean(times)))


@dataclass(frozen=True)
class Timed:
    """One launch: median latency, and that of the reference workload, in ms."""

    ms: float
    reference_ms: float

    @property
    def share(self) -> float:
        """Latency in units of the reference workload."""
        return self.ms / self.reference_ms


def _launch(config: RunConfig) -> Timed:
    """On texts of random ids."""
    plain = replace(config.measure, lengths=[], batch_sizes=[], batch_size=1)
    with tempfile.TemporaryDirectory(prefix="harness-match-") as folder:
        outcome = launch(replace(config, measure=plain), Request(TIMING), Path(folder))
        if not outcome.measured.timing:
            raise InputError(f"match=latency: {config.label} cannot be timed: {outcome.ending.reason}")
        found = outcome.measured.timing[0].latency
        return Timed(found.ms, median(found.reference_ms))


def nearest(ladder: Ladder, baseline: RunConfig, variant: RunConfig, begin: int) -> tuple[int, Ratio]:
    """(steps, ratio) of the first shape that is as fast as the baseline within the noise, or of the nearest of those tried.

    The search begins at `begin` steps and follows the secant of the logarithms. InputError where no shape can be timed.
    """
    tried: dict[int, Ratio] = {}
    steps = begin
    while steps not in tried and len(tried) < MOST_TRIED:
        shape = ladder.shape(steps)
        if shape is None:
            break
        tried[steps] = measured(baseline, replace(variant, model=shape))
        if tried[steps].is_equal:
            return steps, tried[steps]
        steps = max(1, min(ladder.most, _next(tried, steps)))
    if not tried:
        raise InputError(f"match=latency: {ladder.by.value}={begin * ladder.step} is no shape of {variant.label}")
    best = min(tried, key=lambda one: abs(tried[one].log))
    return best, tried[best]


def _next(tried: dict[int, Ratio], last: int) -> int:
    """Where the line through the two shapes nearest to equal crosses it; a slope of 1 with one shape, at least one step on."""
    two = sorted(tried, key=lambda steps: abs(tried[steps].log))[:2]
    slope = 1.0
    if len(two) == 2:
        slope = (tried[two[0]].log - tried[two[1]].log) / math.log(two[0] / two[1])
    slope = min(max(slope, 0.3), 3.0)  # noise can turn the line around
    aim = round(two[0] * math.exp(-tried[two[0]].log / slope))
    return aim if aim != two[0] else two[0] + (1 if tried[two[0]].log < 0 else -1)
