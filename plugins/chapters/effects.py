"""Factorial designs: which changes of the baseline were combined, and what each adds, alone, on average, last, and with others.

An effect is a contrast: a weighted sum over arms, computed within each seed (each round for launches), so that shared
variation cancels (Montgomery, Design and Analysis of Experiments, ch. 6). Ratios are contrasted as logarithms.
"""

import math
from dataclasses import dataclass
from itertools import combinations

from matplotlib.figure import Figure

from harness import metrics
from harness.comparison import arms, launches, paired
from harness.comparison.paired import Replicate, compare_paired
from harness.comparison.section import HEADLINE, Row, Section
from harness.comparison.verdicts import Change, corrected, evidence, of_evidence
from harness.document import Block, Table
from harness.document import Section as Part
from harness.metrics import judged_by
from harness.plugins.pictures import plots
from harness.reports.chapters import Added, tasks
from harness.reports.reading.study import Study
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import POINTS, Chapter, escape, listed
from harness.reports.writing.tables import size_text

Combination = frozenset[str]
"""Names of the changes that an arm has; empty for the baseline."""
Settings = frozenset[tuple[str, str | None]]
"""Keys in which an arm differs from the baseline, with its values."""
NAMES = ("model_name", "scale_name", "enhancements.", "facts.")
"""Facts that name an arm or follow from its settings."""
ENHANCEMENT = "enhancements."
ALONE, MAIN, INTERACTION, LAST, STACKED = "alone", "main effect", "interaction", "added last", "stacking"


@dataclass(frozen=True)
class Design:
    """The baseline's row, those of single changes, and those of combinations of them."""

    section: Section
    factors: tuple[str, ...]
    rows: dict[Combination, Row]
    alternatives: frozenset[Combination] = frozenset()  # pairs of changes that set one key to different values

    @property
    def missing(self) -> list[Combination]:
        """Combinations that no arm has and one could have, small ones first."""
        every = [frozenset(factors) for size in range(len(self.factors) + 1) for factors in combinations(self.factors, size)]
        return [arm for arm in every if arm not in self.rows and not any(pair <= arm for pair in self.alternatives)]


@dataclass(frozen=True)
class Effect:
    """A contrast over arms; `kind` is one of the constants above."""

    kind: str
    factors: tuple[str, ...]
    weights: dict[Combination, float]

    @property
    def name(self) -> str:
        return " × ".join(self.factors)

    @property
    def key(self) -> str:
        """As `changes` names it."""
        return f"{self.kind} {self.name}"


def design(section: Section) -> Design | None:
    """The design of the arms whose settings are those of single other arms together; None where there are none."""
    if section.before is None:
        return None
    single: dict[str, Settings] = {}
    combined: dict[Combination, Row] = {}
    changed = {}  # settings in which an arm differs from the baseline, with its values
    for row in section.rows:
        keys = arms.varying((section.before.first.facts, row.first.facts))
        changed[row.label] = frozenset((key, row.first.facts.get(key)) for key in keys if not arms.within(key, NAMES))
    for row in sorted(section.rows, key=lambda row: len(changed[row.label])):
        mine = changed[row.label]
        parts = [name for name, part in single.items() if part <= mine]
        parts = [name for name in parts if not any(single[name] < single[other] for other in parts)]
        if len(parts) > 1 and frozenset.union(*(single[name] for name in parts)) == mine:
            combined.setdefault(frozenset(parts), row)
        elif mine and mine not in single.values():
            single[row.label] = mine
    used = [name for name in single if any(name in changed for changed in combined)]
    if not used:
        return None
    names, of_baseline = {}, section.baseline.split()
    for label in used:  # of an arm that is one enhancement its name, else what its label adds to that of the baseline
        facts = section.by_label[label].first.facts
        named = [key.removeprefix(ENHANCEMENT) for key in facts if key.startswith(ENHANCEMENT) and facts[key] == "True"]
        names[label] = named[0] if len(named) == 1 else " ".join(word for word in label.split() if word not in of_baseline)
    if len(set(filter(None, names.values()))) < len(used):
        names = {label: label for label in used}
    rows: dict[Combination, Row] = {frozenset(): section.before}
    rows |= {frozenset([names[label]]): section.by_label[label] for label in used}
    rows |= {frozenset(names[label] for label in changed): row for changed, row in combined.items()}
    pairs = [pair for pair in combinations(used, 2) if len(dict(both := single[pair[0]] | single[pair[1]])) < len(both)]
    return Design(section, tuple(names.values()), rows, frozenset(frozenset(names[label] for label in pair) for pair in pairs))


