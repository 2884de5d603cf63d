"""`python -m reports pick`: which arms meet limits, which do not and by how much, and which the data leave open."""

import enum
import math
from dataclasses import dataclass, replace
from statistics import fmean

from harness import metrics
from harness.comparison.compare import FIRST, Comparison
from harness.comparison.labels import seeds_text
from harness.comparison.section import RESULTS, Row, Section, headline
from harness.document import DASH
from harness.errors import InputError, present
from harness.metrics import judged_by
from harness.plugins.decide.options import Pick
from harness.plugins.shared.estimates import NO_BETTER, Estimate, estimate
from harness.plugins.shared.limits import metric_and_number
from harness.reports.read import read
from harness.reports.writing import formats
from harness.terminal import table, wrapped

USUAL = ("eval/score", "inference/latency_ms_p50", "inference/peak_memory_bytes", "model/params_total")
"""Metrics to name where a name has no known group."""


class Satisfies(enum.IntEnum):
    """Whether a limit is met, the worst first; UNSURE where an interval crosses it or supports no verdict."""

    NO = 0
    UNSURE = 1
    YES = 2


Place = tuple[Section, Row]


@dataclass(frozen=True)
class Bound:
    """A limit on one metric, in base units."""

    metric: str
    value: float
    at_least: bool = False

    def fit(self, estimate: Estimate | None) -> Satisfies:
        """By the whole interval, where it supports a verdict; an arm that beats no majority baseline can only fail."""
        if estimate is None or estimate.interval is None:
            return Satisfies.UNSURE
        inside = [end >= self.value if self.at_least else end <= self.value for end in estimate.interval]
        fit = Satisfies.YES if all(inside) else Satisfies.UNSURE if any(inside) else Satisfies.NO
        return fit if not estimate.doubt or (fit is Satisfies.NO and estimate.doubt == NO_BETTER) else Satisfies.UNSURE

    def margin(self, estimate: Estimate) -> float:
        """Distance of the mean from the limit, in base units: below 0 where it violates it."""
        return estimate.mean - self.value if self.at_least else self.value - estimate.mean


@dataclass(frozen=True)
class Checked:
    """One bound of one arm, in its worst section."""

    bound: Bound
    section: Section
    found: Estimate | None

    @property
    def fit(self) -> Satisfies:
        return self.bound.fit(self.found)


@dataclass(frozen=True)
class Candidate:
    """An arm with all bounds; `score` is the mean of the headline scores of its `tasks` sections, None without any."""

    arm: str
    score: float | None
    tasks: int
    checked: tuple[Checked, ...]

    @property
    def fit(self) -> Satisfies:
        return min(checked.fit for checked in self.checked)


def candidates(comparison: Comparison, bounds: list[Bound]) -> list[Candidate]:
    """Every arm of the tasks, or of the pretrainings where there is nothing else; the best score first.

    A bound holds for an arm where it holds in each of its sections.
    """
    sections, every = comparison.tasks or comparison.sections, []
    for label in comparison.labels:
        if own := [(section, row) for section in sections if (row := section.row_of(label))]:
            scores = [row.mean(headline(section)) for section, row in _measured(comparison, own)]
            checked = tuple(_worst(comparison, own, bound) for bound in bounds)
            every.append(Candidate(label, fmean(map(present, scores)) if scores else None, len(scores), checked))
    return sorted(every, key=lambda candidate: math.inf if candidate.score is None else -candidate.score)


def _measured(comparison: Comparison, rows: list[Place], metric: str | None = None) -> list[Place]:
    """Where an arm has a metric, or its headline score: in each task's selected section, else under other conditions.

    One study may train on a GPU and another time on a CPU.
    """
    having = [(section, row) for section, row in rows if row.values(metric or headline(section))]
    chosen = {section.task for section, _ in having if section in comparison.selected}
    return [place for place in having if place[0] in comparison.selected or place[0].task not in chosen]


def _worst(comparison: Comparison, rows: list[Place], bound: Bound) -> Checked:
    """The bound in its worst section. Scores of an arm that diverged with some seeds support no verdict."""
    every = []
    for section, row in _measured(comparison, rows, bound.metric) or rows[:1]:
        found, lost = estimate(section, row, bound.metric), comparison.diverged(row)
        if found and lost and metrics.get(bound.metric).unit == "score":
            found = replace(found, doubt=f"diverged with {seeds_text(lost)}")
        every.append(Checked(bound, section, found))
    return min(every, key=lambda one: (one.fit, one.found is not None and bound.margin(one.found)))


