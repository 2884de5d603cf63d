"""The report's tables: values, changes and verdicts; and the rows of `summary.csv`.

A column that no row has is left out; a missing number is a dash.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from harness import metrics, tags
from harness.comparison import arms, by_launch
from harness.comparison.compare import Comparison
from harness.comparison.paired import CONFIDENCE, MOST_PAIRS, Design, Replicate, Spread, Tells, Values, pair, quantiles
from harness.comparison.plateau import LOSS
from harness.comparison.runs import Run
from harness.comparison.section import ACCURACY, FREQUENCIES, HEADLINE, MAJORITY, RESULTS, UNIGRAM, Row, Section, results_of
from harness.comparison.verdicts import Change, Evidence, Verdict
from harness.document import DASH, Cell, Table
from harness.metrics import COUNTED_UNITS, PER_BYTE, RELATIVE_MARGIN, Compared, Direction, Metric, judged_by
from harness.reports.writing import formats
from harness.reports.writing.formats import SHARES, escape
from harness.reports.writing.shown import SHOWN

MARKS = SHOWN.marks

SELECTED = "§"
SELECTED_NOTE = (
    f"{SELECTED} Epoch or setting selected on the reported rows (`finetune.keep_best`, `search.selected_on`), "
    "so the score is biased upwards."
)
"""Mark of a score, and what it says."""

LEAST_SHARE = 0.1
"""A percentage of less is not shown: 3 points are 40,000 % of a correlation near 0."""


def change_text(change: Change | None, unit: str) -> str:
    """`−12.3 % ▲ better`; a score in points, a loss in nats, and in percent of a baseline that is not near 0."""
    if change is None:
        return DASH
    size = short_size(change, unit)
    if unit in metrics.MARGINS and abs(change.baseline_mean) >= LEAST_SHARE:
        size += f" ({formats.percent(change.percent)})"
    return f"{size} {verdict_text(change, unit)}".rstrip()


def short_size(change: Change, unit: str) -> str:
    """In points or nats where the margin is in these, else in percent."""
    return formats.difference(change.absolute, unit) if unit in metrics.MARGINS else formats.percent(change.percent)


def verdict_text(change: Change, unit: str) -> str:
    """The verdict with its margin, or what it lacks; empty for a metric without a better direction."""
    evidence, words = change.evidence, MARKS[change.verdict] if change.verdict else ""
    if change.verdict is Verdict.SAME:
        return f"{words} {within(change, unit)}"
    if evidence and change.verdict is Verdict.OPEN:
        if evidence.tells is Tells.NOTHING:
            return "no verdict: no better than the majority baseline"
        if evidence.is_too_noisy:
            return f"no verdict: noise floor {amount(evidence, evidence.floor or 0.0, unit)}"
    why = lacking(change, evidence, unit) if evidence and change.verdict is Verdict.INCONCLUSIVE else ""
    return f"{words}: {why}" if why else words


def of_shared_seeds(columns: Iterable[Iterable[Values]]) -> list[str]:
    """A note where arms have values of different seeds: changes are not the differences of the shown means."""
    differ = (len({*map(frozenset, filter(None, arms))}) > 1 for arms in columns)
    return ["Changes use only the seeds that both arms have."] * any(differ)


def within(change: Change, unit: str) -> str:
    """`within 5 %`: the margin of what is the same, which is relative for all counts."""
    evidence = change.evidence
    if evidence is None or unit in COUNTED_UNITS:
        return f"within {100 * RELATIVE_MARGIN.size:g} %"
    return f"within {amount(evidence, evidence.margin, unit)}"


def amount(evidence: Evidence, size: float, unit: str) -> str:
    """A margin or floor as people read it: `5 %`, `1 point`, `0.020 nats`."""
    if evidence.ratio:
        return by_launch.percent_text(size)
    if unit in SHARES:
        points = f"{formats.POINTS * size:.2g}"
        return f"{points} point{'s' * (points != '1')}"
    return formats.value(size, unit)


def lacking(change: Change, evidence: Evidence, unit: str) -> str:
    """Why a change is inconclusive: a solved task, floor or items beyond the margin, or too few pairs; empty where unknown."""
    replicates = change.pairs_are
    more, as_measured = "", ""  # `needs 12 seeds, 30 min more`; `7 if the effect is as measured`
    if change.needed:
        number = f"over {MOST_PAIRS:,}" if change.needed > MOST_PAIRS else f"{change.needed:,}"
        more = f"needs {number} {replicates}"
        if change.minutes is not None and change.needed <= MOST_PAIRS:
            more += f", {formats.plain(change.minutes, 0 if change.minutes >= 10 else 1)} min more"
    if change.needed_as_measured and not (change.needed and change.needed <= change.needed_as_measured):
        as_measured = f"; {change.needed_as_measured:,} {'' if more else f'{replicates} '}if the effect is as measured"
    if not evidence.has_enough:
        return (more or f"needs {evidence.fewest} {replicates} or more") + as_measured
    if evidence.tells is Tells.NO_EQUALITY:
        return f"both at ceiling{as_measured}"
    if evidence.is_below_floor:
        floor = amount(evidence, evidence.floor or 0.0, unit)
        return (f"noise floor {floor}" if evidence.ratio else f"one item is {floor}") + as_measured
    if change.is_below_items:
        half = quantiles(change.factor, evidence.looks)[0] * evidence.found.items  # of the interval, with any number of seeds
        return f"sampling error ± {amount(evidence, half, unit)}{as_measured}"
    return (more + as_measured).removeprefix("; ")


def size_text(change: Change, unit: str, as_factor: bool = False) -> str:
    """`−30.0 % [−35.0, −25.0]`; in points for a score or a share. Without an interval the number alone.

    An interval that is not of 95 % says so: `−0.1 points [−0.4, +0.2] (90 %)` of what is the same.
    """
    exact = change.interval is None or unit in COUNTED_UNITS
    confidence = f" ({100 * change.confidence:.0f} %)" if not exact and change.confidence != CONFIDENCE else ""
    if unit in SHARES or change.percent is None or not (exact or (change.evidence and change.evidence.ratio)):
        return formats.difference(change.absolute, unit, change.interval) + confidence
    if exact or change.interval is None:
        return formats.percent(change.percent)
    ends = tuple(100 * end / change.baseline_mean for end in change.interval)
    if as_factor or formats.is_large(change.percent):
        return f"{formats.times(change.percent)} [{', '.join(map(formats.times, ends))}]{confidence}"
    return formats.difference(change.percent, "%", ends) + confidence


def with_change(cell: Cell, change: Change | None, text: str) -> Cell:
    """The cell with the change below its value, in these words."""
    verdict = change.verdict.value if change and change.verdict in (Verdict.BETTER, Verdict.WORSE) else ""
    return Cell(cell.text, cell.value, cell.unit, text, verdict)


ADAPTING = ("finetune.trains", "finetune.lora_rank", "finetune.freeze_layers", "finetune.optimizer")
"""Settings that decide what is trained, and by which optimizer."""
TESTED = "Differences with their tests"
"""Heading above DIFFERENCES and their table."""
DIFFERENCES = """\
Differences, arm minus {baseline}, {how} (launches by round; times, rates and memories in percent): mean [t interval],
verdict, p of the t test, number of {what}. p and interval are corrected for the number of arms in a column (Holm): of
equal arms, a column has a false difference in one study of twenty. A single arm has the {level:.0f} % interval."""
CLUSTERS = """ With several pretrainings the interval is over pretrainings: differences are averaged over the fine-tunings
of each first (nested model; see Multi-Bootstrap, arXiv:2106.16163)."""


def present(section: Section, names: Iterable[str]) -> list[str]:
    """The metrics that at least one row has."""
    return [name for name in names if any(row.values(name) for row in section.rows)]


def columns(section: Section) -> list[str]:
    """What the before/after table shows: sizes, speeds, memories, then the headline score and the other scores.

    A pretraining's own loss is not a column: losses of different objectives are not comparable.
    """
    if section.is_pretraining:
        shown = (name for name in SHOWN.pretraining if name not in PER_BYTE.values() or not section.has_one_vocabulary)
        return present(section, shown)
    scores = [name for name, metric in metrics.METRICS.items() if name.startswith("eval/") and metric.unit == "score"]
    hidden = {HEADLINE, MAJORITY, FREQUENCIES, f"eval/{section.headline}", *by_the_wall(section)}
    others = [name for name in scores if name not in hidden and not name.endswith(("_low", "_high"))]
    others += results_of(section.runs)[len(RESULTS) :]
    adapted = SHOWN.adaptation if {*ADAPTING} & {*arms.varying(run.facts for run in section.runs)} else []
    return present(section, (*(name for name in SHOWN.task if name not in hidden), *adapted, HEADLINE, *others))


def by_the_wall(section: Section) -> list[str]:
    """Timings that are shown in detail alone, because those by the clock of the device are compared."""
    return [name for name in metrics.JUDGED_BY if judged_by(name, lambda other: present(section, [other])) != name]


def title(section: Section, name: str) -> str:
    """A column's head; the headline score says which score it is."""
    is_headline = name == HEADLINE and section.headline
    return f"score: {escape(score_title(section))}" if is_headline else escape(metrics.get(name).title)


