"""What it cost to reach a quality: steps, tokens, seconds, FLOPs and joules up to a target, by the curves of a run.

Quality is known only at the evaluations. Between two of them it is taken to be straight against the logarithm of the cost, as
losses nearly are; nothing is extrapolated. Costs are those of the curves at the same step, so a batch that
grows or texts of other lengths count as what they were.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics
from harness.metrics import Direction
from harness.paired import Replicate, compare_paired, spread
from reports.comparison.compare import Comparison, Study
from reports.comparison.section import Row, Section, are_comparable
from reports.errors import ReportError, unknown
from reports.writing import formats
from reports.writing.formats import DASH, SHARES, Chapter, escape, listed
from reports.writing.tables import section_name

MEASURES = ("pretrain/masked_loss", "pretrain/masked_accuracy", "tune/score", "eval/score")
"""Metrics that are evaluated while training and mean the same for every arm."""
STEPS = "steps"
QUANTITIES = {"tokens": "tokens", "time": "duration_s", "FLOPs": "flops", "energy": "energy_j"}
COSTS = {phase: {cost: f"{phase}/{name}" for cost, name in QUANTITIES.items()} for phase in ("pretrain", "finetune")}
"""Phase -> cost -> its cumulative curve, logged at the steps of the evaluations."""
UNITS = {STEPS: "steps", "tokens": "tokens", "time": "s", "FLOPs": "FLOP", "energy": "J"}
INTRO = """\
What was spent up to the first evaluation that met the target: mean over replicates ± standard deviation, and below it how many
times what the baseline spent, paired by seed (geometric mean [95 % t interval]). Between two evaluations quality is taken to be
straight against the logarithm of the cost; ≤: the first evaluation met the target already. Time is that of training alone."""
NOT_AVAILABLE = "not available"


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
    """What one run spent. `bound`: the first evaluation met the target already, so the costs are upper bounds."""

    costs: dict[str, float]  # name of the cost -> amount, without those that have no curve
    bound: bool


def parse(texts: Iterable[str]) -> list[Target]:
    """Targets written METRIC=NUMBER; ReportError for a name that has no such curve, or a number that cannot be."""
    return [_target(text) for text in texts]


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


def evaluations(curve: dict[int, float]) -> dict[int, float]:
    """The points of a curve that were evaluated while training; none where the end is all there is."""
    found = {step: value for step, value in curve.items() if step > 0}  # what has no step was logged at step 0
    return found if len(found) > 1 else {}


def reach(curve: dict[int, float], costs: dict[str, dict[int, float]], target: Target) -> Reach | None:
    """Between the first evaluation that meets the target and the one before it; None where none does."""
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
        return any(found.bound for found in self.reaches.values() if found)

    def amounts(self, cost: str) -> dict[Replicate, float]:
        """What each replicate spent that reached the target."""
        return {one: found.costs[cost] for one, found in self.reaches.items() if found and cost in found.costs}


def paid(row: Row, target: Target, study: Study) -> Paid | None:
    """None where no run of the row has a curve of evaluations."""
    known = study.curve(target.metric)
    curves = {one: evaluations(known.get(run.run_id, {})) for one, run in row.runs.items()}
    curves = {one: curve for one, curve in curves.items() if curve}
    if not curves:
        return None
    names, reaches = COSTS[phase(target.metric)], {}
    for one, curve in curves.items():
        run = row.runs[one].run_id
        costs = {cost: study.curve(name).get(run, {}) for cost, name in names.items() if name in metrics.METRICS}
        reaches[one] = reach(curve, costs, target)
    return Paid(row.label, reaches, {one: best(curve.values(), target) for one, curve in curves.items()})


def default_target(section: Section, study: Study) -> Target | None:
    """The worst value that a run of the baseline ends with, so that all of them reach it; None without such a curve.

    Of pretraining the loss: accuracy does not move while the loss falls, where the most frequent token is the answer.
    """
    runs = section.before.runs.values() if section.before else ()
    for name in ("pretrain/masked_loss",) if section.is_pretraining else ("tune/score", "eval/score"):
        known = [curve for run in runs if (curve := evaluations(study.curve(name).get(run.run_id, {})))]
        if known:
            ends = [curve[max(curve)] for curve in known]
            return Target(name, max(ends) if metrics.get(name).direction is Direction.LOWER else min(ends))
    return None


@dataclass(frozen=True)
class Ratio:
    """How many times the baseline's cost, over the replicates that both have: geometric mean, and its t interval."""

    mean: float
    interval: tuple[float, float] | None  # None of a single pair, and where the mean is a limit
    limit: str = ""  # ≥ or ≤ where the baseline's or the arm's cost is an upper bound


