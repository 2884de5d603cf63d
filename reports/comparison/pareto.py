"""Pareto fronts of score against a cost, and how sure they are: a paired bootstrap over replicates.

Means are resampled with the same draws for all arms, as seeds and rounds are paired; their deviations are widened by
sqrt(n / (n - 1)), by which a bootstrap of n values is too narrow. Of few values it stays rough: see FEWEST.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness import metrics
from harness.metrics import has_one_vocabulary
from harness.paired import by_pretraining
from reports.comparison.estimates import of_launches
from reports.comparison.section import Row, Section, headline

DRAWS = 2000
TINY = 1e-12
FEWEST = 5
"""Replicates below which a probability is marked as rough."""


@dataclass(frozen=True)
class Place:
    """Where an arm is: on the front, or behind the arm that is cheaper and better by most score.

    `probability` of being on the front is None where the scores of an arm have no spread.
    """

    behind: str | None
    probability: float | None


@dataclass(frozen=True)
class Front:
    """The arms of sections that all of them ran, against one cost; `replicates` is the smallest number of paired ones."""

    cost: str
    places: dict[str, Place]
    replicates: int


def front(sections: Sequence[Section], labels: Sequence[str], cost: str) -> Front | None:
    """The front of the means over the sections; None where an arm has no such cost, or for tokens of several vocabularies."""
    if any(one.is_pretraining and not has_one_vocabulary(run.params for run in one.runs) for one in sections):
        return None
    rows = [[section.row_of(label) for label in labels] for section in sections]
    costs = [[_costs(row, cost) for row in of_section] for of_section in rows]
    if not all(values for of_section in costs for values in of_section):
        return None
    scores = [_scores(section, of_section) for section, of_section in zip(sections, rows, strict=True)]
    replicates = min(len(values) for of_section in scores for values in of_section)
    score = _mean_draws(scores, "score")  # (arms, 1 + DRAWS)
    spent = _mean_draws(costs, cost)  # (arms, 1 + DRAWS)
    on_front = _on_front(score, spent)
    known = replicates > 1
    places = {
        label: Place(
            None if on_front[index, 0] else labels[_behind(index, score[:, 0], spent[:, 0])],
            float(on_front[index, 1:].mean()) if known else None,
        )
        for index, label in enumerate(labels)
    }
    return Front(cost, places, replicates)


def _scores(section: Section, rows: Sequence[Row]) -> list[list[float]]:
    """Of each row, of what all rows have: pretrainings where there are several, else seeds; its mean where they share none."""
    values = [row.values(headline(section)) for row in rows]
    shared = set.intersection(*(set(one) for one in values))
    if not shared:
        return [[math.fsum(one.values()) / len(one)] for one in values]
    return [by_pretraining({replicate: one[replicate] for replicate in sorted(shared)}) for one in values]


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


def _mean_draws(values: list[list[list[float]]], kind: str) -> np.ndarray:
    """(arms, 1 + DRAWS) over all sections, of values by section and arm."""
    return np.mean([[_draws(one, kind) for one in of_section] for of_section in values], axis=0)


def _draws(values: Sequence[float], kind: str) -> np.ndarray:
    """(1 + DRAWS,) mean of the values, then means of resampled ones."""
    return _weights(kind, len(values)) @ np.asarray(values)


def _on_front(scores: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """(arms, draws): no other arm is at least as good and as cheap, and better in one of both. Arguments alike.

    A difference of rounding is none.
    """
    order = np.argsort(costs, axis=0)
    score, cost = (np.take_along_axis(values, order, axis=0) for values in (scores, costs))
    dearer = np.diff(cost, axis=0) > TINY  # than the one before; the others are as cheap
    edge = np.ones((1, scores.shape[1]), dtype=bool)
    best = np.maximum.accumulate(score, axis=0)  # up to each
    before = np.vstack([np.full(edge.shape, -np.inf), best[:-1]])
    cheaper = np.maximum.accumulate(np.where(np.vstack([edge, dearer]), before, -np.inf), axis=0)
    last = np.where(np.vstack([dearer, edge]), best, np.inf)  # of those as cheap
    no_dearer = np.minimum.accumulate(last[::-1], axis=0)[::-1]
    found = np.empty(scores.shape, dtype=bool)
    np.put_along_axis(found, order, (no_dearer <= score + TINY) & (cheaper < score - TINY), axis=0)
    return found


def _beats(scores: np.ndarray, costs: np.ndarray, index: int) -> np.ndarray:
    """(arms,) whether each arm dominates this one; a difference of rounding is none."""
    better, cheaper = scores - scores[index], costs[index] - costs
    return (better >= -TINY) & (cheaper >= -TINY) & ((better > TINY) | (cheaper > TINY))


def _behind(index: int, scores: np.ndarray, costs: np.ndarray) -> int:
    """The arm that dominates this one with the highest score."""
    return int(np.argmax(np.where(_beats(scores, costs, index), scores, -np.inf)))
