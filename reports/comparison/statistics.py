"""The verdict on a change, from differences paired by seed or by round (harness/paired.py).

Times, rates and memories are compared by the logarithm of after / before, so that twice and half are equally far from 1 and a
time says what its rate says; scores, shares and nats by their difference.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.metrics import COUNTED_UNITS, Compared, Margin, Metric
from harness.paired import CONFIDENCE, Difference, Replicate, Values, compare_paired, group_means, holm, pair, spread
from harness.verdict_rules import FEWEST_REPLICATES, LEVEL, TRAINED_UNITS, Tells
from reports.comparison.evidence import EQUIVALENCE, Evidence, Verdict, judge

PAGE = 4096
"""Bytes: memory is counted in pages."""
CLOCK = 1e-6
"""Share of a time or a loss that is certainly resolved: equal ratios are no ties of coarse steps."""


@dataclass(frozen=True)
class Change:
    """After minus before over the pairs, which `n` counts; None where it is not known.

    Pairs are replicates, or rounds of launches (`by_round`). `pretrainings` counts the clusters that they form, 0 without
    pretraining; `seconds` is how long another pair takes; `factor` multiplies p, for several tests (Holm). `interval` is the
    one that the verdict can be read from, at `confidence`: what is the same was tested at 90 %, uncorrected, all else at 95 %,
    corrected by the factor.
    """

    n: int
    baseline_mean: float
    absolute: float
    interval: tuple[float, float] | None
    verdict: Verdict | None
    evidence: Evidence | None = None
    by_round: bool = False
    pretrainings: int = 0
    seconds: float | None = None
    factor: float = 1.0
    confidence: float = CONFIDENCE

    @property
    def percent(self) -> float | None:
        """Of the baseline's size; None where the baseline is 0."""
        return 100 * self.absolute / abs(self.baseline_mean) if self.baseline_mean else None

    @property
    def p(self) -> float | None:
        """Of the t test, corrected for several tests; None for a single pair."""
        known = self.evidence is not None and self.evidence.found.error is not None
        return min(1.0, self.factor * self.evidence.found.t_test_p()) if known else None

    @property
    def floor(self) -> float | None:
        """The noise floor of a ratio, in percent."""
        known = self.evidence is not None and self.evidence.ratio and self.evidence.floor is not None
        return 100 * math.expm1(self.evidence.floor) if known else None

    @functools.cached_property
    def needed(self) -> int | None:
        """Of a change that is not resolved: how many pairs would resolve its margin; None where more would not help."""
        number = self.evidence.needed(self.factor) if self.evidence and self.verdict is Verdict.NOT_RESOLVED else None
        never = self.is_below_floor or self.is_below_items or self.evidence.tells is not Tells.EVERYTHING if number else True
        return number if not never and number > self.evidence.found.independent else None

    @property
    def is_below_floor(self) -> bool:
        """Whether the floor is above the margin, so that no number of pairs shows a difference as small as the margin."""
        return self.evidence is not None and self.evidence.is_below_floor

    @property
    def is_below_items(self) -> bool:
        """Whether the items leave more than the margin open, however many pairs there are."""
        return self.evidence is not None and self.evidence.items_reach(self.factor) > self.evidence.margin

    @property
    def minutes(self) -> float | None:
        """How long the pairs would take that are still needed."""
        known = self.needed and self.seconds is not None
        return (self.needed - self.evidence.found.independent) * self.seconds / 60 if known else None


def of_evidence(evidence: Evidence, before: float, factor: float = 1.0) -> Change:
    """In units of the metric, of a baseline of this value."""
    found = evidence.found

    def shown(value: float) -> float:
        return before * _expm1(value) if evidence.ratio else value

    verdict = evidence.verdict(factor)
    is_same = verdict is Verdict.SAME
    ends = found.interval_at(EQUIVALENCE if is_same else 1 - LEVEL / factor)
    interval = (shown(ends[0]), shown(ends[1])) if ends else None
    return Change(
        found.n,
        before,
        shown(found.mean),
        interval,
        verdict,
        evidence,
        pretrainings=found.pretrainings,
        factor=factor,
        confidence=EQUIVALENCE if is_same else CONFIDENCE,
    )


