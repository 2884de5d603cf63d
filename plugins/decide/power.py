"""`python -m reports power`: the smallest difference of scores that seeds and items would show, before anything is run."""

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from harness.comparison import paired
from harness.comparison.compare import FIRST, Comparison, compare
from harness.comparison.paired import ASSUMED_SCORE, MOST_PAIRS, POWER, Design, in_common
from harness.comparison.ranks import residual_squares
from harness.comparison.section import HEADLINE
from harness.errors import InputError
from harness.metrics import FEWEST_REPLICATES
from harness.plugins.decide.gate import ALLOWED
from harness.plugins.decide.options import Power
from harness.reports.read import read
from harness.reports.reading import results
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.results import Asked, ResultsReader
from harness.reports.writing import formats
from harness.terminal import counted, table, wrapped

SEEDS, TIMES = (3, 5, 10, 20), (1, 4, 16)
"""Numbers of seeds that are shown beside the one asked for, and numbers of items, as multiples of those asked for."""
EVER = 10**9
"""So many seeds or items leave nothing open."""


@dataclass(frozen=True)
class Known:
    """What is known of scores before they are compared, and by what.

    `sd`: standard deviation of the paired difference of two arms on one task, over seeds; `per_item`: variance of such a
    difference over items, of a single one. None where nothing says it.
    """

    sd: float | None = None
    per_item: float | None = None
    source: str = "unknown: seeds add to what the items leave open"
    score: float = ASSUMED_SCORE
    items: int | None = None
    arms: int = 2
    tasks: int = 1


def of_pilot(comparison: Comparison) -> Known:
    """From the headline scores of a study; InputError without two seeds of an arm."""
    sections = [section for section in comparison.selected_tasks if any(row.values(HEADLINE) for row in section.rows)]
    squares, freedom, per_item, scores, items = 0.0, 0, [], [], []
    for section in sections:
        rows = [row for row in section.rows if row.values(HEADLINE)]
        each, is_paired = [row.values(HEADLINE) for row in rows], len(rows) > 1 and section.design is Design.SEEDS
        values = [np.array(one) for one in (in_common(each) if is_paired else [[*one.values()] for one in each])]
        more = residual_squares(values, is_paired)
        squares, freedom = squares + more[0], freedom + more[1]
        scores += [float(one.mean()) for one in values]
        items += [1 / row.item for row in rows if row.item]
        pairings = [section.pairing(one, other) for one, other in combinations(rows, 2)]
        per_item += [pairing.items_error(HEADLINE) ** 2 / pairing.item for pairing in pairings if pairing.item]
    if not freedom:
        raise InputError(f"the pilot {comparison.study!r} has no score with two seeds that compare: expected some, or sd=")
    return Known(
        math.sqrt(2 * squares / freedom),
        fmean(per_item) if per_item else None,
        f"from {comparison.study}, {counted(len(comparison.labels), 'arm')} and {counted(len(sections), 'task')}",
        fmean(scores),
        round(fmean(items)) if items else None,
        max(2, len(comparison.labels)),
        len(sections),
    )


@dataclass(frozen=True)
class Planned:
    """A comparison that is planned."""

    known: Known
    tests: int
    tasks: int
    score: float

    def smallest(self, seeds: int, items: int | None) -> float:
        """The smallest true difference that is shown with a power of POWER."""
        if items is None:
            item = 0.0
        elif self.known.per_item is not None:
            item = math.sqrt(self.known.per_item / items)
        else:
            item = paired.items_error(self.score, self.score, (items, items))
        sd, of_items = ((error or 0.0) / math.sqrt(self.tasks) for error in (self.known.sd, item))
        return paired.smallest_difference(seeds, sd, self.tests, items=of_items)

    def takes(self, size: float, seeds: int, items: int | None) -> Iterable[str]:
        """What shows a difference of this size: seeds with these items, and items with these seeds."""
        with_items = f" with {items:,} items" if items else ""
        needed = paired.fewest(lambda n: self.smallest(n, items) <= size, FEWEST_REPLICATES)
        yield f"{needed:,} seeds{with_items}" if needed <= MOST_PAIRS else f"more than {MOST_PAIRS:,} seeds{with_items}, if any"
        if items:
            needed = 1 + bisect.bisect_left(range(1, EVER), True, key=lambda count: self.smallest(seeds, count) <= size)
            yield f"{needed:,} items with {seeds} seeds" if needed < EVER else f"no number of items with {seeds} seeds"


