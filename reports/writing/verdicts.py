"""A change and its verdict in words."""

import math

from harness.metrics import COUNTED_UNITS, RELATIVE_MARGIN
from harness.paired import CONFIDENCE
from harness.verdict_rules import Tells
from reports.comparison.evidence import MOST_PAIRS, Evidence, Verdict
from reports.comparison.statistics import Change
from reports.writing import formats
from reports.writing.formats import DASH, SHARES

MARKS = {
    Verdict.BETTER: "▲ better",
    Verdict.WORSE: "▼ worse",
    Verdict.DIRECTION_BETTER: "△ better?",
    Verdict.DIRECTION_WORSE: "▽ worse?",
    Verdict.EQUAL: "=",
    Verdict.SAME: "≈ same",
    Verdict.NOT_RESOLVED: "~ not resolved",
    Verdict.OPEN: DASH,
}


LEAST_SHARE = 0.1
"""Of which a percentage is shown: 3 points are 40,000 % of a correlation near 0."""


def change_text(change: Change, unit: str) -> str:
    """`−12.3 % ▲ better`; a score in points, and in percent of a baseline that is not near 0."""
    shown = formats.percent(change.percent)
    if unit in SHARES:
        in_percent = f" ({shown})" if abs(change.baseline_mean) >= LEAST_SHARE else ""
        shown = f"{formats.difference(change.absolute, unit)}{in_percent}"
    return f"{shown} {verdict_text(change, unit)}".rstrip()


def verdict_text(change: Change, unit: str) -> str:
    """The verdict with its margin, or what it lacks; empty for a metric that is no merit."""
    evidence, words = change.evidence, MARKS.get(change.verdict, "")
    if change.verdict is Verdict.SAME:
        return f"{words} {within(change, unit)}"
    if evidence is None:
        return words
    if change.verdict is Verdict.OPEN and evidence.tells is Tells.NOTHING:
        return "no verdict: no better than the constant answer"
    if change.verdict is Verdict.OPEN and evidence.is_too_noisy:
        return f"no verdict: noise floor {amount(evidence, evidence.floor, unit)}"
    if change.verdict is Verdict.NOT_RESOLVED:
        return words + (f": {lacking(change, unit)}" if lacking(change, unit) else "")
    return words


def within(change: Change, unit: str) -> str:
    """`within 5 %`: the margin of what is the same, which is relative for all counts."""
    evidence, counted = change.evidence, change.evidence is None or unit in COUNTED_UNITS
    return f"within {100 * RELATIVE_MARGIN.size:g} %" if counted else f"within {amount(evidence, evidence.margin, unit)}"


def amount(evidence: Evidence, size: float, unit: str) -> str:
    """A margin or floor as people read it: `5 %`, `1 point`, `0.020 nats`."""
    if evidence.ratio:
        return f"{100 * math.expm1(size):.2g} %"
    if unit in SHARES:
        return f"{formats.POINTS * size:.2g} point{'s' * (f'{formats.POINTS * size:.2g}' != '1')}"
    return formats.value(size, unit)


def lacking(change: Change, unit: str) -> str:
    """Why a change is not resolved: a solved task, floor or items beyond the margin, or too few pairs; empty where unknown."""
    evidence = change.evidence
    if not evidence.has_enough:
        return more_needed(change) or f"needs {evidence.fewest} {_replicates(change)} or more"
    if evidence.tells is Tells.NO_EQUALITY:
        return "both solve the task"
    if change.is_below_floor:
        floor = amount(change.evidence, change.evidence.floor, unit)
        return f"noise floor {floor}" if change.evidence.ratio else f"one item is {floor}"
    if change.is_below_items:
        reach = amount(evidence, evidence.items_reach(change.factor), unit)
        return f"the items leave ± {reach}"
    return more_needed(change)


def _replicates(change: Change) -> str:
    return "rounds" if change.by_round else "pretrainings" if change.pretrainings > 1 else "seeds"


def more_needed(change: Change) -> str:
    """`needs 12 seeds, 30 min more`; empty where that is not known."""
    if not change.needed:
        return ""
    number = f"over {MOST_PAIRS:,}" if change.needed > MOST_PAIRS else f"{change.needed:,}"
    known = change.minutes is not None and change.needed <= MOST_PAIRS
    more = f", {formats.plain(change.minutes, 0 if change.minutes >= 10 else 1)} min more" if known else ""
    return f"needs {number} {_replicates(change)}{more}"


def size_text(change: Change, unit: str) -> str:
    """`−30.0 % [−35.0, −25.0]`; of a score or a share in points. Without an interval the number alone.

    An interval that is not of 95 % says so: `−0.1 points [−0.4, +0.2] (90 %)` of what is the same.
    """
    return _size(change, unit) + (f" ({100 * change.confidence:.0f} %)" if _has_other_confidence(change, unit) else "")


def _has_other_confidence(change: Change, unit: str) -> bool:
    return change.interval is not None and unit not in COUNTED_UNITS and change.confidence != CONFIDENCE


def _size(change: Change, unit: str) -> str:
    exact = change.interval is None or unit in COUNTED_UNITS
    in_percent = change.percent is not None and (exact or change.evidence.ratio)
    if unit in SHARES or not in_percent:
        return formats.difference(change.absolute, unit, change.interval)
    if exact:
        return formats.percent(change.percent)
    return formats.difference(change.percent, "%", tuple(100 * end / change.baseline_mean for end in change.interval))


def short_text(change: Change, unit: str) -> str:
    """`−12.3 % ▲`, of a score in points: the mark alone."""
    shown = formats.difference(change.absolute, unit) if unit in SHARES else formats.percent(change.percent)
    return f"{shown} {MARKS.get(change.verdict, '').partition(' ')[0]}".rstrip()
