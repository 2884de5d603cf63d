"""`python -m reports gate`: fails where an arm is not shown to be at most so much worse than it was, for checks in CI.

Non-inferiority: one-sided t tests at 5 % against the allowed loss, of differences paired by seed or by round. Several tests are
not corrected, as all of them must pass: an intersection-union test (Berger, Technometrics 24, 1982).
"""

import argparse
import enum
import functools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from harness import arms, metrics, tags
from harness.metrics import Compared, Direction, Margin
from harness.paired import LEVEL, MOST_PAIRS, POWER, Tells, grouped
from harness.terminal import table, wrapped
from reports.commands import Parser, add_where
from reports.comparison import launches
from reports.comparison.compare import Comparison, compare
from reports.comparison.labels import seeds_text
from reports.comparison.launches import judged_by
from reports.comparison.section import HEADLINE, Row, Section, headline
from reports.comparison.statistics import Change, margin_of
from reports.errors import ReportError, unknown
from reports.read import StudyRuns, compare_with_any, read
from reports.reading.store import Run
from reports.writing import formats, tables
from reports.writing.formats import DASH, SHARES

UNSET = "not set"
ITEMS_APART = float(ndtri(1 - LEVEL) + ndtri(POWER))
"""How far apart loss and limit must be for that, in standard errors over the items."""
PREFIX = "new "
"""Before the name of an arm of the study that is judged, where it meets the study that it is judged against."""


class Outcome(enum.Enum):
    """What a test says; all but PASSED fail the gate."""

    PASSED = "passed"
    INFERIOR = "inferior"
    NOT_SHOWN = "not shown"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Limit:
    """By how much a metric may be worse."""

    metric: str
    margin: Margin
    text: str  # as the user wrote it


