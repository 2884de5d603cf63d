"""`python -m reports gate`: fails where an arm is not shown to be at most so much worse than it was, for checks in CI.

Non-inferiority: one-sided t tests at 5 % against the allowed loss, of differences paired by seed or by round. Several tests are
not corrected, as all of them must pass: an intersection-union test (Berger, Technometrics 24, 1982). A gain is tested as in a
report, corrected for the number of tests of the arm. Several candidates share the level (`ledger.py`).
"""

import contextlib
import enum
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.special import ndtri, stdtrit

from harness import metrics, tags
from harness.comparison import arms, by_launch, launches
from harness.comparison.compare import FIRST, Comparison
from harness.comparison.labels import seeds_text
from harness.comparison.paired import LEVEL, MOST_PAIRS, POWER, Tells, fewest, grouped
from harness.comparison.runs import Run, oldest_first
from harness.comparison.section import HEADLINE, Row, Section, headline, results_of
from harness.comparison.verdicts import Change, Evidence, Verdict, margin_of
from harness.errors import InputError, present, some_of, unknown
from harness.metrics import FEWEST_REPLICATES, Direction, Margin, Metric, judged_by
from harness.plugins.decide.ledger import Ledger, change_text, look_text, overview, said
from harness.plugins.decide.options import Gate
from harness.plugins.judge import results
from harness.plugins.judge.results import ResultsReader
from harness.reports.read import StudyRuns, read
from harness.reports.writing import formats, tables
from harness.terminal import counted, table, wrapped

MOST_NAMES = 5
PREFIX = "judged: "
"""Before the name of an arm of the study that is judged, where it meets the study that it is judged against.

No name of an arm begins so: in names of variants a space follows nothing but a setting.
"""


