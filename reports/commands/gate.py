"""`python -m reports gate`: fails where an arm is not shown to be at most so much worse than it was, for checks in CI.

Non-inferiority: one-sided t tests at 5 % against the allowed loss, of differences paired by seed or by round. Several tests are
not corrected, as all of them must pass: an intersection-union test (Berger, Technometrics 24, 1982). A gain is tested as in a
report, corrected for the number of tests of the arm. Of several candidates each has a part of the level (`ledger.py`).
"""

import enum
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtri, stdtrit

from harness import metrics, tags
from harness.comparison import arms, by_launch, launches
from harness.comparison.compare import Comparison, compare
from harness.comparison.labels import seeds_text
from harness.comparison.paired import LEVEL, MOST_PAIRS, POWER, Tells, fewest, grouped
from harness.comparison.runs import Run, oldest_first
from harness.comparison.section import HEADLINE, Row, Section, headline
from harness.comparison.verdicts import Change, Evidence, Verdict, margin_of
from harness.metrics import FEWEST_REPLICATES, Direction, Margin, judged_by
from harness.reports.commands.ledger import Ledger, change_text, look_text, overview
from harness.reports.errors import ReportError, unknown
from harness.reports.options import Gate
from harness.reports.read import StudyRuns, compare_with_any, read
from harness.reports.reading.predictions import errors_in
from harness.reports.writing import tables
from harness.terminal import table, wrapped

UNSET = "not set"

PREFIX = "judged: "
"""Before the name of an arm of the study that is judged, where it meets the study that it is judged against.

No name of an arm begins so: in names of variants a space follows nothing but a setting.
"""


