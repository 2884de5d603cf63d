"""The finished runs of one arm in one section."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from harness import metrics
from harness.paired import Replicate, Spread, by_pretraining, geometric_mean, spread
from harness.plateau import LOSS, SHARE
from reports.comparison import sessions
from reports.comparison.heads import have_probes
from reports.comparison.remembered import remembered
from reports.comparison.sessions import Sessions, values_of
from reports.reading.store import Run

HEADLINE = "eval/score"


CONSTANTS = {HEADLINE: "eval/majority_score", LOSS: "pretrain/unigram_entropy"}
"""Metric -> that of the constant answer."""


@dataclass(frozen=True)
class Row:
    """The finished runs of one arm in one section, by replicate."""

    label: str
    runs: dict[Replicate, Run]
    superseded: tuple[Run, ...] = ()  # older runs of the same replicates
    sessions: Sessions = field(default_factory=Sessions)  # of the whole study

    @remembered
    def values(self, metric: str) -> Mapping[Replicate, float]:
        """Value of every replicate that has one."""
        return values_of(self.runs, metric)

    @remembered
    def spread(self, metric: str) -> Spread | None:
        """Over all replicates, or over launches for what these measured; None where no run has the metric.

        The mean of what is compared by ratios is geometric: a change is the ratio of two means.
        """
        values = list(self.values(metric).values())
        if not values:
            return None
        timed = sessions.timed_spread(self.sessions, self.runs.values(), metric)
        if timed:
            return timed
        means = by_pretraining(self.values(metric))  # of each pretraining, as a change weighs them
        ratio = metrics.get(metric).by_ratio and min(values) > 0
        return replace(spread(values), mean=geometric_mean(means) if ratio else fmean(means))

    def constants(self, metric: str) -> list[float]:
        """What the constant answer reaches, of every replicate that says it; empty where the metric has none."""
        return list(self.values(CONSTANTS[metric]).values()) if metric in CONSTANTS else []

    @property
    def is_on_plateau(self) -> bool:
        """Whether its masked loss is that of word frequencies; a probe's says nothing of what the encoder has learned."""
        losses, entropies = by_pretraining(self.values(LOSS)), self.constants(LOSS)
        is_known = bool(losses and entropies) and not have_probes(self.runs.values())
        return is_known and fmean(losses) > SHARE * fmean(entropies)

    def mean(self, metric: str) -> float | None:
        """Over all replicates; None where no run has the metric."""
        found = self.spread(metric)
        return found.mean if found else None