def ratio(before: Paid, after: Paid, cost: str) -> Ratio | None:
    """None where a run of either did not reach the target, as only the fast ones would count, or where both are bounds."""
    if not (before.reached and after.reached) or (before.bound and after.bound):
        return None
    logs = [{one: math.log(amount) for one, amount in side.amounts(cost).items()} for side in (before, after)]
    found = compare_paired(*logs)
    if found is None:
        return None
    if before.bound or after.bound:
        return Ratio(math.exp(found.mean), None, "≥ " if before.bound else "≤ ")
    interval = (math.exp(found.interval[0]), math.exp(found.interval[1])) if found.interval else None
    return Ratio(math.exp(found.mean), interval)


def chapter(study: Study) -> Chapter:
    """Empty where nothing was evaluated while training; ReportError for a target of which no run has a curve."""
    comparison, targets = study.comparison, parse(study.options.targets)
    for target in targets:
        if not any(paid(row, target, study) for section in comparison.sections for row in section.rows):
            raise ReportError(_without_curve(target, study))
    tables = [
        paragraph
        for section in comparison.sections
        for target in targets or filter(None, [default_target(section, study)])
        for paragraph in table(comparison, section, target, study)
    ]
    return Chapter(["## Cost of a quality", INTRO, *tables]) if tables else Chapter()


def _without_curve(target: Target, study: Study) -> str:
    rows = [row for section in study.comparison.sections for row in section.rows]
    there = [name for name in MEASURES if any(paid(row, Target(name, 0.0), study) for row in rows)]
    choices = f"choices: {', '.join(there)}" if there else "the study has no such curves at all"
    return f"--target {target.metric}: no run of this study evaluated it more than once while training; {choices}"


def table(comparison: Comparison, section: Section, target: Target, study: Study) -> list[str]:
    """Heading, table, which costs are missing and who is left out; empty where no row has the curve."""
    others = not_comparable(section, target.metric)
    rows = [found for row in section.rows if row.label not in others and (found := paid(row, target, study))]
    if not rows:
        return []
    before = next((row for row in rows if row.label == section.baseline), None)
    metric = metrics.get(target.metric)
    shown = formats.value(target.value, metric.unit)
    lines = [[escape(row.label), _reached(row, target), *(cost_text(row, before, cost) for cost in UNITS)] for row in rows]
    heading = f"### {section_name(comparison, section)}: to a {metric.title} of {shown}"
    return [heading, formats.table(["arm", "runs that reached it", *UNITS], lines), *_missing(rows, target), *_left_out(others)]


def not_comparable(section: Section, name: str) -> list[str]:
    """Rows with another head for masked tokens, or another vocabulary, than those of the baseline, or else of the first row."""
    first = section.before or section.rows[0]
    return [row.label for row in section.rows if not are_comparable(name, first.runs.values(), row.runs.values())]


def _left_out(labels: list[str]) -> list[str]:
    if not labels:
        return []
    names = listed([escape(label) for label in labels], most=None)
    return [
        f"Left out: {names}. Another kind of head predicts the masked tokens there, a probe on the frozen encoder in place of "
        "the objective's own, or the tokens are of another vocabulary: they do not compare."
    ]


def _reached(row: Paid, target: Target) -> str:
    """`3 of 3`, or with the best value of those that did not reach it."""
    short = [row.best[one] for one, found in row.reaches.items() if found is None]
    got = f"{len(row.reaches) - len(short)} of {len(row.reaches)}"
    if not short:
        return got
    return f"{got}<br>not reached (best {formats.value(best(short, target), metrics.get(target.metric).unit)})"


def cost_text(row: Paid, before: Paid | None, cost: str) -> str:
    """Amount and ratio; a dash where no run reached it, `not available` where the run has no curve of this cost."""
    if not any(row.reaches.values()):
        return DASH
    amounts = list(row.amounts(cost).values())
    if not amounts:
        return NOT_AVAILABLE
    over = spread(amounts)
    text = ("≤ " if row.bound else "") + _amount(over.mean, cost, None if row.bound else over.sd)
    if not row.reached:
        text += f" ({over.n} of {len(row.reaches)} runs)"
    if before is None or before is row:
        return text
    return f"{text}<br>{_ratio(ratio(before, row, cost))}"


def _amount(mean: float, cost: str, sd: float | None) -> str:
    if cost != STEPS:
        return formats.value(mean, UNITS[cost], sd)
    return formats.plain(mean, 0) + (f" ± {formats.plain(sd, 0)}" if sd is not None else "")


def _ratio(times: Ratio | None) -> str:
    if times is None:
        return DASH
    interval = f" [{', '.join(f'{end:.2f}' for end in times.interval)}]" if times.interval else ""
    return f"× {times.limit}{times.mean:.2f}{interval}"


def _missing(rows: list[Paid], target: Target) -> list[str]:
    """Which curves no run has."""
    names = COSTS[phase(target.metric)]
    there = {cost for row in rows for cost in names if row.amounts(cost)}
    lost = [name for cost, name in names.items() if cost not in there]
    if not lost or not any(any(row.reaches.values()) for row in rows):
        return []
    return [f"Not available: no curve {', '.join(escape(name) for name in lost)} at the steps of these evaluations."]
