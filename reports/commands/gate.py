"""`python -m reports gate`: fails where an arm is not shown to be at most so much worse than it was, for checks in CI."""

import argparse
import re
from dataclasses import replace

from harness import metrics, tags
from harness.metrics import Compared, Margin
from harness.terminal import table, wrapped
from reports.commands import arguments
from reports.comparison import non_inferiority
from reports.comparison.compare import Comparison, compare
from reports.comparison.non_inferiority import PREFIX, Limit, Outcome, Pair, Test
from reports.comparison.section import HEADLINE
from reports.errors import ReportError, unknown
from reports.read import Found, compare_with_any, read
from reports.reading.store import Run
from reports.writing import formats, tables
from reports.writing.formats import DASH, SHARES

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
    found = non_inferiority.tests(comparison, pairs, limits)
    print(text(found, unknown_arms, options))
    return 0 if found and all(one.outcome is Outcome.PASSED for one in found) else 1


def parse(given: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = arguments.Parser("gate", "Test that arms are not worse than they were; exit code 1 where that is not shown.")
    parser.add_argument("--study", metavar="NEW", required=True, help="study that is judged")
    parser.add_argument("--against", metavar="OLD", help="study that it is judged against (default: itself, with --baseline)")
    parser.add_argument(
        "--arm", metavar="NAME", action="append", default=[], help="arm to judge; may be repeated (default: all)"
    )
    parser.add_argument("--baseline", metavar="NAME", help="arm to judge against (default: the same arm; in one study, base)")
    parser.add_argument("--max-drop", metavar="X", help="of the score: 0.5%% of what it was, or 0.5points")
    parser.add_argument("--max-slowdown", metavar="X%", help="of the latency, or of --timing")
    parser.add_argument("--max-memory", metavar="X%", help="more peak memory of inference and of training")
    parser.add_argument("--timing", metavar="METRIC", default=LATENCY, help=f"timing of --max-slowdown (default: {LATENCY})")
    arguments.add_where(parser)
    return parser.parse(given)


def limits_of(options: argparse.Namespace) -> list[Limit]:
    """What the options allow; ReportError without any, or for one that cannot be read."""
    if options.timing not in TIMINGS:
        raise unknown("metric in --timing", options.timing, sorted(TIMINGS))
    given = {
        "--max-drop": (options.max_drop, (HEADLINE,)),
        "--max-slowdown": (options.max_slowdown, (options.timing,)),
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
    found = ALLOWED.fullmatch(allowed.strip())
    if found is None or (found[2] != "%" and not points) or not float(found[1]):
        raise ReportError(f"{option} {allowed!r}; expected a size above 0, such as 0.5%{' or 0.5points' if points else ''}")
    return Margin(float(found[1]) / 100, relative=found[2] == "%")


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


def _within(found: Found, options: argparse.Namespace) -> tuple[Comparison, list[Pair], list[str]]:
    comparison = compare(found.study, found.runs, options.baseline, options.along, found.reader.output)
    labels = [label for label in comparison.labels if label != comparison.baseline]
    chosen = _chosen(labels, options.arm)
    return comparison, [Pair(label, label, comparison.baseline) for label in chosen], []


def _across(comparison: Comparison, options: argparse.Namespace) -> tuple[list[Pair], list[str]]:
    new = [label.removeprefix(PREFIX) for label in comparison.labels if label.startswith(PREFIX)]
    old = [label for label in comparison.labels if not label.startswith(PREFIX)]
    if options.baseline is not None and options.baseline not in old:
        raise unknown(f"arm of {options.against!r} in --baseline", options.baseline, old)
    chosen = _chosen(new, options.arm)
    for name in options.arm:
        if options.baseline is None and name not in old:
            raise unknown(f"arm of {options.against!r}", name, old)
    gone = [] if options.baseline or options.arm else [name for name in old if name not in new]
    judged = [name for name in [*chosen, *gone] if options.baseline or name in old]
    pairs = [Pair(name, PREFIX + name, options.baseline or name) for name in judged]
    return pairs, [name for name in chosen if not options.baseline and name not in old]


def _chosen(labels: list[str], names: list[str]) -> list[str]:
    for name in names:
        if name not in labels:
            raise unknown("arm", name, labels)
    return names or labels


def _renamed(run: Run) -> Run:
    return replace(run, tags=run.tags | {tags.ARM: PREFIX + run.tags[tags.ARM]}) if tags.ARM in run.tags else run


def text(found: list[Test], without: list[str], options: argparse.Namespace) -> str:
    """The table of all tests, why tests did not pass, and the result."""
    lines = [table(HEAD, [_line(one) for one in found], ALIGNED), ""] if found else []
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.reason:
            reasons.setdefault(one.reason, []).append(f"{one.section.task} {one.arm} {one.limit.metric}")
    lines += [wrapped(f"{reason}: {', '.join(names)}.", 2, "-") for reason, names in reasons.items()]
    if without:
        lines.append(wrapped(f"Not in {options.against!r}, so not judged: {', '.join(without)}.", 2, "-"))
    failed = sum(one.outcome is not Outcome.PASSED for one in found)
    if not found:
        return "\n".join([*lines, "failed: nothing to judge: the two sides have no arm in common"])
    tests = f"{len(found)} test{'s' * (len(found) != 1)}"
    return "\n".join([*lines, f"failed: {failed} of {tests}" if failed else f"passed: {tests}"])


def _line(one: Test) -> tuple[str, ...]:
    name = tables.score_title(one.section) if one.limit.metric == HEADLINE else one.limit.metric
    return one.section.task, one.arm, name, _change(one), one.limit.text, one.outcome.value


def _change(one: Test) -> str:
    change, unit = one.change, metrics.get(one.limit.metric).unit
    if change is None:
        return DASH
    if unit in SHARES or change.percent is None:
        return formats.difference(change.absolute, unit, one.interval)
    ends = tuple(100 * end / abs(change.baseline_mean) for end in one.interval) if one.interval else None
    return formats.difference(change.percent, "%", ends)
