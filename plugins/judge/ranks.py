"""All pairs of arms: which differ significantly, which ranks each may have, and the probability that each is the best.

The change of a pair is that of an arm against the baseline (`section.change_over`), with the same verdicts, and all pairs of a
table are one family (Holm). At most one table of equal arms in twenty holds a difference, and what follows from pairs holds
jointly: arms that share no letter differ significantly, and the intervals of ranks are simultaneous.
"""

import functools
import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from string import ascii_letters

import numpy as np

from harness import metrics
from harness.comparison import cached_method
from harness.comparison.compare import Comparison
from harness.comparison.paired import CONFIDENCE, ROUNDING, Design, Numbers
from harness.comparison.section import HEADLINE, Section, by_task, change_over, over_tasks
from harness.comparison.verdicts import Change, Verdict, corrected
from harness.document import DASH, Block, Cell
from harness.document import Section as Part
from harness.metrics import Direction
from harness.plugins.shared.seeds import in_common
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import escape, listed

DRAWS = 20_000
"""Draws of the means of all arms: the shares in which each is the best have errors of at most 0.4 %."""
MOST_LETTERS = 6
"""Letters of an arm that are read. Where scatters differ much an arm would have more: then groups are of neighbours."""
INTRO = f"""\
All pairs of arms are compared, paired as with the baseline; p values and intervals are Holm-corrected for the pairs of a
table. Arms that share no letter differ significantly; arms that share one do not, or, where an arm would have more than
{MOST_LETTERS} letters, are ranked between arms that do not. *rank* is the rank of the mean, with a 95 % interval, simultaneous
for all arms of a table: above are the arms shown to be better, below those shown to be worse. *best* is the probability that
no other arm is better, by Student's t with the variance of all arms and test-set sampling error; it is not corrected and not
a verdict."""
OF_TASKS = "Tasks are the unit of replication, as a sample of tasks: their variance includes that of seeds and items."
Pair = tuple[str, str]


@dataclass(frozen=True)
class Place:
    """An arm among the others.

    `rank` is that of its mean, 1 of the best; `ranks` the simultaneous 95 % interval: above are at least the arms shown to be
    better, below those shown to be worse (arXiv:1708.02729). `best`: the probability that no other arm is better; `interval`:
    the 95 % interval of the mean. Both leave out what all arms share, such as a seed effect, and are None where no
    pair has an interval.
    """

    label: str
    mean: float
    rank: int
    ranks: tuple[int, int]
    letters: str
    interval: tuple[float, float] | None = None
    best: float | None = None