def effects(study: Design) -> list[Effect]:
    """All whose arms were run. An interaction is how much more one change gives with the other than without it; stacking is
    all combined minus the sum of the single effects."""
    every, none = frozenset(study.factors), frozenset[str]()
    of_sum = {every: 1.0, none: len(study.factors) - 1.0} | {frozenset([factor]): -1.0 for factor in study.factors}
    candidates = [
        *(Effect(ALONE, (factor,), {frozenset([factor]): 1.0, none: -1.0}) for factor in study.factors),
        *(Effect(MAIN, (factor,), _contrast(study, (factor,))) for factor in study.factors),
        *(Effect(LAST, (factor,), {every: 1.0, every - {factor}: -1.0}) for factor in study.factors),
        *(Effect(INTERACTION, pair, _contrast(study, pair)) for pair in combinations(study.factors, 2)),
        Effect(STACKED, ("all together",), of_sum),
    ]
    return [effect for effect in candidates if effect.weights and effect.weights.keys() <= study.rows.keys()]


def _contrast(study: Design, factors: tuple[str, ...]) -> dict[Combination, float]:
    """With minus without, averaged over all settings of the others; empty for an incomplete design, and for alternatives."""
    arms_with = [] if study.missing else [arm for arm in study.rows if arm.issuperset(factors)]
    weights: dict[Combination, float] = {}
    for arm in arms_with:
        for size in range(len(factors) + 1):
            for without in combinations(factors, size):
                changed = arm.difference(without)
                weights[changed] = weights.get(changed, 0.0) + (-1) ** size / len(arms_with)
    return weights


def changes(study: Design, metric: str, effects: list[Effect]) -> dict[str, Change | None]:
    """Kind and name -> effect; None where arms share no seed or round.

    What one change does alone has the verdict of its arm, the others are one family of tests (Holm).
    """
    alone = {it.key: study.section.change(study.rows[frozenset(it.factors)], metric) for it in effects if it.kind == ALONE}
    return alone | corrected({it.key: _change(study, metric, it) for it in effects if it.kind != ALONE})


def _change(study: Design, metric: str, effect: Effect) -> Change | None:
    section, rows = study.section, {arm: study.rows[arm] for arm in effect.weights}
    declared, is_timed, baseline = metrics.get(metric), metric in launches.JUDGED, study.rows[frozenset()]
    launched = [{run.session for run in row.runs if run.launches} for row in rows.values()]
    shared = [name for name in section.sessions.names if all(name in names for names in launched)]  # by all arms
    base, ratio = baseline.mean(metric), declared.margin.relative
    if base is None or (is_timed and not shared):
        return None
    values = {arm: row.values(metric) for arm, row in rows.items()}
    if is_timed:  # by round of the newest session
        session = shared[-1]
        timed = {arm: next(run for run in row.runs if run.session == session and run.launches) for arm, row in rows.items()}
        levels = {arm: section.sessions.levels(run, launches.JUDGED[metric]) for arm, run in timed.items()}
        values = {arm: {Replicate("", str(step)): value for step, value in own.items()} for arm, own in levels.items()}
    if ratio:
        values = {arm: {key: math.log(one) for key, one in own.items() if one > 0} for arm, own in values.items()}
    keys = sorted(set.intersection(*map(set, values.values())))
    sums = {key: math.fsum(weight * values[arm][key] for arm, weight in effect.weights.items()) for key in keys}
    difference = compare_paired(dict.fromkeys(sums, 0.0), sums)
    if difference is None:
        return None
    runs = [run for row in rows.values() for run in row.runs]
    if is_timed:
        looks = max(run.looks for run in runs if run.session == session)
        floor = section.sessions.floor(session, section.place, launches.JUDGED[metric])
        return of_evidence(launches.evidence(declared, difference, floor, looks), base)
    others = [(weight, pairing) for arm, weight in effect.weights.items() if (pairing := section.against(rows[arm]))]
    # over the items, of each arm's change from the baseline, as if independent
    of_items = math.hypot(*(weight * pairing.items_error(metric) for weight, pairing in others))
    floor = baseline.item if declared.unit == "score" else None
    if declared.unit == "bytes":
        floor = section.sessions.memory_floor(runs)
    tells = paired.tells_of_tasks([pairing.tells(metric) for _, pairing in others])
    looks = max(run.seed_looks for run in runs)
    return of_evidence(evidence(declared, difference, base, floor, ratio, of_items, tells, looks), base)