def known_of(options: Power) -> Known:
    """From what the options name."""
    if options.sd is not None:
        said = f"√2 times the {points(options.sd)} points of single scores, as if seeds had no luck in common"
        return Known(math.sqrt(2) * options.sd, source=said)
    if options.study:
        runs = read(options.address, options.study, options.where)
        with runs.reader.guarded():
            return of_pilot(compare(runs.study, runs.runs, FIRST, options.along, errors_in(runs.reader.output)))
    if options.pilot:
        reader = ResultsReader(results.read(options.pilot, Asked()), " + ".join(path.name for path in options.pilot))
        study = next(iter(reader.studies()))
        return of_pilot(compare(study, reader.runs(study), FIRST, errors=errors_in(reader.output)))
    return Known()


def points(share: float) -> str:
    """`1.25`."""
    return formats.plain(formats.POINTS * share, 2)


def size_of(text: str) -> float:
    """The share that is written `1point`; InputError for another text."""
    match = ALLOWED.fullmatch(text.strip())
    size = float(match[1]) / formats.POINTS if match and match[2] != "%" else 0.0
    if not 0 < size < 1:
        raise InputError(f"difference={text!r}: expected a size above 0 and below 100, such as 0.5points")
    return size


def main(options: Power) -> int:
    """0, and the table on stdout; InputError where nothing is known of seeds and items."""
    known = known_of(options)
    items, arms, tasks = options.items or known.items, options.arms or known.arms, options.tasks or known.tasks
    if known.sd is None and items is None:
        raise InputError("power knows neither seeds nor items: expected items=, sd=, study= or pilot=")
    tests = arms * (arms - 1) // 2 if options.all_pairs else arms - 1
    planned = Planned(known, tests, tasks, options.score or known.score)
    compared = "all pairs" if options.all_pairs else "each against the baseline"
    over = f"the mean of {tasks} tasks" if tasks > 1 else "one task"
    print(wrapped(f"{arms} arms, {compared} ({counted(tests, 'test')}, Holm), on {over}."))
    scatter = "" if known.sd is None else f"{formats.difference(known.sd, 'score').lstrip('+')} a difference on one task, "
    print(wrapped(f"Scatter over seeds: {scatter}{known.source}."))
    alike = "as in the pilot" if known.per_item is not None else f"at a score of {planned.score:.3g}, arms err on different ones"
    print(wrapped(f"Items: {f'{items:,} of each task, {alike}' if items else 'unknown, and left aside'}.") + "\n")
    columns = [*(items * times for times in TIMES), EVER] if items else [None]
    heads = [f"{count:,} items" if count != EVER else "seeds alone" for count in columns] if items else ["seeds alone"]
    lines = [
        ["items alone" if seeds == EVER else str(seeds), *(points(planned.smallest(seeds, count)) for count in columns)]
        for seeds in [*sorted({*SEEDS, options.seeds}), *([EVER] if items else [])]
    ]
    print(table(("seeds", *heads), lines, "lr"))
    print("\n" + wrapped(f"The smallest true difference, in points, that {100 * POWER:.0f} % of such studies show."))
    if options.difference is not None:
        ways = planned.takes(size_of(options.difference), options.seeds, items)
        print(wrapped(f"{options.difference} takes {', or '.join(ways)}."))
    return 0
