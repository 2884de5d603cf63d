"""Evidence on a change, from differences paired by seed or by round (harness/comparison/paired.py), and the verdict on it.

Times, rates and memories are compared by the logarithm of after / before, so that twice and half are equally far from 1 and a
time says what its rate says; scores, shares and nats by their difference.
"""

import enum
import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.comparison.paired import (
    CLOCK,
    CONFIDENCE,
    LEVEL,
    MOST_PAIRS,
    ROUNDING,
    Design,
    Difference,
    Spread,
    Tells,
    Values,
    compare_independent,
    compare_paired,
    fewest,
    group_means,
    holm,
    pair,
    quantiles,
    scattered,
    spread,
)
from harness.metrics import COUNTED_UNITS, FEWEST_REPLICATES, HIGHEST_FLOOR, TRAINED_UNITS, Compared, Direction, Margin, Metric

EQUIVALENCE = 1 - 2 * LEVEL
"""Confidence of the interval that two one-sided tests at LEVEL keep within the margin."""


FEWEST_EXACT = 6
"""Pairs from which on the exact sign-flip test can reach LEVEL: then it must."""


class Verdict(enum.Enum):
    """Verdict on a change; DIRECTION_*: one seed or launch only, which is not evidence.

    SAME: by no more than the margin; INCONCLUSIVE: neither different nor the same; OPEN: what nothing can judge.
    """

    BETTER = "better"
    WORSE = "worse"
    DIRECTION_BETTER = "direction better"
    DIRECTION_WORSE = "direction worse"
    EQUAL = "equal"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    OPEN = "no verdict"

    @classmethod
    def _missing_(cls, value: object) -> "Verdict | None":
        return cls.INCONCLUSIVE if value == "not resolved" else None  # in earlier ledgers


