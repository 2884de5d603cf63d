"""The first two sentences of a report: what the arms score against the baseline, and which of them costs least."""

import math
import re
from itertools import chain

from harness import metrics
from harness.comparison import overall
from harness.comparison.compare import Comparison
from harness.comparison.overall import Overall
from harness.comparison.paired import Tells, grouped
from harness.comparison.plateau import LOSS
from harness.comparison.section import HEADLINE
from harness.comparison.verdicts import Verdict, judge
from harness.metrics import PER_BYTE, RELATIVE_MARGIN
from harness.reports.writing import findings, formats, tables
from harness.reports.writing.findings import Effect
from harness.reports.writing.formats import enumerated, escape, listed
from harness.reports.writing.shown import SHOWN

NAMED = 3
"""Arms that are named for one verdict; more are counted."""
OUTCOMES = (HEADLINE, LOSS, PER_BYTE[LOSS], *SHOWN.own)
"""Metrics of what was learned; all others of the overview are costs."""
NONE_BETTER, NO_VERDICT = "no arm is shown to be better in", "no verdict on"
ALL_EQUAL, ALL_SAME = "all equal the baseline in", "all are equivalent to the baseline in"
SAID: dict[Verdict | Tells, tuple[str, str]] = {
    Verdict.BETTER: ("is **better** than {base}", "are **better** than {base}"),
    Verdict.WORSE: ("is **worse** than {base}", "are **worse** than {base}"),
    Verdict.SAME: ("is equivalent to {base}", "are equivalent to {base}"),
    Tells.NO_EQUALITY: ("solves {what}, as {base} does", "solve {what}, as {base} does"),
    Verdict.INCONCLUSIVE: ("is inconclusive", "are inconclusive"),
    Verdict.DIRECTION_BETTER: ("has one seed: not evidence", "have one seed each: not evidence"),
    Verdict.OPEN: ("has no verdict", "have no verdict"),
}
"""Verdict -> how it is said of one arm and of several."""


def answer(comparison: Comparison) -> list[str]:
    """The answer as one paragraph; none if the baseline has no finished run."""
    return [" ".join(found)] if (found := sentences(comparison)) else []


def sentences(comparison: Comparison) -> list[str]:
    """What was reached, and what it costs."""
    if comparison.baseline not in comparison.labels:
        return []
    if len(comparison.labels) == 1:
        return _alone(comparison)
    effects = findings.effects(comparison)
    of_outcomes = [found for name in OUTCOMES if (found := [effect for effect in effects if effect.metric == name])]
    said = of_outcomes[: 2 if {effect.metric for found in of_outcomes for effect in found} >= {HEADLINE, LOSS} else 1]
    costs = [effect for effect in effects if effect.metric not in OUTCOMES]
    return [
        *(_outcome(comparison, of_outcome) for of_outcome in said),
        *([_costs(costs, [*chain(*said[:1])])] if costs else []),
    ]


def _outcome(comparison: Comparison, effects: list[Effect]) -> str:
    """`**Score**: a (−9.9 points) is **worse** than base; b (within 1 point) is equivalent to base.`"""
    name, base = effects[0].name.capitalize(), escape(comparison.baseline)
    over = overall.of_tasks(comparison)
    if effects[0].metric == HEADLINE and all(
        findings.is_below_constant(section, row) for section in over.sections for row in section.rows
    ):
        return f"**{name}**: no model beats the majority baseline, so scores can't rank them."
    tasks, *others = {effect.tasks for effect in effects}
    mean = f", mean of {tasks}" if tasks and not others else ""
    what, of_verdict = "all tasks" if mean else "the task", grouped((_said_with(effect), effect) for effect in effects)
    clauses = ["none is better"] if len(effects) > NAMED and Verdict.BETTER not in of_verdict else []
    for verdict, (one, several) in SAID.items():
        if found := of_verdict.get(verdict):
            said = (several if len(found) > 1 else one).format(what=what, base=base)
            clauses.append(f"{_who(over, found)} {said}")
    return f"**{name}{mean}**: {'; '.join(clauses)}."


def _said_with(effect: Effect) -> Verdict | Tells | None:
    """Its verdict; that the tasks cannot tell the arms apart where that is why it is inconclusive."""
    evidence, is_open = effect.change.evidence, effect.said_with is Verdict.INCONCLUSIVE
    return Tells.NO_EQUALITY if is_open and evidence and evidence.tells is Tells.NO_EQUALITY else effect.said_with


def _who(over: Overall, effects: list[Effect]) -> str:
    if len(effects) > NAMED:
        low, high = (
            formats.difference(end([effect.change.absolute for effect in effects]), effects[0].unit) for end in (min, max)
        )
        start = "" if low == high else f"{low.rpartition(' ')[0]} to "
        return f"{len(effects)} arms ({start}{high})"
    texts = [f"{escape(effect.label)}{f' ({size})' if (size := _size(over, effect)) else ''}" for effect in effects]
    return enumerated(texts)


def _size(over: Overall, effect: Effect) -> str:
    """How large, or within which margin the same; on which tasks it is better or worse where the mean does not say."""
    verdict = effect.change.verdict
    if effect.said_with is Verdict.SAME:
        return tables.within(effect.change, effect.unit) if verdict is Verdict.SAME else ""
    size = formats.difference(effect.change.absolute, effect.unit)
    if effect.metric != HEADLINE or not effect.tasks or verdict is not Verdict.INCONCLUSIVE:
        return size
    decided = []
    for section, change in over.of_scores(effect.label):
        if change.verdict in (Verdict.BETTER, Verdict.WORSE):
            points = formats.difference(change.absolute, effect.unit)
            decided.append(f"{change.verdict.value} on {escape(section.name)}: {points}")
    return "; ".join([size, *decided[:NAMED]])