def _expm1(value: float) -> float:
    """Infinite where no number holds it: an end of the interval of two noisy seeds, corrected for hundreds of arms."""
    try:
        return math.expm1(value)
    except OverflowError:
        return math.inf


def with_floor(found: Change, floor: float | None) -> Change:
    """The same change of a timing, judged with this floor (a log ratio)."""
    return of_evidence(replace(found.evidence, floor=floor, timing=True), found.baseline_mean)


Key = TypeVar("Key")


def corrected(changes: Mapping[Key, Change | None]) -> dict[Key, Change | None]:
    """A family: the changes of all arms of one table in one metric, with p and intervals for that number of tests (Holm).

    Those that no test decides, such as times without a noise floor, are another one: their intervals are read like others.
    """
    known = {key: one for key, one in changes.items() if one and one.evidence and one.evidence.found.error is not None}
    again = {}
    for decided in (True, False):
        family = {key: one for key, one in known.items() if one.evidence.is_test is decided}
        factors = holm([one.evidence.found.t_test_p() for one in family.values()])
        for (key, one), factor in zip(family.items(), factors, strict=True):
            found = of_evidence(one.evidence, one.baseline_mean, factor)
            again[key] = replace(found, by_round=one.by_round, seconds=one.seconds)
    return {key: again.get(key, one) for key, one in changes.items()}


def change(
    metric: Metric,
    before: Values,
    after: Values,
    floor: float | None = None,
    step: float = 0.0,
    reached: bool = False,
    items: float = 0.0,
    tells: Tells = Tells.EVERYTHING,
) -> Change | None:
    """Of one metric; None where no pair of replicates has both.

    `floor` and `step`, the smallest difference that the metric can show, are in the scale of the comparison. `reached`: what
    is counted is what a budget of time happened to reach, so that one pair says nothing of the next. `items`: the standard
    error over the items of the validation data; `tells`: what the task can say of both.
    """
    pairs = pair(before, after)
    if not pairs:
        return None
    ratio = metric.by_ratio and all(before[one] > 0 and after[other] > 0 for one, other in pairs)
    earlier, later = (_logarithms(values) if ratio else values for values in (before, after))
    found = compare_paired(earlier, later)
    clusters = [one.pretrain_seed or other.pretrain_seed for one, other in pairs]
    mean = spread(group_means(clusters, [earlier[one] for one, _ in pairs])).mean
    base = math.exp(mean) if ratio else mean
    if metric.unit in COUNTED_UNITS:
        floor, step = 0.0, 1.0
    elif ratio:
        step = max(step, PAGE / base if metric.unit == "bytes" else CLOCK)
    margin, counted = margin_of(metric.margin, base, ratio), metric.unit in COUNTED_UNITS and not reached
    found = scattered(found, step).with_items(items)
    fewest = fewest_for(metric)
    return of_evidence(
        Evidence(metric.direction, found, margin, floor, ratio, counted=counted, fewest=fewest, tells=tells), base
    )


def fewest_for(metric: Metric) -> int:
    """Replicates that a verdict on it takes: of trainings several, of what is timed or counted as many as a test."""
    return FEWEST_REPLICATES if metric.compared is Compared.BY_SEED and metric.unit in TRAINED_UNITS else 0


def _logarithms(values: Values) -> dict[Replicate, float]:
    return {replicate: math.log(value) for replicate, value in values.items() if value > 0}


def margin_of(margin: Margin, before: float, ratio: bool) -> float:
    """In the scale of the comparison."""
    return math.log1p(margin.size) if ratio else margin.size * (abs(before) if margin.relative else 1)


def scattered(found: Difference, step: float) -> Difference:
    """At least the scatter that rounding to a step leaves: two values, each uniform within one."""
    if found.error is None or found.independent is None:
        return found
    return replace(found, error=max(found.error, step / math.sqrt(6 * found.independent)))


def counted_change(metric: Metric, n: int, before: float, after: float) -> Change:
    """Of two exact values: the same where they differ by less than the margin."""
    absolute = after - before
    verdict = judge(metric.direction, absolute, True)
    if verdict in (Verdict.BETTER, Verdict.WORSE) and abs(absolute) < margin_of(metric.margin, before, False):
        verdict = Verdict.SAME
    return Change(n, before, absolute, None, verdict)
