"""What it cost to reach a quality: steps, tokens, seconds, FLOPs and joules up to a target, read off the curves of a run.

Quality is known only where a run looked at it. Between two looks it is taken to be straight against the logarithm of the cost,
as losses nearly are; nothing is told from beyond the looks. Costs are those of the curves at the same step, so a batch that
grows or texts of other lengths count as what they were.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics
from harness.metrics import Direction
from reports.compare import Row, Section
from reports.errors import ReportError, unknown
from reports.formats import SHARES
from reports.statistics import paired

MEASURES = ("pretrain/masked_loss", "pretrain/masked_accuracy", "tune/score", "eval/score")
"""Metrics that may be looked at while training and mean the same for every variant."""
STEPS = "steps"
QUANTITIES = {"tokens": "tokens", "time": "duration_s", "FLOPs": "flops", "energy": "energy_j"}
COSTS = {phase: {cost: f"{phase}/{name}" for cost, name in QUANTITIES.items()} for phase in ("pretrain", "finetune")}
"""Phase -> cost -> its cumulative curve, logged at the steps of the looks."""
UNITS = {STEPS: "steps", "tokens": "tokens", "time": "s", "FLOPs": "FLOP", "energy": "J"}

Curves = dict[str, dict[str, dict[int, float]]]
"""Metric -> run id -> {step: value}."""
CURVES = (*MEASURES, *(name for costs in COSTS.values() for name in costs.values() if name in metrics.METRICS))
"""Metrics whose history is needed."""


@dataclass(frozen=True)
class Target:
    """A quality to reach."""

    metric: str
    value: float

    def met(self, value: float) -> bool:
        """Whether this value is as good or better."""
        return value <= self.value if metrics.get(self.metric).direction is Direction.LOWER else value >= self.value


@dataclass(frozen=True)
class Reach:
    """What one run spent. `bound`: the first look was beyond the target already, so the costs are upper bounds."""

    costs: dict[str, float]  # name of the cost -> amount, without those that have no curve
    bound: bool


def parse(given: Iterable[str]) -> list[Target]:
    """Targets written METRIC=NUMBER; ReportError for a name that has no such curve, or a number that cannot be."""
    return [_target(text) for text in given]


def _target(text: str) -> Target:
    name, equals, number = text.partition("=")
    if not equals:
        raise ReportError(f"--target {text!r} is no target; expected METRIC=NUMBER such as pretrain/masked_loss=6.5")
    if name not in MEASURES:
        raise unknown("metric of --target", name, MEASURES)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ReportError(f"--target {text!r}: {number!r} is no number; expected one such as {name}=0.5")
    if metrics.get(name).unit in SHARES and abs(value) > 1:
        raise ReportError(f"--target {text!r}: {name} is at most 1; expected a share such as {name}=0.5")
    return Target(name, value)


def phase(measure: str) -> str:
    """The phase whose costs are those of this measure."""
    return "pretrain" if measure.startswith("pretrain/") else "finetune"


def best(values: Iterable[float], target: Target) -> float:
    """The value nearest to the target, or farthest beyond it."""
    return min(values) if metrics.get(target.metric).direction is Direction.LOWER else max(values)


def looks(curve: dict[int, float]) -> dict[int, float]:
    """The points of a curve at which a run in training was looked at; none where all there is is one value of its end."""
    found = {step: value for step, value in curve.items() if step > 0}  # at step 0 stands what was logged without a step
    return found if len(found) > 1 else {}


def reach(curve: dict[int, float], costs: dict[str, dict[int, float]], target: Target) -> Reach | None:
    """Of the first look that meets the target and of the one before it; None where no look does."""
    steps = sorted(curve)
    index = next((index for index, step in enumerate(steps) if target.met(curve[step])), None)
    if index is None:
        return None
    known = {STEPS: {step: float(step) for step in steps}} | costs
    if index == 0:
        return Reach({name: cost[steps[0]] for name, cost in known.items() if steps[0] in cost}, True)
    before, after = steps[index - 1], steps[index]
    share = (target.value - curve[before]) / (curve[after] - curve[before])
    both = {name: (cost[before], cost[after]) for name, cost in known.items() if before in cost and after in cost}
    return Reach({name: _between(*ends, share) for name, ends in both.items() if min(ends) > 0}, False)


def _between(before: float, after: float, share: float) -> float:
    return before * (after / before) ** share


@dataclass(frozen=True)
class Paid:
    """What the runs of one variant spent on a target, by seed: the Reach, or None of a seed that did not get there."""

    label: str
    reaches: dict[str, Reach | None]
    best: dict[str, float]  # seed -> best value of its curve

    @property
    def reached(self) -> bool:
        """By every seed."""
        return all(self.reaches.values())

    @property
    def bound(self) -> bool:
        """Whether any seed's cost is an upper bound."""
        return any(seen.bound for seen in self.reaches.values() if seen)

    def amounts(self, cost: str) -> dict[str, float]:
        """Seed -> what it spent, of the seeds that got there."""
        return {seed: seen.costs[cost] for seed, seen in self.reaches.items() if seen and cost in seen.costs}


def paid(row: Row, target: Target, curves: Curves) -> Paid | None:
    """None where no run of the row has a curve of looks."""
    curve = {seed: looks(curves.get(target.metric, {}).get(run.run_id, {})) for seed, run in row.runs.items()}
    curve = {seed: seen for seed, seen in curve.items() if seen}
    if not curve:
        return None
    names, reaches = COSTS[phase(target.metric)], {}
    for seed, seen in curve.items():
        run = row.runs[seed].run_id
        reaches[seed] = reach(seen, {cost: curves.get(name, {}).get(run, {}) for cost, name in names.items()}, target)
    return Paid(row.label, reaches, {seed: best(seen.values(), target) for seed, seen in curve.items()})


def default_target(section: Section, curves: Curves) -> Target | None:
    """The worst value that a seed of the baseline ends with, so that all of them reach it; None without such a curve.

    Of pretraining the loss: accuracy stands still while the loss falls, where the most frequent token is the answer.
    """
    runs = section.before.runs.values() if section.before else ()
    for name in ("pretrain/masked_loss",) if section.is_pretraining else ("tune/score", "eval/score"):
        known = [curve for run in runs if (curve := looks(curves.get(name, {}).get(run.run_id, {})))]
        if known:
            ends = [curve[max(curve)] for curve in known]
            return Target(name, max(ends) if metrics.get(name).direction is Direction.LOWER else min(ends))
    return None


@dataclass(frozen=True)
class Ratio:
    """How many times the baseline's cost, over the seeds that both have: geometric mean, and its t interval of two seeds on."""

    mean: float
    interval: tuple[float, float] | None  # None where the mean is a limit
    limit: str = ""  # ≥ or ≤ where the baseline's or the variant's cost is an upper bound


def ratio(before: Paid, after: Paid, cost: str) -> Ratio | None:
    """None where a seed of either did not get there, as those that did are the fast ones, or where both are upper bounds."""
    if not (before.reached and after.reached) or (before.bound and after.bound):
        return None
    earlier, later = before.amounts(cost), after.amounts(cost)
    seeds = [seed for seed in later if seed in earlier]
    if not seeds:
        return None
    seen = paired([math.log(earlier[seed]) for seed in seeds], [math.log(later[seed]) for seed in seeds])
    if before.bound or after.bound:
        return Ratio(math.exp(seen.mean), None, "≥ " if before.bound else "≤ ")
    interval = (math.exp(seen.interval[0]), math.exp(seen.interval[1])) if seen.interval else None
    return Ratio(math.exp(seen.mean), interval)