class Outcome(enum.Enum):
    """What a test says; all but PASSED fail the gate. ABOVE: a count, which is not subject to chance."""

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
    """One metric of one arm in one section, at one level; no change where nothing can be paired."""

    section: Section
    arm: str
    limit: Limit
    change: Change | None = None
    unpaired: str = ""  # why there is no change
    level: float = LEVEL

    @property
    def metric(self) -> Metric:
        return metrics.get(self.limit.metric)

    @property
    def evidence(self) -> Evidence | None:
        return self.change.evidence if self.change else None

    @property
    def level_of_look(self) -> float:
        """Interim analyses by which a session could have ended share the level: its end depends on the same times."""
        return self.level / self.evidence.looks if self.evidence else self.level

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of both one-sided tests, in units of the metric; None for a single pair, and where it has no end."""
        evidence = self.evidence
        ends = evidence.found.interval_at(1 - 2 * self.level_of_look) if evidence else None
        if self.change is None or evidence is None or ends is None:
            return None
        low, high = (evidence.in_units(end, self.change.baseline_mean) for end in ends)
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    def margin(self, change: Change) -> float:
        """In the scale of the comparison."""
        return margin_of(self.limit.margin, change.baseline_mean, change.evidence is not None and change.evidence.ratio)

    def allowed(self, change: Change) -> float:
        """The margin in units of the metric: a rate that is 5 % slower is 1/1.05 of what it was."""
        if change.evidence is None:
            return self.margin(change)
        worse = 1 if self.metric.direction is Direction.LOWER else -1
        return abs(change.evidence.in_units(worse * self.margin(change), change.baseline_mean))

    def loss(self, change: Change) -> float:
        """By how much it is worse, in units of the metric."""
        return change.absolute if self.metric.direction is Direction.LOWER else -change.absolute

    @functools.cached_property
    def judged(self) -> tuple[Outcome, str]:
        """The outcome and why it is not PASSED."""
        change, evidence = self.change, self.evidence
        if change is None:
            return Outcome.NOT_JUDGED, self.unpaired
        if self.metric.deterministic:
            is_above = self.loss(change) > self.allowed(change)
            return (Outcome.ABOVE, f"exact count, worse by more than {self.limit.text}") if is_above else (Outcome.PASSED, "")
        if evidence is None:
            return Outcome.NOT_JUDGED, change.reason
        difference, margin, level = evidence.found, self.margin(change), self.level_of_look
        good = 1 if self.metric.direction is Direction.HIGHER else -1
        if reason := self._untestable(evidence, margin, good):
            return Outcome.NOT_JUDGED, reason
        if difference.t_test_p(-good * margin, -good) <= level:
            return Outcome.INFERIOR, f"worse by more than {self.limit.text}"
        if evidence.tells is not Tells.EVERYTHING:
            return Outcome.NOT_JUDGED, evidence.tells.value
        if difference.t_test_p(-good * margin, good) <= level:
            return Outcome.PASSED, ""
        reason, number = f"non-inferiority within {self.limit.text} not shown", self.needed(change, evidence)
        if number is not None:
            reason += f"; an equal arm needs {several(number)} {change.pairs_are} to pass {100 * POWER:.0f} % of the time"
        return Outcome.NOT_SHOWN, reason

    def _untestable(self, evidence: Evidence, margin: float, good: int) -> str:
        """Why no test can decide; empty where one can, or where the change is beyond the limit by more than the noise floor."""
        if evidence.tells is Tells.NOTHING:
            return str(evidence.tells.value)
        if evidence.found.error is None or evidence.found.replicates < FEWEST_REPLICATES:
            return f"only {counted(evidence.found.replicates, 'pair')}; verdicts need {FEWEST_REPLICATES}"
        if self.limit.metric in launches.JUDGED and evidence.floor is None:
            return "noise floor unknown: no A/A replicate was timed in its session"
        floor, found = evidence.floor or 0.0, evidence.found
        far = min(found.t_test_p(-good * (margin - floor), good), found.t_test_p(-good * (margin + floor), -good))
        if evidence.is_too_noisy or (evidence.ratio and floor > margin and far > self.level_of_look):
            return f"noise floor {by_launch.percent_text(floor)}, above the limit of {self.limit.text}"
        return "" if found.error else "no variance: all differences are equal, and the number of items is unknown"

    def needed(self, change: Change, evidence: Evidence) -> int | None:
        """The fewest pairs with which an arm that is equal and scatters as these do passes; None where that is unknown."""
        if evidence.found.independent is None:
            return None
        return pairs_needed(evidence.found.sd, self.margin(change), evidence.found.items, self.level_of_look)

    def is_gain(self, tests: int) -> bool:
        """Whether it is shown to be better, as one of so many tests: beyond the noise floor, by a count by the limit."""
        change = self.change
        if change is None:
            return False
        if change.evidence is None:
            return -self.loss(change) > self.allowed(change)
        is_better = change.evidence.verdict(tests * LEVEL / self.level) is Verdict.BETTER
        return is_better and abs(change.evidence.found.mean) > (change.evidence.floor or 0.0)

    def record(self, tests: int) -> dict[str, Any]:
        """As JSON, in units of the metric; `needed`: pairs with which an equal arm passes, or that show a gain as measured.

        `hours`: what those take that are missing.
        """
        metric, change, (outcome, reason) = self.metric, self.change, self.judged
        title = tables.score_title(self.section) if metric.name == HEADLINE else metric.title
        record: dict[str, Any] = {"task": self.section.name, "metric": metric.name, "title": title, "unit": metric.unit}
        record |= {"direction": metric.direction.value, "allowed": self.limit.text, "outcome": outcome.value, "reason": reason}
        if change is None:
            return record
        passed, before, evidence = outcome is Outcome.PASSED, change.baseline_mean, change.evidence
        record |= {"before": before, "difference": change.absolute, "replicates": change.n}
        record |= {"margin": self.allowed(change), "gain": passed and self.is_gain(tests)}
        if evidence is None:
            return record
        floor = None if evidence.floor is None else evidence.in_units(evidence.floor, before)
        record |= {"pairs": change.pairs_are, "interval": self.interval, "confidence": 1 - 2 * self.level_of_look}
        number = self.needed(change, evidence) if outcome is Outcome.NOT_SHOWN else None
        if passed:  # what would show a gain as large as it was measured
            number = evidence.needed(tests * LEVEL / self.level, as_measured=True)
        more = number - evidence.found.replicates if number and number <= MOST_PAIRS else 0
        hours = more * change.seconds / 3600 if more > 0 and change.seconds is not None else None
        return record | {"noise_floor": floor, "needed": number if more > 0 else None, "hours": hours}


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
        tested += [Test(section, pair.name, limit, unpaired=reason) for section in lost.values() for limit in limits]
    return tested


def _test(comparison: Comparison, section: Section, row: Row, pair: Pair, limit: Limit) -> Test:
    name, before = headline(section) if limit.metric == HEADLINE else limit.metric, section.before
    change, reason = None, ""
    sides = (("candidate", row), ("baseline", before))
    if before is None:
        reason = _no_baseline(comparison, section)
    elif lacking := [where for where, side in sides if side and not side.values(name)]:
        reason = f"{name} was not measured for the {' and '.join(lacking)}"
    elif limit.metric == HEADLINE and (lost := comparison.diverged(row) & before.by_replicate.keys()):
        reason = f"diverged with {seeds_text(lost)}, unlike the baseline"
    elif not (change := section.single_change(row, name)):
        own, its = (seeds_text(side.values(name)) for side in (row, before))
        reason = f"no seed in common: the candidate has {own}, the baseline {its}"
    return Test(section, pair.name, replace(limit, metric=name), change, reason)


def _no_baseline(comparison: Comparison, section: Section) -> str:
    """Why the baseline is not in this section."""
    others = [other for other in comparison.sections if other.task == section.task and other.row_of(section.baseline)]
    if not others:
        return f"the baseline {section.baseline} has no finished run on this task"
    own, its = section.facts, others[0].facts
    keys = [f"{key} ({own.get(key, 'not set')}, baseline {its.get(key, 'not set')})" for key in arms.varying((own, its))]
    return f"conditions differ from the baseline's: {', '.join(keys)}; along=KEY allows one"


def several(number: int) -> str:
    """A number of pairs or seeds that is needed."""
    return f"{number:,}" if number <= MOST_PAIRS else f"over {MOST_PAIRS:,}"


def pairs_needed(sd: float, margin: float, items: float = 0.0, level: float = LEVEL) -> int:
    """The fewest pairs with which an equal arm passes in POWER of all studies, of this scatter; MOST_PAIRS + 1 for more."""

    def passes(n: int) -> bool:
        """Loss and limit are so many standard errors apart."""
        of_pairs = float(stdtrit(n - 1, 1 - level) + stdtrit(n - 1, POWER)) * sd / math.sqrt(n)
        return math.hypot(of_pairs, float(ndtri(1 - level) + ndtri(POWER)) * items) <= margin

    return fewest(passes, FEWEST_REPLICATES)


def verdict(of_arm: list[Test], scattering: int) -> Verdict:
    """Worse in anything, or not shown to be within a limit; else better in a quantity, as one of so many tests, or the same."""
    outcomes = {test.judged[0] for test in of_arm}
    if outcomes & {Outcome.INFERIOR, Outcome.ABOVE}:
        return Verdict.WORSE
    if outcomes != {Outcome.PASSED}:
        return Verdict.INCONCLUSIVE
    return Verdict.BETTER if any(test.is_gain(scattering) for test in of_arm) else Verdict.SAME


def record(of_arm: list[Test]) -> dict[str, Any]:
    """A candidate as JSON: the verdict, the level that it was tested at, and its tests."""
    scattering = sum(not test.metric.deterministic for test in of_arm)  # the gains of counts are no matter of chance
    tests = [test.record(scattering) for test in of_arm]
    return {"arm": of_arm[0].arm, "verdict": verdict(of_arm, scattering).value, "level": of_arm[0].level, "tests": tests}


ALLOWED = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|points?)")
MEMORIES = ("inference/peak_memory_bytes", "finetune/peak_memory_bytes")
COSTS = ("model/flops_forward", "model/flops_train_step", "model/bytes_forward", "model/operators_forward")
"""Counted in every run: equal on a machine at rest and on a busy one."""
LATENCY = "inference/latency_ms_p50"


def main(options: Gate) -> int:
    """0 where every arm passed, 1 where one did not; InputError for a wrong input."""
    if options.study is None and options.results is None:
        print(overview(options.ledger))
        return 0
    limits = limits_of(options)
    new = read(options.address, [options.study], options.where) if options.study else None
    with new.reader.guarded() if new else contextlib.nullcontext():
        comparison = _of_store(new, options) if new else _of_files(options)
        pairs, unknown_arms = (_across if is_across(options) else _within)(comparison, options)
        limits = limits if new else [one for limit in limits for one in _of_tools(comparison, limit)]
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
        before = options.against or ", ".join({pair.before: None for pair in pairs})
        print(text(candidates, unknown_arms, passing, options, before))
    return 0 if passed else 1


def _recorded(ledger: Ledger, comparison: Comparison, pair: Pair, of_arm: list[Test], options: Gate) -> dict[str, Any]:
    """The ledger's answer where it has one; else the candidate is judged at the level of the next analysis, and recorded."""
    rows = [[row for section in comparison.sections if (row := section.row_of(label))] for label in (pair.before, pair.after)]
    sides = [[run for row in of_side for run in row.runs] for of_side in rows]
    before, after = (sorted({_name(run) for run in side}) for side in sides)
    baseline = {"name": f"{options.against or options.study or options.results}/{pair.before}", "runs": before}
    ledger.keep_baseline(baseline, options.move_baseline)
    limits = sorted({(test.limit.metric, test.limit.text) for test in of_arm})
    timed = any(metric in launches.JUDGED for metric, _ in limits)
    if known := ledger.find(key := Ledger.key(*(sorted(_name(run, timed) for run in side) for side in sides), limits)):
        return known | {"seen": True}
    look, level = ledger.place(after)
    line = {"study": options.study or str(options.results), **record([replace(test, level=level) for test in of_arm])}
    line |= {"baseline": baseline, "key": key, "runs": after}
    scatters = any(test.evidence for test in of_arm)  # who saw it may choose by it what is asked next
    return ledger.add(line, look if scatters else None) | {"seen": False}