@dataclass(frozen=True)
class Evidence:
    """What a verdict is computed from; `found`, `margin` and `floor` are logarithms where `ratio`.

    A difference up to the floor is none: one item of the validation set, or what equal things may differ by; None if unknown.
    `timing`: there is no verdict without a floor, or with one above HIGHEST_FLOOR; `by_round`: rounds of one session, whose
    tests say what is different and what the same, whatever the floor. `counted`: what is the same is asked before what is
    different; nothing scatters but with the seed, or with a budget in seconds. `fewest`: replicates that a verdict takes.
    `looks`: effective number of interim analyses by which measuring could have ended; they share the level.
    """

    direction: Direction
    found: Difference
    margin: float
    floor: float | None = None
    ratio: bool = False
    timing: bool = False
    counted: bool = False
    by_round: bool = False
    fewest: int = 0
    tells: Tells = Tells.EVERYTHING
    looks: float = 1.0

    @property
    def least(self) -> float:
        """Size of a difference up to which it is none."""
        return 0.0 if self.floor is None or self.by_round else self.floor * (1 + ROUNDING)

    @property
    def is_below_floor(self) -> bool:
        """Whether equal things may differ by more than the margin, so that no number of pairs shows them to be the same.

        Rounds are paired with the mean of two timings of the baseline: their own tests say all that the floor does.
        """
        return not self.by_round and (self.floor or 0.0) * (1 + ROUNDING) > self.margin

    @property
    def has_enough(self) -> bool:
        """Whether there are as many replicates as a verdict takes."""
        return self.found.replicates >= self.fewest

    @property
    def is_too_noisy(self) -> bool:
        """Whether its floor is too high for any verdict."""
        return self.timing and self.floor is not None and self.floor > HIGHEST_FLOOR

    @property
    def is_open(self) -> bool:
        """Whether nothing can judge it: no arm beats the majority baseline, or the noise floor is unknown or too high."""
        return self.tells is Tells.NOTHING or (self.timing and (self.floor is None or self.is_too_noisy))

    @property
    def is_test(self) -> bool:
        """Whether a test decides on it, which counts in a family of several tests."""
        judged = self.direction is not Direction.NEITHER and not self.is_open
        return judged and self.found.error is not None and self.has_enough

    def verdict(self, factor: float = 1.0) -> Verdict | None:
        """Different where both tests and the floor allow it, else the same where two one-sided tests and the floor do.

        p of the difference is multiplied by `factor` (Holm). The tests of equivalence are not: they are no claims of a gain.
        """
        found = self.found
        if self.direction is Direction.NEITHER:
            return None
        if self.is_open:
            return Verdict.OPEN
        if found.mean == 0 and self.floor == 0:
            return Verdict.EQUAL
        one_sided = max(found.t_test_p(-self.margin, 1), found.t_test_p(self.margin, -1))
        is_inside = found.error is None or one_sided <= LEVEL / self.looks
        if self.counted and abs(found.mean) < self.margin and is_inside:
            return Verdict.SAME
        if found.error is None:
            above = abs(found.mean) > (self.margin if self.floor is None else self.floor * (1 + ROUNDING))
            return judge(self.direction, found.mean, False) if above else Verdict.INCONCLUSIVE
        if not self.has_enough:
            return Verdict.INCONCLUSIVE
        exact_agrees = found.p is None or found.replicates < FEWEST_EXACT or found.p <= LEVEL
        if abs(found.mean) > self.least and factor * self.looks * found.t_test_p() <= LEVEL and exact_agrees:
            return judge(self.direction, found.mean, True)
        can_be_same = self.tells is Tells.EVERYTHING and not self.is_below_floor
        return Verdict.SAME if can_be_same and is_inside else Verdict.INCONCLUSIVE

    def needed(self, factor: float = 1.0, as_measured: bool = False) -> int | None:
        """The fewest pairs, of the scatter measured, whose verdict must be different or the same.

        There the half intervals of both tests fit into the margin together. `as_measured`: which show the difference measured.
        None where unknown, MOST_PAIRS + 1 where more.
        """
        if not self.found.error or self.found.independent is None:
            return None
        of_items = quantiles(factor, self.looks)

        def is_resolved(n: int) -> bool:
            quantile_pairs = zip(quantiles(factor, self.looks, n), of_items, strict=True)
            different, same = (math.hypot(t * self.found.sd, z * self.found.items) for t, z in quantile_pairs)
            return different < abs(self.found.mean) if as_measured else different + same <= self.margin

        return fewest(is_resolved, self.fewest)

    def in_units(self, value: float, before: float) -> float:
        """In units of the metric, of a baseline of this value; infinite where no number holds it.

        Such is an end of the interval of two noisy seeds, corrected for hundreds of arms.
        """
        try:
            return before * math.expm1(value) if self.ratio else value
        except OverflowError:
            return math.inf


def judge(direction: Direction, absolute: float, sure: bool) -> Verdict | None:
    """The verdict by the metric's direction; None for a metric without a better direction."""
    if direction is Direction.NEITHER:
        return None
    if absolute == 0:
        return Verdict.EQUAL
    better = (absolute < 0) == (direction is Direction.LOWER)
    if sure:
        return Verdict.BETTER if better else Verdict.WORSE
    return Verdict.DIRECTION_BETTER if better else Verdict.DIRECTION_WORSE