def score_title(section: Section) -> str:
    """Which score the headline is, such as accuracy; the word score where no run says it."""
    if section.is_pretraining:
        return metrics.get(ACCURACY).title
    metric = metrics.METRICS.get(f"eval/{section.headline}")
    return metric.title if metric else section.headline or metrics.get(HEADLINE).title


def value(row: Row, name: str) -> Cell:
    """Value and spread; n where it is not that of the whole row. A dash where no run has the metric."""
    spread = row.spread(name)
    if spread is None:
        return Cell(DASH)
    metric = metrics.get(name)
    counted_alike = _is_counted(metric) and spread.minimum == spread.maximum
    text = formats.value(spread.mean, metric.unit, None if counted_alike else spread.sd)
    having = len(row.values(name))
    text += f" (n {having})" if having < len(row.runs) else ""
    return Cell(text + selection_mark(row.runs) * (metric.unit == "score"), spread.mean, metric.unit)


def selection_mark(runs: Iterable[Run]) -> str:
    """SELECTED after a space where a run kept its best weights, or was tuned, by the score that it reports; else empty."""
    rows = {run.params.get(key) for run in runs for key in ("finetune.keep_best", "tuned.selected_on")}
    return f" {SELECTED}" if "validation" in rows else ""


def value_and_change(section: Section, row: Row, name: str) -> Cell:
    """Value and spread, and below them the change."""
    cell, metric = value(row, name), metrics.get(name)
    if cell.value is None or row is section.before or not is_judged(metric):
        return cell
    change = section.change(row, name)
    return with_change(cell, change, change_text(change, metric.unit))