class Outcome(enum.Enum):
    """What a test says; all but PASSED fail the gate. ABOVE: what is counted, and so is no matter of chance."""

    PASSED = "passed"
    INFERIOR = "inferior"
    ABOVE = "above the limit"
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
    level: float = LEVEL

    @property
    def confidence(self) -> float | None:
        """Level of the interval of both one-sided tests; None where nothing is tested."""
        evidence = self.change.evidence if self.change else None
        return 1 - 2 * self.level / evidence.looks if evidence else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of both one-sided tests, in units of the metric; None for a single pair, and where it has no end."""
        evidence = self.change.evidence if self.change else None
        if self.change is None or evidence is None or self.confidence is None:
            return None
        ends = evidence.found.interval_at(self.confidence) or (math.inf, math.inf)
        low, high = (evidence.in_units(end, self.change.baseline_mean) for end in ends)
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    def at(self, level: float) -> "Test":
        """This test at another level."""
        outcome, reason = judge(self.change, self.limit, level) if self.change else (self.outcome, self.reason)
        return replace(self, outcome=outcome, reason=reason, level=level)

    def is_gain(self, tests: int) -> bool:
        """Whether it is shown to be better, as one of so many tests: beyond the noise floor, by a count by the limit."""
        change = self.change
        if change is None:
            return False
        if change.evidence is None:
            return -_loss(change, self.limit) > _allowed(change, self.limit)
        is_better = change.evidence.verdict(tests * LEVEL / self.level) is Verdict.BETTER
        return is_better and abs(change.evidence.found.mean) > (change.evidence.floor or 0.0)

    def record(self, tests: int) -> dict[str, Any]:
        """As JSON, in units of the metric; `needed`: pairs with which an equal arm passes, or that show a gain as measured.

        `hours`: what those take that are missing.
        """
        metric, change = metrics.get(self.limit.metric), self.change
        title = tables.score_title(self.section) if self.limit.metric == HEADLINE else metric.name
        told: dict[str, Any] = {"task": self.section.name, "metric": metric.name, "title": title, "unit": metric.unit}
        told |= {"direction": metric.direction.value, "allowed": self.limit.text}
        told |= {"outcome": self.outcome.value, "reason": self.reason}
        if change is None:
            return told
        passed = self.outcome is Outcome.PASSED
        told |= {"before": change.baseline_mean, "difference": change.absolute, "replicates": change.n}
        told |= {"margin": _allowed(change, self.limit), "gain": passed and self.is_gain(tests)}
        if (evidence := change.evidence) is None:
            return told
        floor = None if evidence.floor is None else evidence.in_units(evidence.floor, change.baseline_mean)
        told |= {"pairs": change.pairs_are, "interval": self.interval, "confidence": self.confidence, "noise_floor": floor}
        number = _needed(change, evidence, self.limit, self.level) if self.outcome is Outcome.NOT_SHOWN else None
        if passed:  # what would show a gain as large as it was measured
            number = evidence.needed_as_measured(tests * LEVEL / self.level)
        more = number - evidence.found.replicates if number is not None and number <= MOST_PAIRS else 0
        hours = more * change.seconds / 3600 if more > 0 and change.seconds is not None else None
        return told | {"needed": number if more > 0 else None, "hours": hours}


@dataclass(frozen=True)
class Pair:
    """An arm and what it is held against, by labels within one comparison; `name` is what the user calls it."""

    name: str
    after: str
    before: str


def tests(comparison: Comparison, pairs: Iterable[Pair], limits: list[Limit]) -> list[Test]:
    """Every limit in every section of every pair; pretrainings only where there is nothing else."""
    sections, tested = comparison.tasks or comparison.sections, []
    for pair in pairs:
        ran = [(section, row) for section in sections if (row := section.row_of(pair.after))]
        for section, row in ran:
            against = replace(section, baseline=pair.before)
            tested += [_test(comparison, against, row, pair, limit) for limit in limits]
        tasks = {section.task for section, _ in ran}
        lost = {section.task: section for section in sections if section.task not in tasks and section.row_of(pair.before)}
        reason = f"{pair.name} has no finished run of this task"
        tested += [Test(section, pair.name, limit, Outcome.NOT_JUDGED, reason) for section in lost.values() for limit in limits]
    return tested


def _test(comparison: Comparison, section: Section, row: Row, pair: Pair, limit: Limit) -> Test:
    name, before = headline(section) if limit.metric == HEADLINE else limit.metric, section.before
    own, outcome, change = replace(limit, metric=name), Outcome.NOT_JUDGED, None
    sides = (("here", row), ("on the other side", before))
    if before is None:
        reason = _no_baseline(comparison, section)
    elif lacking := [where for where, side in sides if side and not side.values(name)]:
        reason = f"{name} was not measured {' and '.join(lacking)}"
    elif limit.metric == HEADLINE and (lost := comparison.diverged(row) & before.by_replicate.keys()):
        reason = f"diverged with {seeds_text(lost)}, which finished on the other side"
    elif change := section.single_change(row, name):
        outcome, reason = judge(change, own)
    else:
        here, there = (seeds_text(side.values(name)) for side in (row, before))
        reason = f"no seed ran on both sides: {here} here, {there} there"
    return Test(section, pair.name, own, outcome, reason, change)


def _no_baseline(comparison: Comparison, section: Section) -> str:
    """Why the other side is not in this section."""
    others = [other for other in comparison.sections if other.task == section.task and other.row_of(section.baseline)]
    if not others:
        return f"the other side has no finished run of {section.baseline} on this task"
    here, there = section.facts, others[0].facts
    keys = [f"{key} ({here.get(key, UNSET)} here, {there.get(key, UNSET)} there)" for key in arms.varying((here, there))]
    return f"the other side ran this task under other conditions: {', '.join(keys)}; --along KEY lifts one"


def judge(change: Change, limit: Limit, level: float = LEVEL) -> tuple[Outcome, str]:
    """The outcome and why it is not PASSED.

    Looks by which a session could have ended have their part of the level: its end depends on the same times.
    """
    metric, evidence = metrics.get(limit.metric), change.evidence
    if metric.deterministic:
        is_above = _loss(change, limit) > _allowed(change, limit)
        return (Outcome.ABOVE, f"counted, and more than {limit.text} worse") if is_above else (Outcome.PASSED, "")
    if evidence is None:
        return Outcome.NOT_JUDGED, change.reason
    difference, margin = evidence.found, margin_of(limit.margin, change.baseline_mean, evidence.ratio)
    if reason := _untestable(evidence, limit, margin):
        return Outcome.NOT_JUDGED, reason
    good, each = 1 if metric.direction is Direction.HIGHER else -1, level / evidence.looks
    if difference.t_test_p(-good * margin, -good) <= each:
        return Outcome.INFERIOR, f"shown to be worse by more than {limit.text}"
    if evidence.tells is not Tells.EVERYTHING:
        return Outcome.NOT_JUDGED, evidence.tells.value
    if difference.t_test_p(-good * margin, good) <= each:
        return Outcome.PASSED, ""
    return Outcome.NOT_SHOWN, f"not shown to be within {limit.text}" + _advice(change, evidence, limit, level)


def _allowed(change: Change, limit: Limit) -> float:
    """The margin in units of the metric: a rate that is 5 % slower is 1/1.05 of what it was."""
    evidence, before = change.evidence, change.baseline_mean
    if evidence is None:
        return margin_of(limit.margin, before, False)
    worse = 1 if evidence.direction is Direction.LOWER else -1
    return abs(evidence.in_units(worse * margin_of(limit.margin, before, evidence.ratio), before))


def _loss(change: Change, limit: Limit) -> float:
    """By how much it is worse, in units of the metric."""
    return change.absolute if metrics.get(limit.metric).direction is Direction.LOWER else -change.absolute


def _untestable(evidence: Evidence, limit: Limit, margin: float) -> str:
    """Why no test can decide; empty where one can."""
    if evidence.tells is Tells.NOTHING:
        return str(evidence.tells.value)
    if evidence.found.error is None or evidence.found.replicates < FEWEST_REPLICATES:
        number = evidence.found.replicates
        return f"{number} pair{'s' * (number > 1)} only; expected {FEWEST_REPLICATES} or more"
    if limit.metric in TIMINGS and evidence.floor is None:
        return "no A/A replicate was timed in its session, so that the noise floor is unknown"
    floor = evidence.floor or 0.0
    if evidence.is_too_noisy or (evidence.ratio and floor > margin):
        return f"noise floor {by_launch.percent_text(floor)}, above what could be judged"
    return "" if evidence.found.error else "all differences are equal, and the number of items is unknown: nothing to test by"


def _advice(change: Change, evidence: Evidence, limit: Limit, level: float) -> str:
    """How many pairs would show it, of an arm that is equal and scatters as these do; empty where that is unknown."""
    difference, alone = evidence.found, _items_apart(level / evidence.looks) * evidence.found.items
    if difference.independent is None:
        return ""
    if alone > margin_of(limit.margin, change.baseline_mean, evidence.ratio):
        return f"; the items alone leave ± {100 * alone:.2g} points, with any number of seeds"
    number = _needed(change, evidence, limit, level)
    if number is not None and number <= difference.independent:
        return ""
    pairs = f"over {MOST_PAIRS:,}" if number is None else f"{number:,}"
    return f"; an equal arm takes {pairs} {change.pairs_are} to pass {100 * POWER:.0f} % of the time"


def _needed(change: Change, evidence: Evidence, limit: Limit, level: float) -> int | None:
    """The fewest pairs with which an equal arm passes; None where that is unknown or beyond MOST_PAIRS."""
    if evidence.found.independent is None:
        return None
    margin = margin_of(limit.margin, change.baseline_mean, evidence.ratio)
    return pairs_needed(evidence.sd, margin, evidence.found.items, level / evidence.looks)


def pairs_needed(sd: float, margin: float, items: float = 0.0, level: float = LEVEL) -> int | None:
    """The fewest pairs with which an equal arm passes in POWER of all studies, of this scatter; None beyond MOST_PAIRS."""
    of_items = _items_apart(level) * items

    def passes(n: int) -> bool:
        apart = stdtrit(n - 1, 1 - level) + stdtrit(n - 1, POWER)  # loss and limit, in standard errors
        return math.hypot(float(apart) * sd / math.sqrt(n), of_items) <= margin

    number = fewest(passes, FEWEST_REPLICATES)
    return number if number <= MOST_PAIRS else None


def _items_apart(level: float) -> float:
    """How far apart loss and limit must be, in standard errors over the items."""
    return float(ndtri(1 - level) + ndtri(POWER))


def verdict(of_arm: list[Test]) -> Verdict:
    """Verdict on one arm: worse in anything, or not shown to be within a limit; else better in a quantity, or the same."""
    outcomes = {test.outcome for test in of_arm}
    if outcomes & {Outcome.INFERIOR, Outcome.ABOVE}:
        return Verdict.WORSE
    if outcomes != {Outcome.PASSED}:
        return Verdict.NOT_RESOLVED
    return Verdict.BETTER if any(test.is_gain(_scattering(of_arm)) for test in of_arm) else Verdict.SAME


def _scattering(of_arm: list[Test]) -> int:
    """How many tests are no counts, whose gains are no matter of chance."""
    return sum(not metrics.get(test.limit.metric).deterministic for test in of_arm)


def record(of_arm: list[Test]) -> dict[str, Any]:
    """A candidate as JSON: the verdict, the level that it was tested at, and its tests."""
    told = [test.record(_scattering(of_arm)) for test in of_arm]
    return {"arm": of_arm[0].arm, "verdict": verdict(of_arm).value, "level": of_arm[0].level, "tests": told}


ALLOWED = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|points?)")
MEMORIES = ("inference/peak_memory_bytes", "finetune/peak_memory_bytes")
COSTS = ("model/flops_forward", "model/flops_train_step", "model/bytes_forward", "model/operators_forward")
"""Counted in every run: equal on a machine at rest and on a busy one."""
LATENCY = "inference/latency_ms_p50"
TIMINGS = {*launches.JUDGED}


def main(options: Gate) -> int:
    """0 where every arm passed, 1 where one did not; ReportError for a wrong input."""
    if options.study is None:
        print(overview(options.ledger))
        return 0
    limits = limits_of(options)
    new = read(options.address, [options.study], options.where)
    with new.reader.guarded():
        comparison, pairs, unknown_arms = _sides(new, options)
        if options.timing is None:
            limits = [replace(limit, metric=judged_by(limit.metric, comparison.has)) for limit in limits]
        judged = [(pair, of_arm) for pair in pairs if (of_arm := tests(comparison, [pair], limits))]
        if options.ledger:
            with Ledger.locked(options.ledger, options.looks) as ledger:
                candidates = [_recorded(ledger, comparison, pair, of_arm, options) for pair, of_arm in judged]
        else:
            candidates = [record(of_arm) for _, of_arm in judged]
    passing = {Verdict.BETTER.value} if options.better else {Verdict.BETTER.value, Verdict.SAME.value}
    passed = bool(candidates) and all(candidate["verdict"] in passing for candidate in candidates)
    if options.json:
        print(json.dumps({"passed": passed, "candidates": candidates, "not_judged": unknown_arms}, indent=2))
    else:
        print(text(candidates, unknown_arms, passing, options))
    return 0 if passed else 1


def _recorded(ledger: Ledger, comparison: Comparison, pair: Pair, of_arm: list[Test], options: Gate) -> dict[str, Any]:
    """The ledger's answer where it has one; else the candidate is judged at the level of the next look, and written down."""
    rows = [[row for section in comparison.sections if (row := section.row_of(label))] for label in (pair.before, pair.after)]
    sides = [[run for row in of_side for run in row.runs] for of_side in rows]
    before, after = (sorted({_name(run) for run in side}) for side in sides)
    baseline = {"name": f"{options.against or options.study}/{pair.before}", "runs": before}
    ledger.keep_baseline(baseline, options.move_baseline)
    limits = sorted({(test.limit.metric, test.limit.text) for test in of_arm})
    timed = any(metric in TIMINGS for metric, _ in limits)
    if known := ledger.find(key := Ledger.key(*(sorted(_name(run, timed) for run in side) for side in sides), limits)):
        return known | {"seen": True}
    look, level = ledger.place(after)
    told = {"study": options.study, **record([test.at(level) for test in of_arm])}
    told |= {"baseline": baseline, "key": key, "runs": after}
    scatters = any(test.change and test.change.evidence for test in of_arm)  # who saw it may choose by it what is asked next
    return ledger.add(told, look if scatters else None) | {"seen": False}


