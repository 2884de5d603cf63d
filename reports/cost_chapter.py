"""The chapter on what a quality costs: one table a section and target."""

from harness import metrics
from reports import formats
from reports.chapter import Chapter
from reports.compare import Comparison, Section
from reports.cost import COSTS, MEASURES, STEPS, UNITS, Curves, Paid, Ratio, Target, best, default_target, paid, phase, ratio
from reports.errors import ReportError
from reports.formats import DASH, escape
from reports.statistics import spread
from reports.tables import section_name

INTRO = """\
What was spent when a run first looked as good as the target: mean over seeds ± standard deviation, and below it how many times
what the baseline spent, paired by seed (geometric mean [95 % t interval]). Between two looks quality is taken to be straight
against the logarithm of the cost; ≤: the first look was beyond the target already. Time is that of training alone."""
NOT_AVAILABLE = "not available"


def chapter(comparison: Comparison, curves: Curves, targets: list[Target]) -> Chapter:
    """Empty where nothing was looked at while training; ReportError for a target of which no run has a curve."""
    for target in targets:
        if not any(paid(row, target, curves) for section in comparison.sections for row in section.rows):
            raise ReportError(_without_curve(target, comparison, curves))
    tables = [
        paragraph
        for section in comparison.sections
        for target in (targets or _default(section, curves))
        for paragraph in table(comparison, section, target, curves)
    ]
    return Chapter(["## Cost of a quality", INTRO, *tables]) if tables else Chapter()


def _default(section: Section, curves: Curves) -> list[Target]:
    target = default_target(section, curves)
    return [target] if target else []


def _without_curve(target: Target, comparison: Comparison, curves: Curves) -> str:
    rows = [row for section in comparison.sections for row in section.rows]
    there = [name for name in MEASURES if any(paid(row, Target(name, 0.0), curves) for row in rows)]
    choices = f"choices: {', '.join(there)}" if there else "the study has no such curves at all"
    return f"--target {target.metric}: no run of this study looked at it more than once while training; {choices}"


def table(comparison: Comparison, section: Section, target: Target, curves: Curves) -> list[str]:
    """Heading, table and what is missing of it; empty where no row has the curve."""
    rows = [found for row in section.rows if (found := paid(row, target, curves))]
    if not rows:
        return []
    before = next((row for row in rows if row.label == section.baseline), None)
    metric = metrics.get(target.metric)
    shown = formats.value(target.value, metric.unit)
    lines = [[escape(row.label), _reached(row, target), *(cell(row, before, cost) for cost in UNITS)] for row in rows]
    heading = f"### {section_name(comparison, section)}: to a {metric.title} of {shown}"
    return [heading, formats.table(["variant", "seeds that got there", *UNITS], lines), *_missing(rows, target)]


def _reached(row: Paid, target: Target) -> str:
    """`3 of 3`, or with the best value of those that did not get there."""
    short = [row.best[seed] for seed, seen in row.reaches.items() if seen is None]
    got = f"{len(row.reaches) - len(short)} of {len(row.reaches)}"
    if not short:
        return got
    return f"{got}<br>not reached (best {formats.value(best(short, target), metrics.get(target.metric).unit)})"


def cell(row: Paid, before: Paid | None, cost: str) -> str:
    """Amount and ratio; a dash where no seed got there, `not available` where the run has no curve of this cost."""
    if not any(row.reaches.values()):
        return DASH
    amounts = list(row.amounts(cost).values())
    if not amounts:
        return NOT_AVAILABLE
    seen = spread(amounts)
    text = ("≤ " if row.bound else "") + _amount(seen.mean, cost, None if row.bound else seen.sd)
    if not row.reached:
        text += f" ({seen.n} of {len(row.reaches)} seeds)"
    if before is None or before is row:
        return text
    return f"{text}<br>{_ratio(ratio(before, row, cost))}"


def _amount(mean: float, cost: str, sd: float | None) -> str:
    if cost != STEPS:
        return formats.value(mean, UNITS[cost], sd)
    return formats.plain(mean, 0) + (f" ± {formats.plain(sd, 0)}" if sd is not None else "")


def _ratio(seen: Ratio | None) -> str:
    if seen is None:
        return DASH
    interval = f" [{', '.join(f'{end:.2f}' for end in seen.interval)}]" if seen.interval else ""
    return f"× {seen.limit}{seen.mean:.2f}{interval}"


def _missing(rows: list[Paid], target: Target) -> list[str]:
    """Which curves are not there."""
    names = COSTS[phase(target.metric)]
    there = {cost for row in rows for cost in names if row.amounts(cost)}
    lost = [name for cost, name in names.items() if cost not in there]
    if not lost or not any(any(row.reaches.values()) for row in rows):
        return []
    return [f"Not available: no curve {', '.join(escape(name) for name in lost)} at the steps of these looks."]