def _costs(effects: list[Effect], scores: list[Effect]) -> str:
    """`**Cost**: a is better in parameters (−54.3 %), but worse in latency (+8.0 %); b is better in forward FLOPs (−11.6 %).`

    Of many arms the best in each metric are named.
    Where the arms of a verdict on scores are counted, not named, it follows for those that cost least: `a is worse in score.`
    """
    of_verdict = grouped((effect.change.verdict, effect) for effect in scores)
    many = [verdict for verdict in (Verdict.WORSE, Verdict.INCONCLUSIVE) if len(of_verdict.get(verdict, [])) > NAMED]
    is_few = len({effect.label for effect in effects}) <= NAMED
    said: list[tuple[str, str]] = []
    cheapest: list[str] = []
    for name, of_metric in grouped((escape(effect.name), effect) for effect in effects).items():
        better = [effect for effect in of_metric if effect.change.verdict is Verdict.BETTER]
        verdicts = {effect.said_with for effect in of_metric}
        decided = [
            (f"{escape(effect.label)} is {verdict.value} in", f"{name} ({_from_to([effect])})")
            for verdict in (Verdict.BETTER, Verdict.WORSE)
            for effect in of_metric
            if effect.change.verdict is verdict
        ]
        if is_few:
            said += decided
        elif better:
            most = max(better, key=_gain)
            near = math.log1p(RELATIVE_MARGIN.size) if metrics.get(most.metric).by_ratio else 1e-9 * _gain(most)
            equal = [effect for effect in better if _gain(most) - _gain(effect) <= near]
            ahead = any(
                judge(metrics.get(effect.metric).direction, effect.change.absolute, True) is Verdict.BETTER
                and _gain(effect) - _gain(most) > near
                for effect in of_metric
            )  # measured to be better, and not shown
            verb = f"{'are' if len(equal) > 1 else 'is'} {'better' if ahead or len(of_metric) == 1 else 'best'} in"
            first = [effect.label for effect in equal]
            cheapest += first if len(first) < NAMED else first[: NAMED - 1]
            said.append((f"{listed(first, most=NAMED - 1)} {verb}", f"{name} ({_from_to(equal)})"))
        if better or (is_few and decided):
            continue
        if verdicts == {Verdict.SAME}:
            said.append((ALL_SAME if any(effect.change.absolute for effect in of_metric) else ALL_EQUAL, name))
        else:
            is_unknown = verdicts <= {Verdict.OPEN, Verdict.DIRECTION_BETTER}
            said.append((NO_VERDICT if is_unknown else NONE_BETTER, name))
    last = (NONE_BETTER, ALL_EQUAL, ALL_SAME, NO_VERDICT)
    by_arm = sorted(said, key=lambda clause: clause[0]) if is_few else said
    clauses = sorted(grouped(by_arm).items(), key=lambda clause: last.index(clause[0]) if clause[0] in last else -1)
    notes = (
        f"{enumerated(of)} {'are' if of[1:] else 'is'} {verdict.value} in {scores[0].name}."
        for verdict in many
        if (of := [escape(effect.label) for effect in of_verdict[verdict] if effect.label in cheapest])
    )
    text = "; ".join(f"{words} {enumerated(names)}" for words, names in clauses)
    text = re.sub(r"(?:^|(?<=; ))((.+?) is better in [^;]*); \2 is worse", r"\1, but worse", text)
    return " ".join([f"**Cost**: {text}.", *notes])


def _from_to(effects: list[Effect]) -> str:
    """`−59.5 to −59.9 %`, or `−59.9 %` where all are written so; whether one is below the noise floor."""
    texts = dict.fromkeys(formats.percent(effect.change.percent) for effect in sorted(effects, key=_gain))
    first, *_, last = [*texts] * 2
    text = last if first == last else f"{first.removesuffix(' %' * last.endswith('%'))} to {last}"
    return text + ", below the noise floor" * any(effect.is_below_floor for effect in effects)


def _gain(effect: Effect) -> float:
    """Size of a change, as a log ratio where it has one: 10 times as fast is as much as a tenth of the time."""
    change = effect.change
    after = change.baseline_mean + change.absolute
    return abs(math.log(after / change.baseline_mean)) if change.baseline_mean > 0 and after > 0 else abs(change.absolute)


def _alone(comparison: Comparison) -> list[str]:
    """What the only arm has reached and costs."""
    label, sentences, costs = comparison.baseline, [], []
    for over, names in findings.parts(comparison):
        for metric, name in names.items():
            spread, unit = over.spread(label, metric), metrics.get(metric).unit
            if spread is None:
                continue
            text = f"{name} {formats.value(spread.mean, unit)}"
            if metric in OUTCOMES:
                sentences.append(_reached(over, text) if metric == HEADLINE else text)
            else:
                costs.append(text)
    reached = f"{enumerated(sentences)}; " if sentences else ""
    alone = f"**{escape(label)}**: {reached}only one arm, nothing to compare."
    return [alone, *([f"**Cost**: {enumerated(costs)}."] if costs else [])]


def _reached(over: Overall, text: str) -> str:
    """`score 0.367 (accuracy on bag, not shown to beat the majority baseline)`."""
    scored = over.having(over.comparison.baseline, HEADLINE)
    tasks, section = findings.counted(scored), (scored or over.sections)[0]
    what = f"mean of {tasks}" if tasks else f"{tables.score_title(section)} on {escape(section.name)}"
    low = [one for one in over.sections if one.before and findings.is_below_constant(one, one.before)]
    on = f" on {listed((one.task for one in low), most=NAMED)}" if tasks else ""
    caution = f", not shown to beat the majority baseline{on}" if low else ""
    return f"{text} ({what}{caution})"
