"""`python -m reports power`: the minimum detectable difference of scores for a number of seeds and items, before any run."""

import bisect
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean

from harness.comparison import paired
from harness.comparison.compare import FIRST, Comparison
from harness.comparison.paired import ASSUMED_SCORE, Design
from harness.errors import InputError
from harness.metrics import FEWEST_REPLICATES
from harness.plugins.decide.gate import ALLOWED, several
from harness.plugins.decide.options import Power
from harness.plugins.judge import results
from harness.plugins.judge.ranks import rankings
from harness.plugins.judge.results import ResultsReader
from harness.plugins.shared.seeds import smallest_difference
from harness.reports.read import StudyRuns, read
from harness.reports.writing.formats import POINTS
from harness.terminal import counted, table, wrapped

SEEDS, TIMES = (3, 5, 10, 20), (1, 4, 16)
"""Numbers of seeds shown with the plan's, and numbers of items as multiples of its own."""
EVER = 10**12
"""Seeds or items that stand for infinitely many."""
NONE = "no number of"


@dataclass(frozen=True)
class Plan:
    """A planned comparison, and what is known of its scores.

    `items` are those of each task. `sd` is the standard deviation over seeds of the difference of two arms on one task,
    `per_item` the variance of such a difference over items times their number; None where unknown.
    """

    arms: int = 2
    tasks: int = 1
    items: int | None = None
    score: float = ASSUMED_SCORE
    all_pairs: bool = False
    sd: float | None = None
    per_item: float | None = None
    source: str = "unknown, so only sampling error counts"

    @property
    def tests(self) -> int:
        """Number of tests in one table."""
        return self.arms * (self.arms - 1) // 2 if self.all_pairs else self.arms - 1

    def smallest(self, seeds: int, items: int) -> float:
        """The true difference of two means over tasks that is detected with 80 % power."""
        of_score = paired.items_error(self.score, self.score, (items, items))
        error = of_score if self.per_item is None else math.sqrt(self.per_item / items)
        sd, error = ((one or 0.0) / math.sqrt(self.tasks) for one in (self.sd, error))
        return smallest_difference(seeds, sd, self.tests, items=error)

    def ways(self, size: float, seeds: int) -> Iterator[str]:
        """What detects a difference of this size: seeds with the items of the plan, or items with so many seeds."""
        items = self.items or EVER
        needed = paired.fewest(lambda number: self.smallest(number, items) <= size, FEWEST_REPLICATES)
        number = f"{several(needed)} seeds" if self.smallest(EVER, items) <= size else f"{NONE} seeds is enough"
        yield number + (f" with {items:,} items" if self.items else "")
        if self.items:
            if self.smallest(seeds, EVER) > size:
                yield f"{NONE} items is enough with {seeds} seeds"
                seeds = paired.fewest(lambda number: self.smallest(number, EVER) <= size / math.sqrt(2), FEWEST_REPLICATES)
            needed = 1 + bisect.bisect_left(range(1, EVER), True, key=lambda number: self.smallest(seeds, number) <= size)
            yield from [f"{needed:,} items with {several(seeds)} seeds"] * (needed < EVER)


def of_pilot(comparison: Comparison) -> Plan:
    """Arms, tasks, items and standard deviation of the pilot; InputError without pairs."""
    tables = [ranking for ranking in rankings(comparison) if len(ranking.sections) == 1]
    items, variances, per_item = [], [], []
    for ranking in tables:
        row = ranking.sections[0].by_label[ranking.labels[0]]
        items += [1 / row.item] if row.item else []
        for found in (change.evidence.found for change in ranking.changes.values() if change.evidence):
            free = found.independent or found.n / 2  # independent runs: as many of either arm
            variances += [found.replicates_error**2 * free] if found.error and found.of in (Design.SEEDS, Design.RUNS) else []
            per_item += [found.items**2 / row.item] if row.item and found.items else []
    if not variances and not per_item:
        raise InputError(f"{comparison.study!r} has no two arms that share two seeds, or the items")
    return Plan(
        len(comparison.labels),
        len(tables),
        round(fmean(items)) if items else None,
        fmean(place.mean for ranking in tables for place in ranking.places),
        sd=math.sqrt(fmean(variances)) if variances else None,
        per_item=fmean(per_item) if per_item else None,
        source=f"from {counted(len(variances), 'pair')} of arms in {comparison.study}" if variances else Plan.source,
    )


def planned(options: Power) -> Plan:
    """The options, completed from the pilot; InputError where neither says how scores vary."""
    plan = Plan()
    if options.sd is not None:
        plan = Plan(sd=math.sqrt(2) * options.sd, source="√2 times sd=, for independent arms")
    elif options.study:
        runs = read(options.address, options.study, options.where)
        with runs.reader.guarded():
            plan = of_pilot(runs.compared([FIRST], options.along))
    elif options.pilot:
        asked = results.asked_of(options)
        reader = ResultsReader(results.checked([results.rows_of(options.pilot, asked)], asked), options.pilot.name)
        study = next(iter(reader.studies()))
        plan = of_pilot(StudyRuns(reader, study, reader.runs(study)).compared([FIRST]))
    said = {name: getattr(options, name) for name in ("arms", "tasks", "items", "score", "all_pairs")}
    plan = replace(plan, **{name: value for name, value in said.items() if value is not None})
    if plan.sd is None and plan.items is None:
        raise InputError("power needs items=, sd=, study= or pilot=")
    return plan


def size_of(text: str) -> float:
    """The share that is written `1point`; InputError for another text."""
    match = ALLOWED.fullmatch(text.strip())
    if match is None and re.fullmatch(r"\d+\.?\d*|\.\d+", text):
        raise InputError(f"difference={text!r} has no unit: write {text}points")
    if match is None or match[2] == "%" or not 0 < float(match[1]) < POINTS:
        raise InputError(f"difference={text!r}: expected a size above 0 and below {POINTS}, such as 0.5points")
    return float(match[1]) / POINTS


def main(options: Power) -> int:
    """0, and the table on stdout."""
    size, plan = size_of(options.difference) if options.difference else None, planned(options)
    over = f"mean of {plan.tasks} tasks" if plan.tasks > 1 else "one task"
    against = "all pairs" if plan.all_pairs else "against a baseline"
    print(wrapped(f"{plan.arms} arms, {against} ({counted(plan.tests, 'test')}, Holm), {over}."))
    scatter = "" if plan.sd is None else f"{POINTS * plan.sd:.2f} points on one task, "
    print(wrapped(f"Standard deviation of differences over seeds: {scatter}{plan.source}."))
    alike = "for independent errors" if plan.per_item is None else "for errors correlated as in the pilot"
    known = f"{plan.items:,} per task, at a score of {plan.score:.2f}, {alike}" if plan.items else "unknown, not included"
    print(wrapped(f"Items: {known}."))
    seeds = {} if plan.sd is None else {str(number): number for number in sorted({*SEEDS, options.seeds})}
    items = {f"{plan.items * times:,} items": plan.items * times for times in TIMES} if plan.items else {}
    rows, columns = seeds | ({"∞": EVER} if items else {}), items | ({"∞ items": EVER} if seeds else {})
    lines = [(name, *(f"{POINTS * plan.smallest(row, of):.2f}" for of in columns.values())) for name, row in rows.items()]
    print(f"\n{table(('seeds', *columns), lines, 'lr')}\n")
    print(wrapped("Minimum detectable difference in points, at 80 % power."))
    if size is not None:
        print(wrapped(f"To detect {options.difference}: {'; '.join(plan.ways(size, options.seeds))}."))
    return 0