@dataclass(frozen=True)
class Ranking:
    """Arms of one table, which have the metric in all of its sections; it has a direction, and is compared by seed."""

    sections: Sequence[Section]
    labels: Sequence[str]
    metric: str = HEADLINE
    design: Design = Design.SEEDS

    @functools.cached_property
    def changes(self) -> dict[Pair, Change]:
        """(before, after) -> the change, corrected for all of them; without pairs that share no replicate."""
        found = {}
        for one, other in combinations(self.labels, 2):
            pairings = [section.pairing(section.by_label[one], section.by_label[other]) for section in self.sections]
            found[one, other] = change_over(pairings, self.metric, self.design)
        return {pair: change for pair, change in corrected(found).items() if change}

    @functools.cached_property
    def better(self) -> set[Pair]:
        """(better, worse) of all pairs that differ significantly."""
        worse = {pair for pair, change in self.changes.items() if change.verdict is Verdict.WORSE}
        return worse | {pair[::-1] for pair, change in self.changes.items() if change.verdict is Verdict.BETTER}

    @functools.cached_property
    def places(self) -> list[Place]:
        """Places of all arms, the best mean first."""
        rows = [[section.by_label[label].values(self.metric) for section in self.sections] for label in self.labels]
        metric, count = metrics.get(self.metric), len(rows)
        logs = metric.by_ratio and all(value > 0 for row in rows for task in row for value in task.values())
        each = [(by_task if self.design is Design.TASKS else over_tasks)(row, logs) for row in rows]
        is_known = all(each) and any(change.interval for change in self.changes.values())
        each = each if all(each) else [by_task(row, logs) for row in rows]  # where no replicate has all tasks
        found = [[*of_arm.values()] for of_arm in each] if self.design is Design.RUNS else in_common(each)
        values = [np.log(of_arm) if logs else np.array(of_arm) for of_arm in found]
        means = np.array([of_arm.mean() for of_arm in values])
        squares = [change.evidence.found.items**2 for change in self.changes.values() if change.evidence]
        # a pair has twice the variance over the items that an arm has
        away = drawn(values, math.sqrt(fmean(squares) / 2) if squares else 0.0, self.design is not Design.RUNS)
        sign, least = -1 if metric.direction is Direction.LOWER else 1, ROUNDING * np.abs(means).max()
        is_known &= bool(np.ptp(means) <= least or (np.abs(away) > least).any())  # without scatter nothing says how sure it is
        true = sign * (means + away)
        tops = true >= true.max(axis=1, keepdims=True) - least
        best, half = np.mean(tops / tops.sum(axis=1, keepdims=True), axis=0), np.quantile(np.abs(away), CONFIDENCE, axis=0)
        middle, low, high = (np.exp(ends) if logs else ends for ends in (means, means - half, means + half))
        order = [int(place) for place in np.argsort(-sign * means, kind="stable")]
        sorted_labels = [self.labels[place] for place in order]
        letters = lettered(sorted_labels, groups_of(sorted_labels, sorted(self.better)) or [])
        if not 0 < max(map(len, letters.values())) <= MOST_LETTERS:
            letters = lettered(sorted_labels, runs_of(sorted_labels, self.better))
        return [
            Place(
                label := self.labels[place],
                float(middle[place]),
                1 + int(np.sum(sign * (means - means[place]) > least)),
                (1 + sum(label == worse for _, worse in self.better), count - sum(label == over for over, _ in self.better)),
                letters[label],
                (float(low[place]), float(high[place])) if is_known else None,
                float(best[place]) if is_known else None,
            )
            for place in order
        ]


@cached_method
def rankings(comparison: Comparison, metric: str = HEADLINE, design: Design | None = None) -> list[Ranking]:
    """Over the tasks that all arms have, where there are several, then of each task, where tasks are not what repeats.

    `design`: what repeats, in place of what the sections say.
    """
    having = [(section, [row.label for row in section.rows if row.values(metric)]) for section in comparison.selected]
    every = [label for label in comparison.labels if any(label in labels for _, labels in having)]
    common = [section for section, labels in having if len(labels) == len(every)]
    tables = [(common, every)] if len(common) > 1 else []
    tables += [([section], labels) for section, labels in having]
    rankings = [Ranking(some, labels, metric, design or some[0].design) for some, labels in tables if len(labels) > 1]
    return [one for one in rankings if len(one.sections) > 1 or one.design is not Design.TASKS]


def groups_of(labels: Sequence[str], apart: Iterable[Pair]) -> list[frozenset[str]] | None:
    """The largest groups in which no two labels are apart; None for more than there are labels.

    By insertion and absorption (Piepho, Journal of Computational and Graphical Statistics 13, 2004).
    """
    groups = [frozenset(labels)]
    for pair in apart:
        whole = [group for group in groups if group.issuperset(pair)]
        parts = [group - {label} for group in whole for label in pair]
        groups = [*dict.fromkeys([group for group in groups if group not in whole] + parts)]
        groups = [group for group in groups if not any(group < other for other in groups)]
        if len(groups) > len(labels):
            return None
    return groups


def runs_of(labels: Sequence[str], apart: Container[Pair]) -> list[frozenset[str]]:
    """Groups of neighbours: who stands between two labels that are not apart, in whichever order, belongs to their group."""
    groups, end = [], 0
    for start, label in enumerate(labels):
        far = max(place for place, other in enumerate(labels, 1) if (label, other) not in apart)
        if far > end:
            groups.append(frozenset(labels[start:far]))
        end = max(end, far)
    return groups