PAGE_BYTES = 4096
"""Bytes: memory is counted in pages."""


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
    pretrainings: int = 0
    seconds: float | None = None
    reason: str = ""  # why nothing can judge it
    factor: float = 1.0
    confidence: float = CONFIDENCE

    @property
    def by_round(self) -> bool:
        """Whether its pairs are rounds of launches."""
        return self.evidence is not None and self.evidence.by_round

    @property
    def percent(self) -> float | None:
        """The change in percent of the baseline's size; None where the baseline is 0."""
        return 100 * self.absolute / abs(self.baseline_mean) if self.baseline_mean else None

    @property
    def p(self) -> float | None:
        """p of the t test, corrected for several tests; None for a single pair."""
        if self.evidence is None or self.evidence.found.error is None:
            return None
        return min(1.0, self.factor * self.evidence.looks * self.evidence.found.t_test_p())

    @property
    def floor(self) -> float | None:
        """The noise floor of a ratio, in percent."""
        if self.evidence is None or not self.evidence.ratio or self.evidence.floor is None:
            return None
        return 100 * math.expm1(self.evidence.floor)

    @functools.cached_property
    def needed(self) -> int | None:
        """How many pairs would resolve the margin of a change that is inconclusive; None where more would not help."""
        evidence = self.evidence
        if evidence is None or self.verdict is not Verdict.INCONCLUSIVE or self.is_below_items or evidence.is_below_floor:
            return None
        number = evidence.needed(self.factor) if evidence.tells is Tells.EVERYTHING else None
        return number if number is not None and number > evidence.found.replicates else None

    @functools.cached_property
    def needed_as_measured(self) -> int | None:
        """How many pairs would show a difference that is inconclusive, if it is as measured; None where that is not known.

        Neither where it is within the noise floor, which no number of pairs shows.
        """
        evidence = self.evidence
        if evidence is None or self.verdict is not Verdict.INCONCLUSIVE or abs(evidence.found.mean) <= evidence.least:
            return None
        number = evidence.needed(self.factor, as_measured=True)
        return number if number is not None and evidence.found.replicates < number <= MOST_PAIRS else None

    @property
    def is_below_items(self) -> bool:
        """Whether the sampling error of the items exceeds the margin, however many pairs there are."""
        if self.evidence is None:
            return False
        of_both_tests = self.evidence.found.items * sum(quantiles(self.factor, self.evidence.looks))
        return of_both_tests > self.evidence.margin

    @property
    def pairs_are(self) -> str:
        """What its pairs are of; seeds of the fine-tunings of one pretraining."""
        if self.evidence is not None and self.evidence.found.of is not Design.SEEDS:
            return str(self.evidence.found.of)
        of_pretrainings = self.pretrainings > 1 or self.pretrainings == self.n
        return "rounds" if self.by_round else "pretrainings" if of_pretrainings else "seeds"

    @property
    def minutes(self) -> float | None:
        """Minutes that the pairs still needed would take."""
        if self.evidence is None or not self.needed or self.seconds is None:
            return None
        return (self.needed - self.evidence.found.replicates) * self.seconds / 60


def of_evidence(evidence: Evidence, before: float, factor: float = 1.0) -> Change:
    """In units of the metric, of a baseline of this value."""
    difference, verdict = evidence.found, evidence.verdict(factor)
    is_same = verdict is Verdict.SAME
    ends = difference.interval_at(1 - (2 if is_same else 1 / factor) * LEVEL / evidence.looks)
    return Change(
        difference.n,
        before,
        evidence.in_units(difference.mean, before),
        (evidence.in_units(ends[0], before), evidence.in_units(ends[1], before)) if ends else None,
        verdict,
        evidence,
        pretrainings=difference.pretrainings,
        factor=factor,
        confidence=EQUIVALENCE if is_same else CONFIDENCE,
    )


Key = TypeVar("Key")


def corrected(changes: Mapping[Key, Change | None]) -> dict[Key, Change | None]:
    """A family: the changes of all arms of one table in one metric, with p and intervals for that number of tests (Holm).

    Those that no test decides, such as times without a noise floor, are another one: their intervals are read like others.
    """
    judged = [(key, change, change.evidence) for key, change in changes.items() if change and change.evidence]
    again = dict(changes)
    for decided in (True, False):
        family = [one for one in judged if one[2].is_test is decided and one[2].found.error is not None]
        factors = holm([evidence.found.t_test_p() for _, _, evidence in family])
        for (key, change, evidence), factor in zip(family, factors, strict=True):
            again[key] = replace(of_evidence(evidence, change.baseline_mean, factor), seconds=change.seconds)
    return again