def is_judged(metric: Metric) -> bool:
    """Whether its changes are shown with its values."""
    return metric.direction is not Direction.NEITHER and metric.compared is not Compared.OWN_CLOCK


def before_after(section: Section, less: Collection[str] = ()) -> list[Table]:
    """One row per arm, one column per metric, and below them the value that is reached without reading the text."""
    names = [name for name in columns(section) if name not in less]
    rows: list[list[Cell | str | int]] = [
        [escape(row.label), replicates(row), *(value_and_change(section, row, name) for name in names)] for row in section.rows
    ]
    for below, of, reference in references(section):
        if reference and of in names:
            rows.append([below, DASH, *(reference if name == of else DASH for name in names)])
    return formats.readable(["arm", "replicates", *(title(section, name) for name in names)], rows)


def replicates(row: Row) -> Cell:
    """Number of replicates of the arm, sortable by pretrainings if there are any."""
    text = replicates_text(row)
    pretrainings = {run.replicate.pretrain_seed for run in row.runs} - {""}
    return Cell(text, len(pretrainings) or len(row.runs), "pretraining" if pretrainings else "seed")


def replicates_text(*rows: Row) -> str:
    """`5 seeds`, `2 to 3 pretraining runs × 5 seeds`, or `3 pretraining runs` if the runs are these; for rows of one kind."""
    counts = [Counter(run.replicate.pretrain_seed for run in row.runs) for row in rows]
    pretrainings = _counted_noun(_from_to([len(of_row) for of_row in counts]), "pretraining run")
    if all(run.is_pretraining for row in rows for run in row.runs):
        return pretrainings
    of_seeds = rows[0].first.design is Design.SEEDS
    each = _counted_noun(_from_to([count for of_row in counts for count in of_row.values()]), "seed" if of_seeds else "run")
    return f"{pretrainings} × {each}" if any(counts[0]) else each