def _name(run: Run, timed: bool = False) -> str:
    """What a run is, and the session that timed it: equal runs of two studies are one."""
    return f"{run.tags.get(tags.FINGERPRINT, run.run_id)} {run.session if timed else ''}".rstrip()


def limits_of(options: Gate) -> list[Limit]:
    """What the options allow; InputError without any, or for one that cannot be read."""
    if options.timing and options.timing not in launches.JUDGED:
        raise unknown("metric", options.timing, launches.JUDGED, "timing")
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
            if match is None and re.fullmatch(r"\d+\.?\d*|\.\d+", allowed):
                raise InputError(f"{option}={allowed!r} has no unit: write {allowed}%{f' or {allowed}points' * points}")
            size = float(match[1]) if match and (match[2] == "%" or points) else 0.0
            if match is None or not 0 < size < (100 if points else math.inf):
                usual = "a size above 0 and below 100, such as 0.5% or 0.5points" if points else "a size above 0, such as 0.5%"
                raise InputError(f"{option}={allowed!r}: expected {usual}")
            margin = Margin(size / 100, relative=match[2] == "%")
            limits += [Limit(metric, margin, " ".join(allowed.split())) for metric in names]
    if not limits:
        raise InputError(f"gate needs a limit: expected at least one of {'=, '.join(given)}=")
    return limits