def _name(run: Run, timed: bool = False) -> str:
    """What a run is, and the session that timed it: equal runs of two studies are one."""
    return f"{run.tags.get(tags.FINGERPRINT, run.run_id)} {run.session if timed else ''}".rstrip()


def limits_of(options: Gate) -> list[Limit]:
    """What the options allow; ReportError without any, or for one that cannot be read."""
    if options.timing and options.timing not in TIMINGS:
        raise unknown("metric in timing=", options.timing, sorted(TIMINGS))
    given = {
        "max_drop": (options.max_drop, (HEADLINE,)),
        "max_slowdown": (options.max_slowdown, (options.timing or LATENCY,)),
        "max_memory": (options.max_memory, MEMORIES),
        "max_cost": (options.max_cost, COSTS),
    }
    limits = []
    for option, (allowed, names) in given.items():
        if allowed is not None:
            points, match = option == "max_drop", ALLOWED.fullmatch(allowed.strip())
            size = float(match[1]) if match and (match[2] == "%" or points) else 0.0
            if match is None or not 0 < size < (100 if points else math.inf):
                usual = "a size above 0 and below 100, such as 0.5% or 0.5points" if points else "a size above 0, such as 0.5%"
                raise ReportError(f"{option}={allowed!r}: expected {usual}")
            margin = Margin(size / 100, relative=match[2] == "%")
            limits += [Limit(metric, margin, " ".join(allowed.split())) for metric in names]
    if not limits:
        raise ReportError(f"gate needs a limit: expected one of {'=, '.join(given)}=")
    return limits


