"""Trade-offs: which arms are Pareto-optimal in score and cost, with a probability by a paired bootstrap.

Means are resampled with the same draws for all arms, as seeds and rounds are paired; their deviations are widened by
sqrt(n / (n - 1)), by which a bootstrap of n values is too narrow. It stays rough for few values: see FEWEST.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from harness import metrics
from harness.comparison.paired import Numbers, by_pretraining, grouped
from harness.comparison.section import HEADLINE, Row, Section
from harness.document import DASH, Block, Cell, Table
from harness.document import Section as Part
from harness.errors import present
from harness.metrics import judged_by
from harness.plugins.shared.estimates import of_launches
from harness.plugins.shared.seeds import in_common
from harness.reports.chapters import Added, overview, tasks
from harness.reports.reading.study import Study
from harness.reports.writing import findings, formats, tables
from harness.reports.writing.formats import Chapter, escape, listed

DRAWS = 2000
TINY = 1e-12
FEWEST = 5
"""Replicates below which a probability is marked as rough."""


@dataclass(frozen=True)
class Rank:
    """Whether an arm is Pareto-optimal, or which arm dominates it: of several the one with the best score.

    `score` is the mean over the replicates common to all arms. `probability` of being Pareto-optimal is None where the scores
    of an arm have no spread.
    """

    score: float
    dominated_by: str | None
    probability: float | None


@dataclass(frozen=True)
class Front:
    """The arms of sections that all of them ran, against one cost; `replicates` is the smallest number of paired ones."""

    cost: str
    places: dict[str, Rank]
    replicates: int


def front(sections: Sequence[Section], labels: Sequence[str], cost: str) -> Front | None:
    """The Pareto front of the means over the sections, of tasks, among arms with such a cost; None for fewer than two."""
    rows = [[row for label in labels if (row := section.row_of(label))] for section in sections]
    costs = [[_costs(row, cost) for row in of_section] for of_section in rows]
    known = [index for index in range(len(labels)) if all(of_section[index] for of_section in costs)]
    if len(known) < 2:
        return None
    scores = [in_common([row.values(HEADLINE) for row in of_section]) for of_section in rows]
    replicates = min(len(values) for of_section in scores for values in of_section)
    score = _mean_draws(scores, "score")[known]  # (arms, 1 + DRAWS)
    spent = _mean_draws([[of_section[index] for index in known] for of_section in costs], cost)  # (arms, 1 + DRAWS)
    labels = [labels[index] for index in known]
    on_front = _on_front(score, spent)
    places = {}
    for index, label in enumerate(labels):
        better = np.where(_beats(score[:, 0], spent[:, 0], index), score[:, 0], -np.inf)  # score of the arms that dominate it
        by = None if on_front[index, 0] else labels[int(np.argmax(better))]
        places[label] = Rank(float(score[index, 0]), by, float(on_front[index, 1:].mean()) if replicates > 1 else None)
    return Front(cost, places, replicates)


def _costs(row: Row, cost: str) -> list[float]:
    """Logarithms, over rounds of launches for what these measure, else over seeds or pretrainings; counts once."""
    values = of_launches(row, cost) or by_pretraining(row.values(cost))
    if metrics.get(cost).deterministic:
        values = values[:1]
    return [math.log(value) for value in values if value > 0]


@functools.cache
def _weights(kind: str, n: int) -> np.ndarray:
    """(1 + DRAWS, n): equal ones, then those of the draws, the same for all that has so many values of a kind."""
    rng = np.random.default_rng([n, *kind.encode()])
    drawn = rng.multinomial(n, np.full(n, 1 / n), DRAWS) / n
    widened = 1 / n + math.sqrt(n / max(1, n - 1)) * (drawn - 1 / n)
    return np.vstack([np.full((1, n), 1 / n), widened])


def _mean_draws(values: list[list[list[float]]], kind: str) -> Numbers:
    """(arms, 1 + DRAWS) mean of the values and of resampled ones, over all sections, of values by section and arm."""
    draws = [[_weights(kind, len(of_arm)) @ np.asarray(of_arm) for of_arm in of_section] for of_section in values]
    return np.asarray(np.mean(draws, axis=0))


def _on_front(scores: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """(arms, draws): no other arm is at least as good and as cheap, and better in one of both. Arguments alike."""
    return np.array([~_beats(scores, costs, index).any(axis=0) for index in range(len(scores))])


def _beats(scores: np.ndarray, costs: np.ndarray, index: int) -> np.ndarray:
    """(arms, ...) whether each arm dominates this one; a difference of rounding is none."""
    better, cheaper = scores - scores[index], costs[index] - costs
    return np.asarray((better >= -TINY) & (cheaper >= -TINY) & ((better > TINY) | (cheaper > TINY)))


COSTS = (
    *("model/params_total", "model/flops_forward", "inference/latency_ms_p50", "inference/peak_memory_bytes"),
    *("inference/energy_j_per_token", "finetune/energy_j"),
)
INTRO = """\
An arm is *Pareto-optimal* if no other arm is at least as good and as cheap, and better in one of the two; else the best arm
that dominates it is named. Scores are means over tasks and over the seeds that all arms share, if any; costs, geometric means.
The percentage is the probability of being Pareto-optimal: the share of 2,000 bootstrap draws over seeds (pretraining seeds if
there are several) and rounds of launches, not over test items, paired across arms and widened by √(n / (n − 1)). The means are
point estimates: the difference to the arm that dominates may be inconclusive."""
FEW = """\
Bootstrap over only {count} seeds: of two equal arms, the costlier model got more than 95 % in 19 % of simulated studies with 2
seeds, 15 % with 3, 7 % with 5 and 6 % with 10, where 5 % would be correct."""
ALONE = "Fewer than two shared seeds: no uncertainty estimate, so not evidence."


def chapter(study: Study) -> Chapter:
    """Empty where no two arms have scores on the same tasks."""
    comparison, parts, flat = study.comparison, list[Block](), []
    groups = grouped(
        (tuple(row.label for row in section.rows if row.values(HEADLINE)), section) for section in comparison.selected_tasks
    )
    groups = {labels: sections for labels, sections in groups.items() if len(labels) > 1}
    for labels, sections in groups.items():
        costs = [judged_by(cost, functools.partial(front, sections, labels)) for cost in COSTS]
        noisy = [cost for cost in costs if any(_is_too_noisy(section, cost) for section in sections)]
        fronts = [arms for cost in costs if cost not in noisy and (arms := front(sections, labels, cost))]
        names = ", ".join(escape(section.name) for section in sections)
        spent = ({section.by_label[label].mean(arms.cost) for label in labels} for arms in fronts for section in sections)
        if fronts and all(len(values) == 1 for values in spent):
            equal = listed(metrics.get(arms.cost).title for arms in fronts)
            flat.append(f"No trade-off on {names}: all arms have equal {equal}.")
        elif fronts:
            own = {label: fmean(present(section.by_label[label].mean(HEADLINE)) for section in sections) for label in labels}
            scores = own | {label: place.score for arms in fronts for label, place in arms.places.items()}
            of_arms = table(scores, fronts, sections)
            blocks: list[Block] = [of_arms, *overview.noted(of_arms)]
            replicates = min(arms.replicates for arms in fronts)
            blocks += [ALONE] if replicates < 2 else [FEW.format(count=replicates)] if replicates < FEWEST else []
            blocks += (
                [f"Left out, too noisy for a verdict: {listed(metrics.get(cost).title for cost in noisy)}."] if noisy else []
            )
            missing = listed(label for label in comparison.labels if label not in labels)
            blocks += [f"Left out, without a score on these tasks: {missing}."] if missing else []
            parts.append(Part(f"Score against cost: {names}" if len(groups) > 1 else "", blocks))
    blocks = [*([INTRO] * bool(parts)), *parts, *flat]
    return Chapter([Part("Trade-offs", blocks)] if blocks else [])


def marks(sections: Sequence[Section], label: str) -> str:
    """Signs at the score of an arm: a training warning, no task above the majority baseline, selected on the reported rows."""
    rows = [(section, section.by_label[label]) for section in sections]
    runs = [run for _, row in rows for run in row.runs]
    is_below = all(findings.is_below_constant(*one) for one in rows)
    return " †" * any(map(findings.is_warned, runs)) + " ‡" * is_below + tables.selection_mark(runs)


def _is_too_noisy(section: Section, cost: str) -> bool:
    """Whether the noise floor of this cost leaves an arm without a verdict."""
    changes = [section.change(row, cost) for row in section.rows if row is not section.before]
    return any(change.evidence.is_too_noisy for change in changes if change and change.evidence)


def table(scores: dict[str, float], fronts: list[Front], sections: Sequence[Section]) -> Table:
    """One row per arm, one column per cost."""
    rows = []
    for label, score in scores.items():
        cells = [Cell(formats.value(score, "score") + marks(sections, label), score, "score")]
        for place in (front.places.get(label) for front in fronts):
            if place is None:
                cells.append(Cell(DASH))
                continue
            chance = "" if place.probability is None else formats.chance(place.probability)
            best = "**Pareto-optimal**" if chance else "not dominated (not evidence)"
            where = best if place.dominated_by is None else f"dominated by {escape(place.dominated_by)}"
            cells.append(Cell(where, change=chance))
        rows.append([escape(label), *cells])
    return formats.table(["arm", "score", *(metrics.get(front.cost).title for front in fronts)], rows)


CHAPTER = Added(chapter, before=tasks.chapter, order=4)