def is_across(options: Gate) -> bool:
    """Whether the arms are held against another study, or other results."""
    return options.against not in (None, options.study)


def _of_store(new: StudyRuns, options: Gate) -> Comparison:
    """The study alone, or with the one that it is judged against, in which its arms begin with PREFIX."""
    if not is_across(options):
        return new.compared([options.baseline], options.along)
    old = read(options.address, [present(options.against)], options.where)
    shared = {run.run_id for run in old.runs}
    renamed = [
        replace(run, tags=run.tags | {tags.ARM: PREFIX + run.tags[tags.ARM]}) if tags.ARM in run.tags else run
        for run in new.runs
        if run.run_id not in shared
    ]
    for study, runs in ((old.study, old.runs), (new.study, renamed)):
        if not any(run.status == "finished" for run in runs):
            raise InputError(f"study {study!r} has no finished run; gate needs finished runs of both")
    runs = oldest_first([*old.runs, *renamed])
    return StudyRuns(new.reader, f"{new.study} against {old.study}", runs).compared([FIRST], options.along)


def _of_files(options: Gate) -> Comparison:
    """Gate on results of any tool, in one file or folder or in two."""
    asked, against = results.asked_of(options), options.against
    new = results.rows_of(present(options.results), asked)
    if against:
        new["arm"] = PREFIX + new["arm"].astype(str)
    found = results.checked([new, *([results.rows_of(Path(against), asked)] if against else [])], asked)
    if len(found.studies()) > 1:
        scores = some_of(found.metrics(scores=True), MOST_NAMES)
        raise InputError(f"these results have several scores per task: expected metric= with one of {scores}")
    name = f"{options.results} against {against}" if against else str(options.results)
    reader = ResultsReader(found, name)
    return StudyRuns(reader, name, reader.runs(name)).compared([FIRST if against else options.baseline])