def _from_to(counts: list[int]) -> str:
    return " to ".join(dict.fromkeys((str(min(counts)), str(max(counts)))))


def _counted_noun(count: int | str, noun: str) -> str:
    return f"{count} {noun}{'s' * (str(count) != '1')}"


def references(section: Section) -> list[tuple[str, str, Cell | None]]:
    """(name, metric, value) of each answer that reads no order of words; no value where no run has it."""
    if section.is_pretraining:
        return [("*unigram entropy*", LOSS, _range(section, UNIGRAM, metrics.get(UNIGRAM).unit))]
    frequencies = _range(section, FREQUENCIES, "score")
    return [("*majority baseline*", HEADLINE, majority(section)), ("*word frequencies*", HEADLINE, frequencies)]


def majority(section: Section) -> Cell | None:
    """Score of the majority baseline, a range if runs differ; None if no run has it."""
    return _range(section, MAJORITY, "score")


def _range(section: Section, name: str, unit: str) -> Cell | None:
    values = [value for row in section.rows for value in row.values(name).values()]
    if not values:
        return None
    ends = [formats.value(end, unit) for end in (min(values), max(values))]
    return Cell(" to ".join(dict.fromkeys(ends)), min(values), unit)


def differences(section: Section, less: Collection[str] = ()) -> list[Table]:
    """Paired differences with their interval, p and verdict; empty where no arm shares two replicates with the baseline."""
    compared, lines = [], []
    for name in columns(section):
        changes = [section.change(row, name) for row in section.rows]
        if name not in less and not _is_counted(metrics.get(name)) and any(change and change.interval for change in changes):
            compared.append(name)
    for row in section.rows:
        cells = [difference(section.change(row, name), metrics.get(name).unit) for name in compared]
        if any(cell.change for cell in cells):
            lines.append([escape(row.label), *cells])
    heads = ["arm", *(title(section, name) for name in compared)]
    return formats.readable(heads, lines, formats.MOST_TESTED) if lines else []


def pairs_text(change: Change) -> str:
    """`5 rounds`, `5 seeds`, `15 seeds of 3 pretraining runs` or `3 pretraining runs`: what this change is computed from."""
    if change.by_round or change.pairs_are not in ("seeds", "pretrainings"):
        return _counted_noun(change.n, change.pairs_are.removesuffix("s"))
    if change.pretrainings and change.n == change.pretrainings:
        return _counted_noun(change.n, "pretraining run")
    seeds = _counted_noun(change.n, "seed")
    return seeds + (f" of {_counted_noun(change.pretrainings, 'pretraining run')}" if change.pretrainings else "")


def differences_intro(section: Section) -> str:
    """How the differences are computed."""
    before = section.before
    paired = [pair(before.by_replicate, row.by_replicate) for row in section.rows if before and row is not before]
    clusters = CLUSTERS if any(len(pretrain_seeds(pairs)) > 1 for pairs in paired) else ""
    how, what = ("paired by seed", "pairs") if section.design is Design.SEEDS else (f"over {section.design}", section.design)
    return DIFFERENCES.format(baseline=escape(section.baseline), level=100 * CONFIDENCE, how=how, what=what) + clusters