def lettered(labels: Sequence[str], groups: Iterable[frozenset[str]]) -> dict[str, str]:
    """Label -> the letters of its groups, a for those with the first label; after z come A to Z, then a' and so on."""
    ordered = [*enumerate(sorted(groups, key=lambda group: [label not in group for label in labels]))]
    names = [ascii_letters[place % len(ascii_letters)] + "'" * (place // len(ascii_letters)) for place, _ in ordered]
    return {label: "".join(names[place] for place, group in ordered if label in group) for label in labels}


def drawn(values: Sequence[Numbers], item: float, paired: bool = True) -> Numbers:
    """(DRAWS, arms) deviations of true means from those of the replicates of each arm.

    Student's t of the variance of the residuals, pooled over all arms, and a normal distribution of the error over the items
    that a mean has, `item`. `paired`: residuals of arm + replicate, else of the arm alone. The draws are the same for the same
    numbers.
    """
    rng, counts = np.random.default_rng(0), np.array([len(of_arm) for of_arm in values])
    rest = [of_arm - of_arm.mean() for of_arm in values]
    rest = [of_arm - np.mean(rest, axis=0) for of_arm in rest] if paired else rest
    freedom = counts.sum() - len(values) - paired * (counts[0] - 1)
    variance = np.sum(np.concatenate(rest) ** 2) / rng.chisquare(max(1, freedom), (DRAWS, 1))
    of_seeds, of_items = rng.standard_normal((2, DRAWS, len(values)))
    return np.asarray(np.sqrt(variance / counts) * of_seeds + item * of_items)


# Text


def ranks_section(comparison: Comparison, random_tasks: bool) -> Part:
    """A table for all tasks and one for each; empty where no two arms have the same score or metric of another tool.

    `random_tasks`: tasks are the unit of replication, in one table.
    """
    found = rankings_of(comparison, random_tasks)
    parts: list[Block] = [OF_TASKS] if found and random_tasks else []
    for ranking in found:
        metric, count = metrics.get(ranking.metric), len(ranking.labels)
        rows = [
            [
                escape(place.label),
                formats.cell(place.mean, metric.unit),
                Cell(rank_text(place), place.rank),
                letters_text(place),
                DASH if place.best is None else Cell(formats.chance(place.best), place.best),
            ]
            for place in ranking.places
        ]
        apart = {pair: change for pair, change in ranking.changes.items() if {pair, pair[::-1]} & ranking.better}
        blocks: list[Block] = [formats.table(["arm", "mean", "rank", "letters", "best"], rows)]
        blocks.append(f"{len(apart)} of {count * (count - 1) // 2} pairs differ significantly.")
        if apart:
            lines = [[*map(escape, pair[::-1]), tables.difference(change, metric.unit)] for pair, change in apart.items()]
            blocks.append(Part("", [formats.table(["arm", "minus", "difference"], lines, left=2)], detail=True))
        if missing := [label for label in comparison.labels if label not in ranking.labels]:
            blocks.append(f"Left out, without a value: {listed(missing)}.")
        title = "" if ranking.metric == HEADLINE else f"{metric.title}: "
        parts.append(Part(escape(title + name_of(ranking)), blocks))
    return Part("All pairs and ranks", [*parts, INTRO] if parts else [])


def rankings_of(comparison: Comparison, random_tasks: bool) -> list[Ranking]:
    """Rankings by the headline score, and by what other tools have also measured."""
    measured = dict.fromkeys(name for run in comparison.runs for name in run.metrics)
    names = [name for name in measured if name == HEADLINE or name.startswith(metrics.OF_OTHERS)]
    design = Design.TASKS if random_tasks else None
    return [ranking for name in names for ranking in rankings(comparison, name, design)]


def rank_text(place: Place) -> str:
    """`2 [1, 3]`."""
    return f"{place.rank} [{place.ranks[0]}, {place.ranks[1]}]"


def letters_text(place: Place) -> str:
    """`a–e` where there are more than three in a row."""
    in_a_row = len(place.letters) > 3 and place.letters in ascii_letters
    return f"{place.letters[0]}–{place.letters[-1]}" if in_a_row else place.letters


def name_of(ranking: Ranking) -> str:
    """The task, or how many."""
    sections = ranking.sections
    return sections[0].name if len(sections) == 1 else f"mean of {len(sections)} tasks"