OF_TOOLS = {LATENCY: ("ms", "s", "tokens/s", "samples/s"), MEMORIES[0]: ("bytes",)}
"""Metric of a limit -> units of those of other tools that it is a limit of."""


def _of_tools(comparison: Comparison, limit: Limit) -> list[Limit]:
    """The limit, of what these results have; InputError where they have nothing that it limits."""
    names = [name for name in results_of(comparison.runs) if metrics.get(name).unit in OF_TOOLS.get(limit.metric, ())]
    found = [HEADLINE] if limit.metric == HEADLINE else [name for name in names if name.startswith(metrics.OF_OTHERS)]
    if not found and limit.metric != MEMORIES[1]:
        units = OF_TOOLS.get(limit.metric)
        lacks = f"metric in {' or '.join(units)}" if units else limit.metric
        raise InputError(f"these results have no {lacks} for the limit {limit.text}")
    return [replace(limit, metric=name) for name in found]


def _within(comparison: Comparison, options: Gate) -> tuple[list[Pair], list[str]]:
    """All arms with the baseline, those without a finished run too; every one of them has it as a counterpart."""
    finished = {run.tags[tags.ARM] for run in comparison.runs}
    unfinished = (run for run in comparison.left_out if not (comparison.tasks and run.is_pretraining))
    lost = {run.tags[tags.ARM] for run in unfinished if tags.ARM in run.tags} - {*finished, comparison.baseline}
    labels = _named("arm", options.arm, [*comparison.others, *sorted(lost)])
    return [Pair(label, label, comparison.baseline) for label in labels], []


def _across(comparison: Comparison, options: Gate) -> tuple[list[Pair], list[str]]:
    """Arms of two studies: each with the same arm of the other one, or all with the baseline; and those without another."""
    new = [label.removeprefix(PREFIX) for label in comparison.labels if label.startswith(PREFIX)]
    old = [label for label in comparison.labels if not label.startswith(PREFIX)]
    labels = _named("arm", options.arm, new)
    is_alone = options.results and len(old) == 1 and old[0] not in new  # the only arm of other results is their baseline
    baseline = old[0] if is_alone and options.baseline is None else options.baseline
    if baseline is not None:
        _named(f"arm of {options.against!r}", [baseline], old, "baseline")
        return [Pair(name, PREFIX + name, baseline) for name in labels], []
    _named(f"arm of {options.against!r}", options.arm, old)
    gone = [] if options.arm else [name for name in old if name not in new]
    pairs = [Pair(name, PREFIX + name, name) for name in (*labels, *gone) if name in old]
    return pairs, [name for name in labels if name not in old]