def _sides(new: StudyRuns, options: Gate) -> tuple[Comparison, list[Pair], list[str]]:
    """The comparison of both sides, the pairs in it, and arms that have no counterpart."""
    if options.against in (None, options.study):
        comparison = compare(new.study, new.runs, options.baseline, options.along, errors_in(new.reader.output))
        baseline, finished = comparison.baseline, {run.tags[tags.ARM] for run in comparison.runs}
        unfinished = (run for run in comparison.left_out if not (comparison.tasks and run.is_pretraining))
        lost = {run.tags[tags.ARM] for run in unfinished if tags.ARM in run.tags} - {*finished, baseline}
        labels = _named("arm", options.arm, [*comparison.others, *sorted(lost)])
        return comparison, [Pair(label, label, baseline) for label in labels], []
    old = read(options.address, [options.against], options.where)
    for side in (new, old):
        if not any(run.status == "finished" for run in side.runs):
            raise ReportError(f"study {side.study!r} has no finished run; a gate needs some on both sides")
    shared = {run.run_id for run in old.runs}
    renamed = [
        replace(run, tags=run.tags | {tags.ARM: PREFIX + run.tags[tags.ARM]}) if tags.ARM in run.tags else run
        for run in new.runs
        if run.run_id not in shared
    ]
    runs = oldest_first([*old.runs, *renamed])
    both = compare_with_any(f"{new.study} against {old.study}", runs, options.along, new.reader.output)
    if both is None:
        raise ReportError(f"study {new.study!r} has no finished run; a gate needs some on both sides")
    return both, *_across(both, options)