MANY = 10
"""Times the limit from which on a violation is stated as a factor."""
SHORT = {
    "max_latency_ms": ("inference/latency_ms_p50", 1.0),
    "max_params": ("model/params_total", 1.0),
    "max_memory_mb": ("inference/peak_memory_bytes", 1e6),
}
"""Key -> metric, and its base units in one of the key's."""
HEADINGS = {
    Satisfies.YES: "Fits: the whole 95 % CI, including sampling error or timing noise, is within each limit",
    Satisfies.UNSURE: "Unsure: a CI crosses a limit, or the data support no verdict",
    Satisfies.NO: "Does not fit",
}


def main(options: Pick) -> int:
    """0 where an arm fits, 1 where none does; InputError for a wrong input."""
    bounds = bounds_of(options)
    runs = read(options.address, options.study, options.where)
    with runs.reader.guarded():
        comparison = runs.compared([FIRST], options.along)
        if options.max_latency_ms is not None:
            bounds[0] = replace(bounds[0], metric=judged_by(bounds[0].metric, comparison.has))
        every = candidates(comparison, bounds)
        shown = text(runs.study, every)
    print(shown)
    return 0 if any(candidate.fit is Satisfies.YES for candidate in every) else 1


def bounds_of(options: Pick) -> list[Bound]:
    """All limits; InputError without any, or for one that cannot be read."""
    of_keys = [(getattr(options, key), metric, factor) for key, (metric, factor) in SHORT.items()]
    bounds = [Bound(metric, factor * value) for value, metric, factor in of_keys if value is not None]
    for key, is_least in (("at_most", False), ("at_least", True)):
        bounds += [Bound(*metric_and_number(key, text, RESULTS, USUAL), is_least) for text in getattr(options, key)]
    if not bounds:
        raise InputError(f"pick needs a limit: expected at least one of {'=, '.join((*SHORT, 'at_most', 'at_least'))}=")
    return bounds


def text(study: str, every: list[Candidate]) -> str:
    """A table for each of the three kinds."""
    most = max((candidate.tasks for candidate in every), default=0)
    parts = [f"{study}: limits apply to each arm's worst task; sorted by mean score"]
    for fit, heading in HEADINGS.items():
        alike = [candidate for candidate in every if candidate.fit is fit]
        if alike:
            parts.append(f"{heading}\n\n{_table(alike, most)}")
            parts += ["\n".join(_reasons(candidate) for candidate in alike)] if fit is not Satisfies.YES else []
        elif fit is Satisfies.YES:
            parts.append("No arm fits.")
    return "\n\n".join(parts)


def _table(candidates: list[Candidate], most: int) -> str:
    head, rows = ["arm", "score"], []
    for bound in (checked.bound for checked in candidates[0].checked):
        declared = metrics.get(bound.metric)
        head.append(f"{declared.title} {'≥' if bound.at_least else '≤'} {formats.value(bound.value, declared.unit)}")
    for candidate in candidates:
        score = DASH if candidate.score is None else formats.value(candidate.score, "score")
        score += f" ({candidate.tasks} of {most} tasks)" if 0 < candidate.tasks < most else ""
        rows.append((candidate.arm, score, *map(_value, candidate.checked)))
    return table(tuple(head), rows, "l" + "r" * (len(head) - 1))


def _value(checked: Checked) -> str:
    """`12.3 [11.9, 12.8] ms`; only the value where it is exact or has no interval, a dash without one."""
    estimate, unit = checked.found, metrics.get(checked.bound.metric).unit
    if estimate is None:
        return DASH
    if estimate.interval is None or estimate.interval[0] == estimate.interval[1]:
        return formats.value(estimate.mean, unit)
    factor, name, digits = formats.scaling(unit, estimate.mean)
    ends = ", ".join(formats.plain(end / factor, digits) for end in estimate.interval)
    return f"{formats.plain(estimate.mean / factor, digits)} [{ends}] {name}".rstrip()


def _reasons(candidate: Candidate) -> str:
    """Why the arm does not fit, or may not."""
    reasons = [
        f"{metrics.get(checked.bound.metric).title}: {_reason(checked)} ({checked.section.task})"
        for checked in candidate.checked
        if checked.fit is candidate.fit
    ]
    return wrapped(f"{candidate.arm}: {'; '.join(reasons)}", 2, "-")


def _reason(checked: Checked) -> str:
    bound, estimate = checked.bound, checked.found
    if estimate is None:
        return "not measured"
    if estimate.doubt:
        return estimate.doubt
    if estimate.interval is None:
        return "single value, no interval"
    if checked.fit is Satisfies.UNSURE:
        return "CI crosses the limit"
    unit, over = metrics.get(bound.metric).unit, -bound.margin(estimate)
    in_units = unit in formats.SHARES or not bound.value  # nothing is a share of 0
    if not in_units and over >= MANY * abs(bound.value):
        return f"{estimate.mean / bound.value:,.0f} times the limit"
    size = formats.difference(over, unit) if in_units else formats.percent(100 * over / abs(bound.value))
    return f"{size.lstrip('+')} {'below' if bound.at_least else 'above'} the limit"
