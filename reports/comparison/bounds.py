"""Which arms satisfy limits on size, speed, memory and score: for certain, certainly not, or not known well enough."""

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness import metrics
from reports.comparison.compare import Comparison
from reports.comparison.estimates import NO_BETTER, Estimate, estimate
from reports.comparison.section import RESULTS, Section, headline
from reports.comparison.selection import selected
from reports.errors import ReportError, unknown

RANGES = {"score": (-1.0, 1.0), "share": (0.0, 1.0)}
"""Unit -> its smallest and largest value; of all others 0 and no end."""

USUAL = ("eval/score", "inference/latency_ms_p50", "inference/peak_memory_bytes", "model/params_total")
"""Metrics to name where a name has no known group."""


class Fit(enum.Enum):
    """Whether a limit is kept; UNSURE where the interval crosses it or decides nothing, or there is none."""

    YES = "fits"
    UNSURE = "unsure"
    NO = "does not fit"


@dataclass(frozen=True)
class Bound:
    """A limit on one metric, in base units."""

    metric: str
    value: float
    at_least: bool = False

    def fit(self, found: Estimate | None) -> Fit:
        """By the whole interval, where it decides anything; what beats no constant answer can only not fit."""
        if found is None or found.interval is None:
            return Fit.UNSURE
        kept = [end >= self.value if self.at_least else end <= self.value for end in found.interval]
        fit = Fit.YES if all(kept) else Fit.UNSURE if any(kept) else Fit.NO
        return fit if not found.doubt or (fit is Fit.NO and found.doubt == NO_BETTER) else Fit.UNSURE

    def margin(self, found: Estimate) -> float:
        """How far the mean keeps it, in base units: below 0 where it does not."""
        return found.mean - self.value if self.at_least else self.value - found.mean


@dataclass(frozen=True)
class Checked:
    """One bound of one arm, in the section where it is kept worst."""

    bound: Bound
    section: Section
    found: Estimate | None

    @property
    def fit(self) -> Fit:
        return self.bound.fit(self.found)


@dataclass(frozen=True)
class Candidate:
    """An arm with all bounds; `score` is the mean of the headline scores of its `tasks` sections, None without any."""

    arm: str
    score: float | None
    tasks: int
    checked: tuple[Checked, ...]

    @property
    def fit(self) -> Fit:
        fits = [one.fit for one in self.checked]
        return Fit.NO if Fit.NO in fits else Fit.UNSURE if Fit.UNSURE in fits else Fit.YES


def bound_of(option: str, text: str, at_least: bool) -> Bound:
    """A bound written METRIC=NUMBER; ReportError for an undeclared metric or no number."""
    name, equals, number = text.partition("=")
    if not equals:
        raise ReportError(f"{option} {text!r}; expected METRIC=NUMBER, such as eval/score=0.8")
    if name not in RESULTS:
        same_group = [one for one in RESULTS if one.partition("/")[0] == name.partition("/")[0]]
        raise unknown(f"metric in {option}", name, same_group or [one for one in USUAL if name in one] or USUAL)
    return within_range(f"{option} {text!r}", Bound(name, finite(option, number), at_least))


def within_range(given: str, bound: Bound) -> Bound:
    """The bound; ReportError where no value of its metric is on the other side of it."""
    least, most = RANGES.get(metrics.get(bound.metric).unit, (0.0, math.inf))
    if not least <= bound.value <= most:
        expected = f"between {least:g} and {most:g}" if math.isfinite(most) else f"at least {least:g}"
        raise ReportError(f"{given}; {bound.metric} is {expected}: expected a limit of that kind")
    return bound


def finite(option: str, text: str) -> float:
    """ReportError for no finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ReportError(f"{option} {text!r}; expected a number in base units, such as 20e6")
    return number


def candidates(comparison: Comparison, bounds: list[Bound]) -> list[Candidate]:
    """Every arm of the tasks, or of the pretrainings where there is nothing else; the best score first.

    A bound holds for an arm where it holds in each of its sections.
    """
    sections = [one for one in selected(comparison) if not one.is_pretraining] or list(selected(comparison))
    found = [_candidate(label, [one for one in sections if one.row_of(label)], bounds) for label in comparison.labels]
    return sorted((one for one in found if one), key=lambda one: -math.inf if one.score is None else one.score, reverse=True)


def _candidate(label: str, sections: list[Section], bounds: Iterable[Bound]) -> Candidate | None:
    if not sections:
        return None
    scores = [section.row_of(label).mean(headline(section)) for section in sections]
    known = [score for score in scores if score is not None]
    checked = tuple(_worst(label, sections, bound) for bound in bounds)
    return Candidate(label, math.fsum(known) / len(known) if known else None, len(known), checked)


def _worst(label: str, sections: list[Section], bound: Bound) -> Checked:
    every = [Checked(bound, section, estimate(section, section.row_of(label), bound.metric)) for section in sections]
    order = [Fit.NO, Fit.UNSURE, Fit.YES]
    return min(every, key=lambda one: (order.index(one.fit), one.found is not None and bound.margin(one.found)))
