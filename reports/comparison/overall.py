"""Every arm over all tasks: one value, one change and one verdict a metric.

A mean over tasks is taken for every replicate, or for every round of launches, before anything is compared, so that a change
keeps its pairs and its clusters. Times, rates and memories are averaged as logarithms. Only tasks that both arms have enter
a change. The arms are one family of tests in each metric.
"""

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness import metrics, verdict_rules
from harness.metrics import Compared, Metric
from harness.paired import Difference, Replicate, Spread, geometric_mean, of_differences, spread
from reports.comparison import launches, sessions, statistics
from reports.comparison.compare import Comparison, Row, Section
from reports.comparison.heads import judged_alike
from reports.comparison.remembered import remembered
from reports.comparison.results import HEADLINE
from reports.comparison.selection import selected
from reports.comparison.statistics import Change, Verdict, change, corrected, counted_change, with_floor


@dataclass(frozen=True)
class Overall:
    """An arm is named by its label; metrics by their declared names."""

    comparison: Comparison
    sections: tuple[Section, ...]

    @functools.cached_property
    def labels(self) -> list[str]:
        """Arms with a run in any of the sections, the baseline first."""
        here = {row.label for section in self.sections for row in section.rows}
        return [label for label in self.comparison.labels if label in here]

    @remembered
    def having(self, label: str, name: str) -> list[Section]:
        """Sections in which the arm has a value of the metric."""
        return [one for one in self.sections if (row := one.row_of(label)) and row.values(name)]

    def shared(self, label: str, name: str) -> list[Section]:
        """Sections in which both the arm and the baseline have one: a change is over these."""
        ours = self.having(self.comparison.baseline, name)
        return [section for section in self.having(label, name) if section in ours]

    @remembered
    def spread(self, label: str, name: str) -> Spread | None:
        """Of the mean over the tasks that the arm has, over replicates or rounds; None without any.

        Where no replicate has all tasks, the mean over tasks alone: its `sd` is None.
        """
        rows = [section.row_of(label) for section in self.having(label, name)]
        if not rows:
            return None
        metric = metrics.get(name)
        logs = metric.by_ratio and all(value > 0 for row in rows for value in row.values(name).values())
        means = [row.mean(name) for row in rows]
        middle = geometric_mean(means) if logs else math.fsum(means) / len(means)
        values = _rounds(self.comparison, rows, name) or list(_by_replicate([row.values(name) for row in rows], logs).values())
        scatter = spread(values or [middle])
        return replace(scatter, mean=middle)

    def change(self, label: str, name: str) -> Change | None:
        """Against the baseline, over shared tasks; None for the baseline and where nothing can be paired."""
        return self._changes(name).get(label)

    def worst(self, label: str) -> tuple[Section, Change] | None:
        """The task where the arm's score changed to the worst, and that change; None without a change."""
        changes = [(section, section.change(section.row_of(label), HEADLINE)) for section in self.shared(label, HEADLINE)]
        known = [(section, one) for section, one in changes if one]
        return min(known, key=lambda pair: pair[1].absolute, default=None)

    @remembered
    def _changes(self, name: str) -> dict[str, Change | None]:
        """Label -> change."""
        return corrected({other: self._change(other, name) for other in self.labels if other != self.comparison.baseline})

    def _change(self, label: str, name: str) -> Change | None:
        metric, shared = metrics.get(name), self.shared(label, name)
        if not shared:
            return None
        before, after = ([section.row_of(one) for section in shared] for one in (self.comparison.baseline, label))
        if metric.deterministic:
            return _counted(metric, before, after)
        if metric.compared is Compared.BY_LAUNCH:
            return self._by_launch(shared, label, metric)
        logs = metric.by_ratio and all(min(row.values(name).values()) > 0 for row in (*before, *after))
        earlier, later = (_by_replicate([row.values(name) for row in rows], logs) for rows in (before, after))
        return self._by_seed(shared, label, metric, earlier, later)

    def _by_seed(self, shared: list[Section], label: str, metric: Metric, before: dict, after: dict) -> Change | None:
        sides = [section.against(section.row_of(label)) for section in shared]
        if metric.unit == "bytes":
            floor = max((one for side in sides if (one := sessions.memory_floor(side, self._sessions))), default=None)
            found = change(metric, before, after, floor, floor or 0.0)
        elif metric.unit == "score":
            rows = [(section, section.row_of(label)) for section in shared]
            items = [item for section, row in rows if (item := section.item(row))]
            item = math.fsum(items) / len(items) if items else None  # one item in every task
            errors = [section.items_error(row, metric) for section, row in rows]
            tells = verdict_rules.tells_of_tasks([section.tells(row, metric.name) for section, row in rows])
            of_items = verdict_rules.over_tasks(errors)
            found = change(metric, before, after, item, item or 0.0, items=of_items, tells=tells)
        else:
            tells = verdict_rules.tells_of_tasks([section.tells(section.row_of(label), metric.name) for section in shared])
            found = change(metric, before, after, reached=shared[0].runs[0].has_budget_of_time, tells=tells)
            earlier, later = ([run for side in sides for run in getattr(side, name).values()] for name in ("before", "after"))
            found = judged_alike(found, metric.name, earlier, later)
        if found and metric.compared is Compared.ABOVE_FLOOR and found.verdict:
            floors = [sessions.gating_floor(side, self._sessions) for side in sides]
            found = with_floor(found, None if None in floors else max(floors))
        return replace(found, seconds=_seconds(shared, label)) if found else None

    def _by_launch(self, shared: list[Section], label: str, metric: Metric) -> Change | None:
        launch, by_session, bases, floors = launches.JUDGED[metric.name], {}, [], []
        for section in shared:
            before, after = sessions.side_by_side(self._sessions, section.against(section.row_of(label))) or (None, None)
            if before is None:
                continue
            with_reference = self._sessions.typical_reference(after.session, launch) is not None
            histories = (self._sessions.history(run) for run in (before, after))
            found = launches.differences(launch, *histories, with_reference)
            known = by_session.setdefault(after.session, [])
            if found and found not in known:  # tasks of one shape share their launches
                known.append(found)
                bases.append(geometric_mean(list(self._sessions.levels(before, launch).values())))
            floors.append(self._sessions.floor(after.session, section.place, launch))
        pooled = _over_sessions([one for one in by_session.values() if one])
        if pooled is None:
            return self._unpaired(label, metric)
        floor = None if None in floors else max(floors)
        return replace(statistics.of_evidence(launches.judged(metric, pooled, floor), geometric_mean(bases)), by_round=True)

    def _unpaired(self, label: str, metric: Metric) -> Change:
        earlier, later = (self.spread(one, metric.name) for one in (self.comparison.baseline, label))
        return Change(min(earlier.n, later.n), earlier.mean, later.mean - earlier.mean, None, Verdict.OPEN)

    @property
    def _sessions(self) -> sessions.Sessions:
        return self.comparison.sessions