def _across(comparison: Comparison, options: Gate) -> tuple[list[Pair], list[str]]:
    """Arms of two studies: each with the same arm of the other one, or all with the baseline; and those without another."""
    new = [label.removeprefix(PREFIX) for label in comparison.labels if label.startswith(PREFIX)]
    old = [label for label in comparison.labels if not label.startswith(PREFIX)]
    labels = _named("arm", options.arm, new)
    if options.baseline is not None:
        _named(f"arm of {options.against!r} in baseline=", [options.baseline], old)
        return [Pair(name, PREFIX + name, options.baseline) for name in labels], []
    _named(f"arm of {options.against!r}", options.arm, old)
    gone = [] if options.arm else [name for name in old if name not in new]
    pairs = [Pair(name, PREFIX + name, name) for name in (*labels, *gone) if name in old]
    return pairs, [name for name in labels if name not in old]


def _named(kind: str, names: Sequence[str], labels: list[str]) -> list[str]:
    """These arms, all without a name; ReportError for one that there is not."""
    for name in names:
        if name not in labels:
            raise unknown(kind, name, labels)
    return [*names] or labels


def text(candidates: list[dict[str, Any]], without: list[str], passing: set[str], options: Gate) -> str:
    """The table of all tests, why tests did not pass, the verdicts, and the result."""
    tested = [(candidate["arm"], test) for candidate in candidates for test in candidate["tests"]]
    shares = {round(100 * test["confidence"], 6) for _, test in tested if "confidence" in test} or {90}
    head = ("task", "arm", "quantity", f"change [{max(shares):g} % interval]", "allowed", "result")
    rows: list[tuple[str, ...]] = [
        (test["task"], arm, test["title"], change_text(test), test["allowed"], test["outcome"]) for arm, test in tested
    ]
    lines = [table(head, rows, "lllrrl"), ""] if tested else []
    reasons = grouped((test["reason"], f"{test['task']} {arm} {test['metric']}") for arm, test in tested if test["reason"])
    lines += [wrapped(f"{reason}: {', '.join(names)}.", 2, "-") for reason, names in reasons.items()]
    if without:
        lines.append(wrapped(f"Not in {options.against!r}, so not judged: {', '.join(without)}.", 2, "-"))
    if options.ledger:
        lines += [wrapped(f"{candidate['arm']}: {look_text(candidate)}.", 2, "-") for candidate in candidates]
    verdicts = grouped((candidate["verdict"], candidate["arm"]) for candidate in candidates)
    lines += [wrapped(f"{found}: {', '.join(names)}", 0) for found, names in verdicts.items()]
    number = f"{len(tested)} test{'s' * (len(tested) != 1)}"
    failed = sum(test["outcome"] != Outcome.PASSED.value for _, test in tested)
    idle = [candidate["arm"] for candidate in candidates if candidate["verdict"] not in passing]
    if not tested:
        alone = options.against in (None, options.study)
        result = f"failed: nothing to judge: {'the study has no other arm' if alone else 'the two sides have no arm in common'}"
    elif failed:
        result = f"failed: {failed} of {number}"
    else:
        result = f"failed: no gain is shown of {', '.join(idle)}" if idle else f"passed: {number}"
    return "\n".join([*lines, result])