@dataclass(frozen=True)
class Test:
    """One metric of one arm in one section; no change where nothing can be paired."""

    section: Section
    arm: str
    limit: Limit
    outcome: Outcome
    reason: str
    change: Change | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of both one-sided tests, in units of the metric; None for a single pair."""
        evidence = self.change.evidence if self.change else None
        ends = evidence.found.interval_at(1 - 2 * LEVEL / evidence.looks) if evidence else None
        if ends is None:
            return None
        return tuple(self.change.baseline_mean * math.expm1(end) if evidence.ratio else end for end in ends)


@dataclass(frozen=True)
class Pair:
    """An arm and what it is held against, by labels within one comparison; `name` is what the user calls it."""

    name: str
    after: str
    before: str


def tests(comparison: Comparison, pairs: Iterable[Pair], limits: list[Limit]) -> list[Test]:
    """Every limit in every section of every pair; pretrainings only where there is nothing else."""
    of_tasks = [section for section in comparison.sections if not section.is_pretraining]
    tested = []
    for pair in pairs:
        for section in of_tasks or comparison.sections:
            if row := section.row_of(pair.after):
                against = replace(section, baseline=pair.before)
                tested += [_test(comparison, against, row, pair, limit) for limit in limits]
        tested += _lost(of_tasks or comparison.sections, pair, limits)
    return tested


def _lost(sections: Iterable[Section], pair: Pair, limits: list[Limit]) -> list[Test]:
    """Tasks of the other side that this arm has no finished run of."""
    ran = {section.task for section in sections if section.row_of(pair.after)}
    lost = {section.task: section for section in sections if section.task not in ran and section.row_of(pair.before)}
    reason = f"{pair.name} has no finished run of this task"
    return [Test(section, pair.name, limit, Outcome.NOT_JUDGED, reason) for section in lost.values() for limit in limits]


def _test(comparison: Comparison, section: Section, row: Row, pair: Pair, limit: Limit) -> Test:
    name = headline(section) if limit.metric == HEADLINE else limit.metric
    own = replace(limit, metric=name)
    reason = _unpaired(comparison, section, row, name)
    if reason:
        return Test(section, pair.name, own, Outcome.NOT_JUDGED, reason)
    change = section.single_change(row, name)
    if change is None:
        here, there = (seeds_text(side.values(name)) for side in (row, section.before))
        reason = f"no seed ran on both sides: {here} here, {there} there"
        return Test(section, pair.name, own, Outcome.NOT_JUDGED, reason)
    outcome, reason = judge(change, own)
    return Test(section, pair.name, own, outcome, reason, change)


def _unpaired(comparison: Comparison, section: Section, row: Row, name: str) -> str:
    """Why there is no change at all; empty where there may be one."""
    if section.before is None:
        others = [other for other in comparison.sections if other.task == section.task and other.row_of(section.baseline)]
        if not others:
            return f"the other side has no finished run of {section.baseline} on this task"
        there = others[0].facts
        keys = [
            f"{key} ({section.facts.get(key, UNSET)} here, {there.get(key, UNSET)} there)"
            for key in arms.varying((section.facts, there))
        ]
        return f"the other side ran this task under other conditions: {', '.join(keys)}; --along KEY lifts one"
    lacking = [where for where, side in (("here", row), ("on the other side", section.before)) if not side.values(name)]
    return f"{name} was not measured {' and '.join(lacking)}" if lacking else ""


def judge(change: Change, limit: Limit) -> tuple[Outcome, str]:
    """The outcome and why it is not PASSED."""
    metric, evidence = metrics.get(limit.metric), change.evidence
    if evidence is None:
        return Outcome.NOT_JUDGED, "not launched side by side in one session; run both arms in one command"
    difference, margin = evidence.found, margin_of(limit.margin, change.baseline_mean, evidence.ratio)
    reason = _untestable(change, limit, margin)
    if reason:
        return Outcome.NOT_JUDGED, reason
    good, level = 1 if metric.direction is Direction.HIGHER else -1, LEVEL / evidence.looks
    if difference.t_test_p(-good * margin, -good) <= level:
        return Outcome.INFERIOR, f"shown to be worse by more than {limit.text}"
    if evidence.tells is not Tells.EVERYTHING:
        return Outcome.NOT_JUDGED, evidence.tells.value
    if difference.t_test_p(-good * margin, good) <= level:
        return Outcome.PASSED, ""
    return Outcome.NOT_SHOWN, f"not shown to be within {limit.text}" + _advice(change, margin)


def _untestable(change: Change, limit: Limit, margin: float) -> str:
    """Why no test can decide; empty where one can."""
    evidence = change.evidence
    if evidence.tells is Tells.NOTHING:
        return evidence.tells.value
    if evidence.found.error is None or not evidence.has_enough:
        number = evidence.found.replicates
        return f"{number} pair{'s' * (number > 1)} only; expected {max(2, evidence.fewest)} or more"
    if limit.metric in launches.TIMINGS and evidence.floor is None:
        return "no A/A replicate was timed in its session, so that the noise floor is unknown"
    if evidence.is_too_noisy or (evidence.ratio and (evidence.floor or 0.0) > margin):
        return f"noise floor {100 * math.expm1(evidence.floor):.2g} %, above what could be judged"
    return "" if evidence.found.error else "all differences are equal, and the number of items is unknown: nothing to test by"


def _advice(change: Change, margin: float) -> str:
    """How many pairs would show it, of an arm that is equal and scatters as these do; empty where that is unknown."""
    difference = change.evidence.found
    if difference.independent is None:
        return ""
    if ITEMS_APART * difference.items > margin:
        return f"; the items alone leave ± {100 * ITEMS_APART * difference.items:.2g} points, with any number of seeds"
    number = pairs_needed(difference.replicates_error * math.sqrt(difference.independent), margin, difference.items)
    if number is not None and number <= difference.independent:
        return ""
    unit = "rounds" if change.by_round else "pretrainings" if difference.pretrainings > 1 else "seeds"
    pairs = f"over {MOST_PAIRS:,}" if number is None else f"{number:,}"
    return f"; an equal arm takes {pairs} {unit} to pass {100 * POWER:.0f} % of the time"


def pairs_needed(sd: float, margin: float, items: float = 0.0) -> int | None:
    """The fewest pairs with which an equal arm passes in POWER of all studies, of this scatter; None beyond MOST_PAIRS."""
    enough = np.hypot(_errors_apart() * sd, ITEMS_APART * items) <= margin
    return int(enough.argmax()) + 2 if enough.any() else None


@functools.cache
def _errors_apart() -> np.ndarray:
    """How far apart loss and limit must be, in standard deviations of a difference, for 2, 3, ... MOST_PAIRS pairs."""
    n = np.arange(2, MOST_PAIRS + 1)
    return (stdtrit(n - 1, 1 - LEVEL) + stdtrit(n - 1, POWER)) / np.sqrt(n)


ALLOWED = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|points?)")
MEMORIES = ("inference/peak_memory_bytes", "finetune/peak_memory_bytes")
LATENCY = "inference/latency_ms_p50"
TIMINGS = {*metrics.compared(Compared.BY_LAUNCH), *metrics.compared(Compared.ABOVE_FLOOR)}
HEAD = ("task", "arm", "quantity", "change [90 % interval]", "allowed", "result")
ALIGNED = "lllrrl"


def main(given: list[str]) -> int:
    """0 where every test passed, 1 where one did not; ReportError for a wrong input."""
    options = parse(given)
    limits = limits_of(options)
    comparison, pairs, unknown_arms = _sides(options)
    if options.timing is None:
        limits = [replace(limit, metric=judged_by(limit.metric, comparison.has)) for limit in limits]
    tested = tests(comparison, pairs, limits)
    print(text(tested, unknown_arms, options))
    return 0 if tested and all(test.outcome is Outcome.PASSED for test in tested) else 1


def parse(given: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = Parser("gate", "Test that arms are not worse than they were; exit code 1 where that is not shown.")
    parser.add_argument("--study", metavar="NEW", required=True, help="study that is judged")
    parser.add_argument("--against", metavar="OLD", help="study that it is judged against (default: itself, with --baseline)")
    parser.add_argument(
        "--arm", metavar="NAME", action="append", default=[], help="arm to judge; may be repeated (default: all)"
    )
    parser.add_argument("--baseline", metavar="NAME", help="arm to judge against (default: the same arm; in one study, base)")
    parser.add_argument("--max-drop", metavar="X", help="of the score: 0.5%% of what it was, or 0.5points")
    parser.add_argument("--max-slowdown", metavar="X%", help="of the latency, or of --timing")
    parser.add_argument("--max-memory", metavar="X%", help="more peak memory of inference and of training")
    parser.add_argument(
        "--timing",
        metavar="METRIC",
        help="timing of --max-slowdown (default: latency by the clock of the device, else by the wall clock)",
    )
    add_where(parser)
    return parser.parse(given)


def limits_of(options: argparse.Namespace) -> list[Limit]:
    """What the options allow; ReportError without any, or for one that cannot be read."""
    if options.timing and options.timing not in TIMINGS:
        raise unknown("metric in --timing", options.timing, sorted(TIMINGS))
    given = {
        "--max-drop": (options.max_drop, (HEADLINE,)),
        "--max-slowdown": (options.max_slowdown, (options.timing or LATENCY,)),
        "--max-memory": (options.max_memory, MEMORIES),
    }
    limits = [
        Limit(metric, _margin(option, allowed), " ".join(allowed.split()))
        for option, (allowed, names) in given.items()
        if allowed is not None
        for metric in names
    ]
    if not limits:
        raise ReportError(f"gate needs a limit; expected one of {', '.join(given)}")
    return limits


def _margin(option: str, allowed: str) -> Margin:
    points = option == "--max-drop"
    match = ALLOWED.fullmatch(allowed.strip())
    if match is None or (match[2] != "%" and not points) or not float(match[1]):
        raise ReportError(f"{option} {allowed!r}; expected a size above 0, such as 0.5%{' or 0.5points' if points else ''}")
    return Margin(float(match[1]) / 100, relative=match[2] == "%")


def _sides(options: argparse.Namespace) -> tuple[Comparison, list[Pair], list[str]]:
    """The comparison of both sides, the pairs in it, and arms that have no counterpart."""
    new = read(options.uri, [options.study], options.where)
    if options.against in (None, options.study):
        return _within(new, options)
    old = read(options.uri, [options.against], options.where)
    for side in (new, old):
        if not any(run.status == "finished" for run in side.runs):
            raise ReportError(f"study {side.study!r} has no finished run; a gate needs some on both sides")
    shared = {run.run_id for run in old.runs}
    renamed = [_renamed(run) for run in new.runs if run.run_id not in shared]
    runs = sorted([*old.runs, *renamed], key=lambda run: (run.started, run.run_id))
    comparison = compare_with_any(f"{new.study} against {old.study}", runs, options.along, new.reader.output)
    return comparison, *_across(comparison, options)


def _within(runs: StudyRuns, options: argparse.Namespace) -> tuple[Comparison, list[Pair], list[str]]:
    comparison = compare(runs.study, runs.runs, options.baseline, options.along, runs.reader.output)
    labels = [label for label in comparison.labels if label != comparison.baseline]
    labels = _chosen(labels, options.arm)
    return comparison, [Pair(label, label, comparison.baseline) for label in labels], []


def _across(comparison: Comparison, options: argparse.Namespace) -> tuple[list[Pair], list[str]]:
    new = [label.removeprefix(PREFIX) for label in comparison.labels if label.startswith(PREFIX)]
    old = [label for label in comparison.labels if not label.startswith(PREFIX)]
    if options.baseline is not None and options.baseline not in old:
        raise unknown(f"arm of {options.against!r} in --baseline", options.baseline, old)
    judged_labels = _chosen(new, options.arm)
    for name in options.arm:
        if options.baseline is None and name not in old:
            raise unknown(f"arm of {options.against!r}", name, old)
    gone = [] if options.baseline or options.arm else [name for name in old if name not in new]
    judged = [name for name in [*judged_labels, *gone] if options.baseline or name in old]
    pairs = [Pair(name, PREFIX + name, options.baseline or name) for name in judged]
    return pairs, [name for name in judged_labels if not options.baseline and name not in old]


def _chosen(labels: list[str], names: list[str]) -> list[str]:
    for name in names:
        if name not in labels:
            raise unknown("arm", name, labels)
    return names or labels


def _renamed(run: Run) -> Run:
    return replace(run, tags=run.tags | {tags.ARM: PREFIX + run.tags[tags.ARM]}) if tags.ARM in run.tags else run


def text(tested: list[Test], without: list[str], options: argparse.Namespace) -> str:
    """The table of all tests, why tests did not pass, and the result."""
    lines = [table(HEAD, [_line(test) for test in tested], ALIGNED), ""] if tested else []
    reasons = grouped((test.reason, f"{test.section.task} {test.arm} {test.limit.metric}") for test in tested if test.reason)
    lines += [wrapped(f"{reason}: {', '.join(names)}.", 2, "-") for reason, names in reasons.items()]
    if without:
        lines.append(wrapped(f"Not in {options.against!r}, so not judged: {', '.join(without)}.", 2, "-"))
    failed = sum(test.outcome is not Outcome.PASSED for test in tested)
    if not tested:
        return "\n".join([*lines, "failed: nothing to judge: the two sides have no arm in common"])
    tests = f"{len(tested)} test{'s' * (len(tested) != 1)}"
    return "\n".join([*lines, f"failed: {failed} of {tests}" if failed else f"passed: {tests}"])


def _line(test: Test) -> tuple[str, ...]:
    name = tables.score_title(test.section) if test.limit.metric == HEADLINE else test.limit.metric
    return test.section.task, test.arm, name, _change(test), test.limit.text, test.outcome.value


def _change(test: Test) -> str:
    change, unit = test.change, metrics.get(test.limit.metric).unit
    if change is None:
        return DASH
    if unit in SHARES or change.percent is None:
        return formats.difference(change.absolute, unit, test.interval)
    ends = tuple(100 * end / abs(change.baseline_mean) for end in test.interval) if test.interval else None
    return formats.difference(change.percent, "%", ends)