@remembered
def of_tasks(comparison: Comparison) -> Overall:
    """Over all tasks; one for each comparison."""
    return Overall(comparison, tuple(one for one in selected(comparison) if not one.is_pretraining))


@remembered
def of_pretrainings(comparison: Comparison) -> Overall:
    """Over all pretrainings; where the baseline of the study was not pretrained, nothing has a change."""
    return Overall(comparison, tuple(one for one in selected(comparison) if one.is_pretraining))


def _by_replicate(of_tasks: list[Mapping[Replicate, float]], logs: bool) -> dict[Replicate, float]:
    """Mean over tasks, geometric if `logs`, of every replicate that has all of them."""
    whole = [one for one in of_tasks[0] if all(one in values for values in of_tasks)]
    found = {one: [values[one] for values in of_tasks] for one in whole}
    return {one: geometric_mean(each) if logs else math.fsum(each) / len(each) for one, each in found.items()}


def _rounds(comparison: Comparison, rows: list[Row], name: str) -> list[float]:
    """Mean over tasks of every round, where the metric was timed by launches of one session; empty otherwise."""
    launch = launches.JUDGED.get(name)
    runs = [run for row in rows for run in row.runs.values()]
    if launch is None or len({run.session for run in runs}) != 1 or not all(run.launches for run in runs):
        return []
    each = [comparison.sessions.levels(run, launch) for run in runs]
    common = set.intersection(*map(set, each))
    return [geometric_mean([levels[step] for levels in each]) for step in sorted(common)]


def _counted(metric: Metric, before: list[Row], after: list[Row]) -> Change:
    """Of the means over tasks, whose sizes may differ in the head and the vocabulary."""
    earlier, later = (math.fsum(row.mean(metric.name) for row in rows) / len(rows) for rows in (before, after))
    count = min(len(row.values(metric.name)) for row in (*before, *after))
    return counted_change(metric, count, earlier, later)


def _over_sessions(by_session: Iterable[list[dict[int, float]]]) -> Difference | None:
    """Log ratios by round, averaged over the launches of each session; sessions are independent of one another."""
    parts = []
    for each in by_session:
        common = set.intersection(*map(set, each))
        if common:
            parts.append(of_differences([math.fsum(one[step] for one in each) / len(each) for step in sorted(common)]))
    if len(parts) < 2:
        return parts[0] if parts else None
    mean, rounds = math.fsum(part.mean for part in parts) / len(parts), sum(part.n for part in parts)
    if any(not part.error for part in parts):
        return Difference(rounds, mean, None)
    squares = [(part.error / len(parts)) ** 2 for part in parts]
    freedom = sum(squares) ** 2 / sum(square**2 / part.freedom for square, part in zip(squares, parts, strict=True))
    return Difference(rounds, mean, math.sqrt(sum(squares)), None, freedom=freedom, independent=rounds)


def _seconds(shared: list[Section], label: str) -> float | None:
    """How long one more seed of both arms takes on all tasks; None where that is not known of every task."""
    each = [section.seconds(section.row_of(label)) for section in shared]
    return None if None in each else math.fsum(each)