def pretrain_seeds(pairs: Iterable[tuple[Replicate, Replicate]]) -> set[str]:
    """Seeds of the pretrainings of paired replicates; a replicate without one takes that of the other."""
    return {before.pretrain_seed or after.pretrain_seed for before, after in pairs} - {""}


def _is_counted(metric: Metric) -> bool:
    """Whether it is counted, of every seed separately or once: an interval would mean nothing."""
    return metric.deterministic or metric.unit in ("FLOP", "tokens")


def difference(change: Change | None, unit: str) -> Cell:
    """`+1.2 points [0.4, 2.0]` with verdict, p and pairs, of ratios in percent; a dash without an interval."""
    if change is None or change.interval is None:
        return Cell(DASH)
    words = [verdict_text(change, unit), f"p {change.p:.2g}"]
    if change.verdict is Verdict.OPEN:
        words = [words[0] if words[0] != DASH else Verdict.OPEN.value]
    below = ", ".join(text for text in (*words, pairs_text(change)) if text)
    return with_change(Cell(size_text(change, unit), change.absolute, unit), change, below)


COLUMNS: dict[str, type] = dict.fromkeys(("task", "conditions", "arm", "model", "scale", "metric", "unit", "direction"), str)
COLUMNS |= {"n": int, "mean": float, "sd": float, "min": float, "max": float}
COLUMNS |= {"baseline_mean": float, "change": float, "change_percent": float, "pairs": int, "pretrainings": int}
COLUMNS |= {"ci_low": float, "ci_high": float, "verdict": str, "noise_floor_percent": float, "p_holm": float}
COLUMNS |= {"pairs_needed": int}
"""Column -> type of its values."""
Line = dict[str, object]
"""Column -> value."""


def summary(comparison: Comparison) -> list[Line]:
    """The results of all arms; the baseline's own rows have no change."""
    lines = []
    for section, row, name in (
        (of, row, name) for of in comparison.sections for row in of.rows for name in results_of(of.runs)
    ):
        if spread := row.spread(name):
            line = {"task": section.task, "conditions": section.conditions} | arm_columns(row)
            lines.append(line | measured(metrics.get(name), spread, section.change(row, name)))
    return lines


OF_RUN = ("task", "conditions", "arm", "seed", "pretrain_seed", "run", "metric", "unit", "value")
"""Columns of `runs.csv`."""


def runs_of(comparison: Comparison) -> list[Line]:
    """The results of all runs, in base units: one row per run and metric."""
    return [
        {"task": section.task, "conditions": section.conditions, "arm": row.label, "run": run.run_id}
        | {"seed": run.replicate.seed, "pretrain_seed": run.replicate.pretrain_seed}
        | {"metric": name, "unit": metrics.get(name).unit, "value": run.metrics[name]}
        for section in comparison.sections
        for row in section.rows
        for run in row.runs
        for name in results_of(section.runs)
        if name in run.metrics
    ]


def arm_columns(row: Row) -> Line:
    """The arm by its label, and the choices that made its encoder."""
    return {"arm": row.label, "model": row.first.tags[tags.MODEL], "scale": row.first.tags[tags.SCALE]}


def measured(metric: Metric, values: Spread, change: Change | None) -> Line:
    """Columns of a metric, its spread, and its change against the baseline, none of those where there is no change."""
    line: Line = {"metric": metric.name, "unit": metric.unit, "direction": metric.direction.value}
    line |= {"n": values.n, "mean": values.mean, "sd": values.sd, "min": values.minimum, "max": values.maximum}
    if change:
        low, high = change.interval or (None, None)
        line |= {"baseline_mean": change.baseline_mean, "change": change.absolute, "change_percent": change.percent}
        line |= {"pairs": change.n, "pretrainings": change.pretrainings or None, "pairs_needed": change.needed}
        line |= {"ci_low": low, "ci_high": high, "noise_floor_percent": change.floor, "p_holm": change.p}
        line |= {"verdict": change.verdict.value if change.verdict else None}
    return line
