"""Cost of reaching a quality: steps, tokens, seconds, FLOPs and joules up to a target, from the curves of a run.

Quality is known only at the evaluations. Between two of them it is interpolated linearly in the logarithm of the cost, as
losses nearly are; nothing is extrapolated. Costs are those of the curves at the same step, so growing batches and varying
text lengths are counted exactly.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics
from harness.comparison import comparable
from harness.comparison.paired import Replicate, compare_paired, spread
from harness.comparison.runs import Run
from harness.comparison.section import Row, Section
from harness.document import DASH, Block, Cell
from harness.document import Section as Part
from harness.errors import InputError
from harness.metrics import Direction
from harness.plugins.shared.limits import metric_and_number
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats
from harness.reports.writing.formats import Chapter, escape, listed

MEASURES = ("pretrain/masked_loss", "pretrain/masked_accuracy", "tune/score", "eval/score")
"""Metrics that are evaluated during training and mean the same for every arm."""
STEPS = "steps"
QUANTITIES = {"tokens": "tokens", "time": "duration_s", "FLOPs": "flops", "energy": "energy_j"}
"""Cost -> its cumulative curve in a phase, logged at the steps of the evaluations."""
UNITS = {STEPS: "steps", "tokens": "tokens", "time": "s", "FLOPs": "FLOP", "energy": "J"}
OWN_CLOCK = ("time", "energy")
"""Costs measured during one training, which are not compared."""
INTRO = """\
Cost up to the first evaluation that met the target: mean over seeds ± standard deviation, and below it the ratio to the
baseline's, paired by seed (geometric mean [95 % t interval]). Quality is interpolated linearly in the logarithm of the cost;
≤: the first evaluation already met the target. Time excludes evaluation. Time and energy, not measured side by side, have no
ratio."""
LEFT_OUT = """\
Left out: {names}. Their masked tokens are predicted by another kind of head (a probe on the frozen encoder instead of the \
objective's own), or their vocabulary differs: not comparable."""
NOT_AVAILABLE = "not available"


@dataclass(frozen=True)
class Target:
    """A quality to reach."""

    metric: str
    value: float

    @property
    def sign(self) -> int:
        """-1 where less is better: `sign * value` grows with quality."""
        return -1 if metrics.get(self.metric).direction is Direction.LOWER else 1

    @property
    def costs(self) -> dict[str, str]:
        """Cost -> the metric that is its curve, in the phase of this quality."""
        phase = "pretrain" if self.metric.startswith("pretrain/") else "finetune"
        return {cost: f"{phase}/{name}" for cost, name in QUANTITIES.items()}


@dataclass(frozen=True)
class Reach:
    """What one run spent. `bound`: the first evaluation met the target already, so the costs are upper bounds."""

    costs: dict[str, float]  # name of the cost -> amount, without those that have no curve
    bound: bool


def parse(texts: Iterable[str]) -> list[Target]:
    """Targets written METRIC=NUMBER; InputError for a metric without such a curve, or an impossible number."""
    return [Target(*metric_and_number("target", text, MEASURES, MEASURES)) for text in texts]


def evaluations(study: Study, run: Run, metric: str) -> dict[int, float]:
    """The points of a curve that were evaluated while training; none where the end is all there is."""
    curve = study.curve(metric).get(run.run_id, {})
    evaluated = {step: value for step, value in curve.items() if step > 0}  # what has no step was logged at step 0
    return evaluated if len(evaluated) > 1 else {}


def reach(curve: dict[int, float], costs: dict[str, dict[int, float]], target: Target) -> Reach | None:
    """Between the first evaluation that meets the target and the one before it; None where none does."""
    steps = sorted(curve)
    goal = target.sign * target.value
    index = next((index for index, step in enumerate(steps) if target.sign * curve[step] >= goal), None)
    if index is None:
        return None
    curves = {STEPS: {step: float(step) for step in steps}} | costs
    after = steps[index]
    if index == 0:
        return Reach({name: cost[after] for name, cost in curves.items() if after in cost}, True)
    before = steps[index - 1]
    share = (target.value - curve[before]) / (curve[after] - curve[before])
    both = {name: (cost[before], cost[after]) for name, cost in curves.items() if before in cost and after in cost}
    return Reach({name: low * (high / low) ** share for name, (low, high) in both.items() if low > 0 and high > 0}, False)


@dataclass(frozen=True)
class Paid:
    """What the runs of one arm spent on a target, by replicate: the Reach, or None where the target was not reached."""

    label: str
    reaches: dict[Replicate, Reach | None]
    best: dict[Replicate, float]  # best value of its curve

    @property
    def reached(self) -> bool:
        """By every replicate."""
        return all(self.reaches.values())

    @property
    def bound(self) -> bool:
        """Whether any cost is an upper bound."""
        return any(reach.bound for reach in self.reaches.values() if reach)

    def amounts(self, cost: str) -> dict[Replicate, float]:
        """What each replicate spent that reached the target."""
        return {replicate: reach.costs[cost] for replicate, reach in self.reaches.items() if reach and cost in reach.costs}


def paid(row: Row, target: Target, study: Study) -> Paid | None:
    """None where no run of the row has a curve of evaluations."""
    reaches, best = {}, {}
    for run in row.runs:
        if curve := evaluations(study, run, target.metric):
            names = {cost: name for cost, name in target.costs.items() if name in metrics.METRICS}
            costs = {cost: study.curve(name).get(run.run_id, {}) for cost, name in names.items()}
            reaches[run.replicate] = reach(curve, costs, target)
            best[run.replicate] = max(curve.values(), key=lambda value: target.sign * value)
    return Paid(row.label, reaches, best) if reaches else None


def default_target(section: Section, study: Study) -> Target | None:
    """The worst value that a run of the baseline ends with, so that all of them reach it; None without such a curve.

    Pretraining uses the loss: accuracy does not move while the loss falls, as long as the model predicts the most frequent
    token.
    """
    runs = section.before.runs if section.before else ()
    for name in ("pretrain/masked_loss",) if section.is_pretraining else ("tune/score", "eval/score"):
        curves = [curve for run in runs if (curve := evaluations(study, run, name))]
        if curves:
            return min([Target(name, curve[max(curve)]) for curve in curves], key=lambda target: target.sign * target.value)
    return None


@dataclass(frozen=True)
class Ratio:
    """How many times the baseline's cost, over the replicates that both have: geometric mean, and its t interval."""

    mean: float
    interval: tuple[float, ...] | None  # None of a single pair, and where the mean is a limit
    limit: str = ""  # ≥ or ≤ where the baseline's or the arm's cost is an upper bound


def ratio(before: Paid, after: Paid, cost: str) -> Ratio | None:
    """None where a run of either did not reach the target, as only the fast ones would count, or where both are bounds."""
    if not (before.reached and after.reached) or (before.bound and after.bound):
        return None
    difference = compare_paired(
        *({replicate: math.log(amount) for replicate, amount in side.amounts(cost).items()} for side in (before, after))
    )
    if difference is None:
        return None
    limit = "≥ " if before.bound else "≤ " if after.bound else ""
    interval = tuple(map(math.exp, difference.interval)) if difference.interval and not limit else None
    return Ratio(math.exp(difference.mean), interval, limit)


def chapter(study: Study) -> Chapter:
    """Empty where nothing was evaluated while training; InputError for a target of which no run has a curve."""
    sections, targets = study.comparison.sections, parse(study.options.targets)
    for target in targets:
        rows = [row for section in sections for row in section.rows]
        if not any(paid(row, target, study) for row in rows):
            there = [name for name in MEASURES if any(paid(row, Target(name, 0.0), study) for row in rows)]
            choices = f"choices: {', '.join(there)}" if there else "the study has no such curves"
            raise InputError(
                f"target={target.metric}: no run of this study evaluated it more than once during training; {choices}"
            )
    parts = []
    for section in sections:
        for target in targets or filter(None, [default_target(section, study)]):
            parts += table(section, target, study)
    return Chapter([Part("Cost of a quality", [INTRO, *parts], detail=len(sections) > 1 and not targets)] if parts else [])


def table(section: Section, target: Target, study: Study) -> list[Part]:
    """The table, which costs are missing and who is left out; empty where no row has the curve.

    Left out are rows with another head for masked tokens, or another vocabulary, than the baseline, or else the first row.
    """
    first, unlike, rows = section.before or section.rows[0], [], []
    for row in section.rows:
        if comparable.why_not(target.metric, first.runs, row.runs):
            unlike.append(row.label)
        elif spent := paid(row, target, study):
            rows.append(spent)
    if not rows:
        return []
    before = next((row for row in rows if row.label == section.baseline), None)
    metric = metrics.get(target.metric)
    lines = [[escape(row.label), _reached(row, target), *(cost_cell(row, before, cost) for cost in UNITS)] for row in rows]
    quality = f"{metric.title} of {formats.value(target.value, metric.unit)}"
    blocks: list[Block] = [formats.table(["arm", "runs that reached it", *UNITS], lines)]
    lost = [escape(name) for cost, name in target.costs.items() if not any(row.amounts(cost) for row in rows)]
    if lost and any(any(row.reaches.values()) for row in rows):
        blocks.append(f"Not available: no {', '.join(lost)} logged at the steps of these evaluations.")
    if unlike:
        blocks.append(LEFT_OUT.format(names=listed(unlike)))
    return [Part(f"{escape(section.name)}: to a {quality}", blocks)]


def _reached(row: Paid, target: Target) -> Cell:
    """`3 of 3`, or with the best value of those that did not reach it."""
    short = [row.best[replicate] for replicate, reach in row.reaches.items() if reach is None]
    reached = len(row.reaches) - len(short)
    best = max(short, key=lambda value: target.sign * value) if short else 0.0
    which = f"the other{f' {len(short)}' if len(short) > 1 else ''}: " if reached else ""
    below = f"{which}best {formats.value(best, metrics.get(target.metric).unit)}" if short else ""
    return Cell(f"{reached} of {len(row.reaches)}", reached, change=below)


def cost_cell(row: Paid, before: Paid | None, cost: str) -> Cell:
    """Amount and ratio; a dash where no run reached it, `not available` where the run has no curve of this cost."""
    if not any(row.reaches.values()):
        return Cell(DASH)
    amounts = list(row.amounts(cost).values())
    if not amounts:
        return Cell(NOT_AVAILABLE)
    over = spread(amounts)
    text = formats.value(over.mean, UNITS[cost], None if row.bound else over.sd).removesuffix(f" {STEPS}")
    text = "≤ " * row.bound + text + ("" if row.reached else f" ({over.n} of {len(row.reaches)} runs)")
    below = ""
    if before is not None and before is not row and cost not in OWN_CLOCK:
        times = ratio(before, row, cost)
        interval = f" [{', '.join(f'{end:.2f}' for end in times.interval)}]" if times and times.interval else ""
        below = f"× {times.limit}{times.mean:.2f}{interval}" if times else DASH
    return Cell(text, over.mean, UNITS[cost], below)


CHAPTER = Added(chapter, before=timing.chapter, order=3, check=parse)