def change(
    metric: Metric,
    before: Values,
    after: Values,
    floor: float | None = None,
    reached: bool = False,
    items: float = 0.0,
    tells: Tells = Tells.EVERYTHING,
    looks: int = 1,
    design: Design = Design.SEEDS,
    count: float | None = None,
) -> Change | None:
    """The change of one metric; None where no pair of replicates has both. `floor` is in the scale of the comparison.

    `reached`: what is counted is what a budget in time happened to reach, so that one pair does not predict the next. `items`:
    the standard error over the items of the validation data, of which there are `count`; `tells`: what the task can say of
    both; `looks`: numbers of seeds after which the study could have ended. Each has an equal part of the level (Bonferroni),
    which holds for dependent analyses.
    """
    pairs = [*itertools.product(before, after)] if design is Design.RUNS else pair(before, after)
    ratio = metric.by_ratio and all(before[first] > 0 and after[other] > 0 for first, other in pairs)
    earlier, later = (
        {replicate: math.log(value) for replicate, value in values.items() if value > 0} if ratio else values
        for values in (before, after)
    )
    difference = compare_independent(earlier, later) if design is Design.RUNS else compare_paired(earlier, later)
    if difference is None:
        return None
    if design is Design.RUNS and (fewer := min(len(before), len(after))) < fewest_for(metric):
        difference = replace(difference, freedom=min(difference.freedom, fewer - 1))  # may be equal by chance
    clusters = [first.pretrain_seed or other.pretrain_seed for first, other in pairs]
    mean = spread(group_means(clusters, [earlier[first] for first, _ in pairs])).mean
    if design is Design.ITEMS and items and count:
        difference = Difference(round(count), difference.mean, 0.0, freedom=count - 1, independent=round(count), of=design)
    base = math.exp(mean) if ratio else mean
    known = evidence(metric, replace(difference, of=design), base, floor, ratio, items, tells, looks)
    return of_evidence(replace(known, counted=metric.unit in COUNTED_UNITS and not reached), base)


def evidence(
    metric: Metric,
    difference: Difference,
    base: float,
    floor: float | None,
    ratio: bool,
    items: float,
    tells: Tells,
    looks: int,
) -> Evidence:
    """The evidence from a difference of replicates, whose scatter is at least the metric's smallest step."""
    step = floor or 0.0
    if metric.unit in COUNTED_UNITS:
        floor, step = 0.0, 1.0
    elif ratio:
        step = max(step, PAGE_BYTES / base if metric.unit == "bytes" else CLOCK)
    margin, found = margin_of(metric.margin, base, ratio), scattered(difference, step).with_items(items)
    return Evidence(metric.direction, found, margin, floor, ratio, fewest=fewest_for(metric), tells=tells, looks=looks)


def fewest_for(metric: Metric) -> int:
    """Replicates that a verdict on it takes: of trainings several, of what is timed or counted as many as a test."""
    return FEWEST_REPLICATES if metric.compared is Compared.BY_SEED and metric.unit in TRAINED_UNITS else 0


def margin_of(margin: Margin, before: float, ratio: bool) -> float:
    """The margin in the scale of the comparison: a log ratio, or the unit of the metric."""
    return math.log1p(margin.size) if ratio else margin.size * (abs(before) if margin.relative else 1)


APART = "not launched side by side in one session; run both arms in one command"


def difference_alone(before: Spread, after: Spread, verdict: Verdict | None) -> Change:
    """The difference of two spreads that were not measured side by side, without evidence."""
    return Change(min(before.n, after.n), before.mean, after.mean - before.mean, None, verdict, reason=APART)


def counted_change(metric: Metric, n: int, before: float, after: float) -> Change:
    """The change of an exact value: the same where the two differ by less than the margin."""
    absolute = after - before
    verdict = judge(metric.direction, absolute, True)
    if verdict in (Verdict.BETTER, Verdict.WORSE) and abs(absolute) < margin_of(metric.margin, before, False):
        verdict = Verdict.SAME
    return Change(n, before, absolute, None, verdict)
