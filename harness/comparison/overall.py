"""Every arm over all tasks: one value, one change and one verdict a metric.

A mean over tasks is taken for every replicate, or for every round of launches, before anything is compared, so that a change
keeps its pairs and its clusters. Times, rates and memories are averaged as logarithms. Only tasks that both arms have enter
a change. The arms are one family of tests in each metric.
"""

import functools
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean

from harness import metrics
from harness.comparison import cached_method, launches
from harness.comparison.compare import Comparison
from harness.comparison.paired import Spread, spread
from harness.comparison.section import HEADLINE, Row, Section, change_over, over_tasks
from harness.comparison.verdicts import Change, Verdict, corrected, difference_alone


@dataclass(frozen=True)
class Overall:
    """The arms of a comparison over some of its sections, by label and by declared name of a metric."""

    comparison: Comparison
    sections: tuple[Section, ...]

    @functools.cached_property
    def labels(self) -> list[str]:
        """Arms with a run in any of the sections, the baseline first."""
        here = {row.label for section in self.sections for row in section.rows}
        return [label for label in self.comparison.labels if label in here]

    @cached_method
    def having(self, label: str, name: str) -> list[Section]:
        """Sections in which the arm has a value of the metric."""
        return [section for section in self.sections if (row := section.row_of(label)) and row.values(name)]

    def of_mean(self, name: str) -> list[Section]:
        """Sections that means over tasks are of, so that they compare: of a score those of the baseline, if it has any."""
        ours = self.having(self.comparison.baseline, name) if name == HEADLINE else []
        return ours or [*self.sections]

    def rows(self, label: str, name: str) -> list[Row]:
        """The arm's rows in those of them in which it has a value."""
        return [section.by_label[label] for section in self.having(label, name) if section in self.of_mean(name)]

    def shared(self, label: str, name: str) -> list[Section]:
        """Sections in which both the arm and the baseline have a value, over which a change is computed."""
        ours = self.having(self.comparison.baseline, name)
        return [section for section in self.having(label, name) if section in ours]

    @cached_method
    def spread(self, label: str, name: str) -> Spread | None:
        """The mean over the tasks of `of_mean` that the arm has, and its spread over replicates or rounds; None without any.

        Where no replicate has all tasks, or several sessions timed them, the mean over tasks alone: its `sd` is None.
        """
        rows = self.rows(label, name)
        if not rows:
            return None
        logs = metrics.get(name).by_ratio and all(value > 0 for row in rows for value in row.values(name).values())
        means = [mean for row in rows if (mean := row.mean(name)) is not None]
        middle = geometric_mean(means) if logs else fmean(means)
        values = self.by_round(label, name)
        if not values and not (name in launches.SHARED and any(run.launches for row in rows for run in row.runs)):
            values = list(over_tasks([row.values(name) for row in rows], logs).values())  # seeds share what launches measure
        return replace(spread(values or [middle]), mean=middle)

    def by_round(self, label: str, name: str) -> list[float]:
        """The mean over the tasks in each round of the one session that timed them; empty without such."""
        launch, runs = launches.JUDGED.get(name), [run for row in self.rows(label, name) for run in row.runs]
        if not launch or len({run.session for run in runs}) != 1 or not all(run.launches for run in runs):
            return []
        each = [self.comparison.sessions.levels(run, launch) for run in runs]
        return [geometric_mean([levels[step] for levels in each]) for step in sorted(set.intersection(*map(set, each)))]

    def change(self, label: str, name: str) -> Change | None:
        """The change from the baseline over shared tasks; None for the baseline itself, or if nothing can be paired."""
        return self._changes(name).get(label)

    def of_scores(self, label: str) -> list[tuple[Section, Change]]:
        """The tasks where the arm's score has a change, and that change."""
        shared = self.shared(label, HEADLINE)
        return [(section, change) for section in shared if (change := section.change(section.by_label[label], HEADLINE))]

    @cached_method
    def _changes(self, name: str) -> dict[str, Change | None]:
        """Label -> change."""
        return corrected({other: self._change(other, name) for other in self.labels if other != self.comparison.baseline})

    def _change(self, label: str, name: str) -> Change | None:
        pairings = [pairing for section in self.shared(label, name) if (pairing := section.against(section.by_label[label]))]
        if not pairings:
            return None
        change = change_over(pairings, name)
        before, after = self.spread(self.comparison.baseline, name), self.spread(label, name)
        if change is None and name in launches.JUDGED and before and after:
            return difference_alone(before, after, Verdict.OPEN)
        return change


@cached_method
def of_tasks(comparison: Comparison) -> Overall:
    """All arms over all tasks."""
    return Overall(comparison, tuple(comparison.selected_tasks))


@cached_method
def of_pretrainings(comparison: Comparison) -> Overall:
    """All arms over all pretrainings; without a change if the baseline of the study was not pretrained."""
    return Overall(comparison, tuple(section for section in comparison.selected if section.is_pretraining))