def exact(study: Design, metric: str, effect: Effect) -> float | None:
    """The contrast of logarithms of a count, as a share; None where an arm has no such count."""
    logs = [weight * math.log(count) for arm, weight in effect.weights.items() if (count := study.rows[arm].mean(metric))]
    return math.expm1(math.fsum(logs)) if len(logs) == len(effect.weights) else None


# The chapter

COUNTED = ("model/params_total", "model/flops_forward")
TIMED = ("inference/latency_ms_p50", "inference/peak_memory_bytes")
INTRO = """\
Changes of the baseline, tried alone and combined. *alone*: relative to the baseline. *main effect*: with minus without,
averaged over all settings of the others. *added last*: all combined minus all but this one. *interaction*: how much more one
change gives with the other than without it. *stacking*: all combined minus the sum of the single effects. Effects are computed
within a seed (latency: within a round): [t interval], verdict, p. Single effects are those of the arms; all others are
Holm-corrected for their number in a column. Counts, times and memory are contrasted as logarithms, so percentages multiply."""
INCOMPLETE = "No main effects or interactions: these combinations were not run: {missing}."
CAPTION = "Effects on the score, with the intervals of the table; the grey line marks no effect"
SHOWN = 6


def chapter(study: Study) -> Chapter:
    """Empty where no arm combines the changes of others."""
    designs = [one for section in study.comparison.selected_tasks if (one := design(section))]
    if not designs:
        return Chapter()
    blocks: list[Block] = [INTRO]
    for one in designs:
        names = [" + ".join(sorted(arm)) or one.section.baseline for arm in one.missing]
        incomplete = [INCOMPLETE.format(missing=listed(names, most=SHOWN))] if names else []
        blocks.append(Part(f"Effects: {escape(one.section.name)}", [table(one), *incomplete]))
    pictures, files = plots.drawn({"effects.svg": (CAPTION, forest, designs)})
    return Chapter([Part("Effects of combined changes", [*blocks, *pictures])], files)


def table(study: Design) -> Table:
    """One row per effect."""
    section, contrasts = study.section, effects(study)
    counted = tables.present(section, COUNTED)
    timed = [judged_by(name, lambda name: tables.present(section, [name])) for name in TIMED]
    measured = tables.present(section, (HEADLINE, *timed))
    columns = {name: changes(study, name, contrasts) for name in measured}
    rows = []
    for effect in contrasts:
        cells = [tables.difference(columns[name][effect.key], metrics.get(name).unit) for name in measured]
        shares = [exact(study, name, effect) for name in counted]
        percents = [formats.percent_cell(None if share is None else 100 * share) for share in shares]
        rows.append([effect.kind, escape(effect.name), *cells, *percents])
    header = ["effect", "of", *(tables.title(section, name) for name in (*measured, *counted))]
    return formats.table(header, rows, left=2)


def forest(designs: list[Design]) -> Figure | None:
    """The effects on the score of every task, one panel a task; None where no effect has an interval."""
    panels: dict[str, dict[str, Change]] = {}
    for one in designs:
        contrasts = effects(one)
        on_score = changes(one, HEADLINE, contrasts)
        drawn = {f"{it.kind}: {it.name}": change for it in contrasts if (change := on_score[it.key]) and change.interval}
        panels |= {one.section.name: drawn} if drawn else {}
    if not panels:
        return None
    figure, axes = plots.rows_of(panels.values(), 5.6)
    ends = [abs(end) * POINTS for drawn in panels.values() for change in drawn.values() for end in change.interval or ()]
    reach = 1.08 * max(LEAST_POINTS, *ends)
    for panel, (title, drawn) in zip(axes, panels.items(), strict=True):
        panel.axvline(0, color="0.6", linewidth=1)
        for place, (name, change) in enumerate(drawn.items()):
            span = [end * POINTS for end in change.interval or ()]
            plots.interval(panel, place, change.absolute * POINTS, span, f"{name}\n{size_text(change, 'score')}")
        panel.set(title=title, xlabel="score (points)", xlim=(-reach, reach))
    return figure


LEAST_POINTS = 2.0
"""Half the width of an axis of points at least: smaller effects are shown as small."""


CHAPTER = Added(chapter, before=tasks.chapter, order=5)