def _named(kind: str, names: Sequence[str], labels: list[str], key: str = "arm") -> list[str]:
    """These arms, all without a name; InputError for one that there is not."""
    for name in names:
        if name not in labels:
            raise unknown(kind, name, labels, key)
    return [*names] or labels


def _spaced(text: str) -> str:
    """Limits as numbers of a text are written: `2points` becomes `2 points`."""
    return re.sub(r"(?<![\d.])1 points", "1 point", re.sub(r"(?<=\d)(?=points?\b|%)", " ", text))


def _allowed(test: dict[str, Any]) -> str:
    """The limit as it was given; in points, too, where it is a share of a score."""
    is_share = test["unit"] in formats.SHARES and "%" in test["allowed"] and "margin" in test
    allowed = _spaced(test["allowed"])
    return f"{allowed} ({100 * test['margin']:.2f} points)" if is_share else allowed


def text(candidates: list[dict[str, Any]], without: list[str], passing: set[str], options: Gate, before: str) -> str:
    """The table of all tests, why tests did not pass, the verdicts, and the result; changes are from `before`."""
    tested = [(candidate["arm"], test) for candidate in candidates for test in candidate["tests"]]
    levels = [f"{100 * test['confidence']:.3g} %" if "confidence" in test else "" for _, test in tested]
    several = len({*levels} - {""}) > 1
    change = "change [interval], level" if several else f"change [{max(levels, default='') or '90 %'} interval]"
    head = ("task", "arm", "quantity", change, "allowed", "result")
    rows = [
        (
            test["task"],
            arm,
            test["title"],
            change_text(test) + f", {level}" * bool(several and level),
            _allowed(test),
            test["outcome"],
        )
        for (arm, test), level in zip(tested, levels, strict=True)
    ]
    lines = [table(head, rows, "lllrrl"), "", wrapped(f"Baseline: {before}.")] if tested else []
    reasons = grouped((test["reason"], (f"{arm} in {test['title']}", test["task"])) for arm, test in tested if test["reason"])
    notes = [
        f"{_spaced(reason)}: {'; '.join(f'{what} on {formats.enumerated(of)}' for what, of in grouped(places).items())}."
        for reason, places in reasons.items()
    ]
    notes += ["Levels above 90 %: corrected for sequential testing."] if {*levels} - {"", "90 %"} else []
    notes += [f"Not judged, as {options.against!r} does not have it: {', '.join(without)}."] if without else []
    notes += [f"{candidate['arm']}: {look_text(candidate)}." for candidate in candidates if options.ledger]
    verdicts = grouped((said(candidate), candidate["arm"]) for candidate in candidates)
    lines += [*(wrapped(note, 2, "-") for note in notes), *(wrapped(f"{one}: {', '.join(of)}") for one, of in verdicts.items())]
    failed = Counter(test["outcome"] for _, test in tested if test["outcome"] != Outcome.PASSED.value)
    idle = [candidate["arm"] for candidate in candidates if candidate["verdict"] not in passing]
    if not tested:
        why = "the two sides have no arm in common" if is_across(options) else "the study has no other arm"
        result = f"failed: nothing to judge: {why}"
    elif failed:
        each = [f"{failed[one.value]} {one.value}" for one in Outcome if failed[one.value]]
        result = f"failed: {formats.enumerated(each)} of {counted(len(tested), 'test')}"
    else:
        result = f"failed: no improvement shown for {', '.join(idle)}" if idle else f"passed: {counted(len(tested), 'test')}"
    return "\n".join([*lines, f"Gate {result}"])
