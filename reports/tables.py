"""The report's tables, as Markdown. A column that no row has is left out; a cell without a number is a dash."""

from collections.abc import Iterable

from harness import metrics
from harness.metrics import Direction, Metric
from reports import formats
from reports.changes import Change, Verdict
from reports.compare import Comparison, Row, Section
from reports.formats import DASH, SHARES, escape
from reports.pretraining import ACCURACY, COLUMNS, LOSS, UNIGRAM

MEASURES = (
    "model/params_total",
    "model/flops_forward",
    "inference/latency_ms_p50",
    "inference/tokens_per_s",
    "inference/peak_memory_bytes",
    "finetune/tokens_per_s",
    "finetune/duration_s",
    "finetune/peak_memory_bytes",
)
HEADLINE = "eval/score"
MAJORITY = "eval/majority_score"
MARKS = {
    Verdict.BETTER: "▲ better",
    Verdict.WORSE: "▼ worse",
    Verdict.DIRECTION_BETTER: "△ better?",
    Verdict.DIRECTION_WORSE: "▽ worse?",
    Verdict.EQUAL: "=",
    Verdict.UNCLEAR: "~",
    Verdict.WITHIN_NOISE: "≈",
    Verdict.OPEN: DASH,
}


WORDS = {verdict: verdict.value for verdict in (Verdict.EQUAL, Verdict.UNCLEAR, Verdict.WITHIN_NOISE, Verdict.OPEN)}
"""Verdicts that a table of differences spells out."""


def present(section: Section, names: Iterable[str]) -> list[str]:
    """Those of the metrics that at least one row has."""
    return [name for name in names if any(row.values(name) for row in section.rows)]


def headline(section: Section) -> str:
    """The metric that says how well: a task's headline score, of a pretraining the held-out masked accuracy."""
    return ACCURACY if section.is_pretraining else HEADLINE


def columns(section: Section) -> list[str]:
    """What the before/after table shows: sizes, speeds, memories, then the headline score and the other scores.

    A pretraining's own loss is no column: losses of different objectives are not comparable.
    """
    if section.is_pretraining:
        return present(section, COLUMNS)
    other = [name for name, metric in metrics.METRICS.items() if name.startswith("eval/") and metric.unit == "score"]
    hidden = {HEADLINE, MAJORITY, f"eval/{section.headline}"}
    return present(section, (*MEASURES, HEADLINE, *(name for name in other if name not in hidden)))


def title(section: Section, name: str) -> str:
    """A column's head; the headline score says which score it is."""
    return f"score: {escape(score_title(section))}" if name == HEADLINE and section.headline else metrics.get(name).title


def score_title(section: Section) -> str:
    """Which score the headline is, such as accuracy; the word score where no run says it."""
    if section.is_pretraining:
        return metrics.get(ACCURACY).title
    known = metrics.METRICS.get(f"eval/{section.headline}")
    return known.title if known else section.headline or metrics.get(HEADLINE).title


def change_text(change: Change, unit: str) -> str:
    """`−12.3 % ▲ better`; a score in points and in percent."""
    shown = formats.percent(change.percent)
    if unit in SHARES:
        shown = f"{formats.difference(change.absolute, unit)} ({shown})"
    return f"{shown} {MARKS[change.verdict]}" if change.verdict else shown


def value_text(row: Row, name: str) -> str | None:
    """Value and spread; n where it is not that of the whole row. None where no run has the metric."""
    seen = row.spread(name)
    if seen is None:
        return None
    metric = metrics.get(name)
    counted_alike = _is_counted(metric) and seen.minimum == seen.maximum
    text = formats.value(seen.mean, metric.unit, None if counted_alike else seen.sd)
    having = len(row.values(name))
    return text + (f" (n {having})" if having < len(row.runs) else "")


def cell(section: Section, row: Row, name: str) -> str:
    """Value and spread, and on a second line the change."""
    text, metric = value_text(row, name), metrics.get(name)
    if text is None:
        return DASH
    if row is section.before or metric.direction is Direction.NEITHER:
        return text
    change = section.change(row, name)
    return f"{text}<br>{change_text(change, metric.unit) if change else DASH}"


def before_after(section: Section) -> str:
    """One row a variant, one column a metric, and below what an answer gives that knows nothing of the text."""
    names = columns(section)
    rows = [[escape(row.label), str(len(row.runs)), *(cell(section, row, name) for name in names)] for row in section.rows]
    below, of, text = ignorant(section)
    if text and of in names:
        rows.append([below, DASH, *(text if name == of else DASH for name in names)])
    return formats.table(["variant", "seeds", *(title(section, name) for name in names)], rows)


def ignorant(section: Section) -> tuple[str, str, str | None]:
    """(name, metric, value) of the answer that knows nothing of the text; no value where no run has it."""
    if not section.is_pretraining:
        return "*constant answer*", HEADLINE, majority(section)
    entropies = [value for row in section.rows for value in row.values(UNIGRAM).values()]
    return "*unigram entropy*", LOSS, _range(entropies, metrics.get(UNIGRAM).unit)


def majority(section: Section) -> str | None:
    """The score of always answering the same, a range where the runs differ in it; None where no run has it."""
    return _range([value for row in section.rows for value in row.values(MAJORITY).values()], "score")


def _range(values: list[float], unit: str) -> str | None:
    ends = [formats.value(end, unit) for end in (min(values), max(values))] if values else []
    return " to ".join(dict.fromkeys(ends)) or None


def differences(section: Section) -> str | None:
    """Paired differences with their interval, p and verdict; None where no variant shares two seeds with the baseline."""
    names = [name for name in columns(section) if not _is_counted(metrics.get(name))]
    rows = [[section.change(row, name) for name in names] for row in section.rows]
    shown = [name for index, name in enumerate(names) if any(row[index] and row[index].interval for row in rows)]
    lines = []
    for row, changes in zip(section.rows, rows, strict=True):
        pairs = zip(names, changes, strict=True)
        texts = {name: difference_text(change, metrics.get(name).unit) for name, change in pairs}
        if any(text != DASH for text in texts.values()):
            seeds = max((change.n for change in changes if change and not change.by_round), default=None)
            lines.append([escape(row.label), DASH if seeds is None else str(seeds), *(texts[name] for name in shown)])
    return formats.table(["variant", "pairs", *(title(section, name) for name in shown)], lines) if lines else None


def _is_counted(metric: Metric) -> bool:
    """Counted, if for every seed anew: an interval would say nothing."""
    return metric.deterministic or metric.unit in ("FLOP", "tokens")


def difference_text(change: Change | None, unit: str) -> str:
    """`+1.2 points [0.4, 2.0]` with verdict and p, of launches in percent; a dash without an interval."""
    if change is None or change.interval is None:
        return DASH
    verdict = WORDS.get(change.verdict, MARKS.get(change.verdict, ""))
    if change.by_round:
        ends = tuple(100 * end / change.baseline_mean for end in change.interval)
        return f"{formats.difference(change.percent, '%', ends)}<br>{verdict}, {change.n} rounds"
    p = "" if change.p is None else f", p {change.p:.2g}"
    return f"{formats.difference(change.absolute, unit, change.interval)}<br>{verdict}{p}"


def component_names(phase: str) -> dict[str, str]:
    """Metric -> column of a component table; `phase` is model or published."""
    parts = {f"{phase}/params_component_{part}": text for part, text in metrics.PARAMETER_COMPONENTS.items()}
    return parts | {f"{phase}/params_total": "total"}


def component_counts(section: Section, phase: str) -> set[tuple[object, ...]]:
    """(label, count of each component, total) of the rows that have any; empty where no run has them."""
    rows = {(row.label, *(row.mean(name) for name in component_names(phase))) for row in section.rows}
    return {row for row in rows if any(count is not None for count in row[1:])}


def components(section: Section, phase: str) -> str | None:
    """Parameters by component, rows are variants; None where no run has them. `phase` is model or published."""
    parts, total = component_names(phase), f"{phase}/params_total"
    names = present(section, parts)
    if not names:
        return None
    effective = present(section, ["model/params_effective"]) if phase == "model" else []
    header = ["variant", *(parts[name] for name in names), "change of total", *("effective" for _ in effective)]
    rows = [
        [escape(row.label), *_counts(row, names), _reduction(section, row, total), *_counts(row, effective)]
        for row in section.rows
        if any(row.values(name) for name in names)
    ]
    return formats.table(header, rows)


def _counts(row: Row, names: list[str]) -> list[str]:
    means = [row.mean(name) for name in names]
    return [DASH if mean is None else formats.value(mean, "parameters") for mean in means]


def _reduction(section: Section, row: Row, total: str) -> str:
    change = section.change(row, total)
    return formats.percent(change.percent) if change else DASH


def overview(comparison: Comparison) -> str:
    """One row a variant, one column a task's headline score or a pretraining's masked accuracy, and the parameters."""
    shown = [section for section in comparison.sections if present(section, [headline(section)])]
    labels = comparison.labels
    rows = [[escape(label), _sizes(comparison, label), *(_score(section, label) for section in shown)] for label in labels]
    constants = [majority(section) or DASH for section in shown]
    if any(text != DASH for text in constants):
        rows.append(["*constant answer*", DASH, *constants])
    heads = [f"{section_name(comparison, section)}: {escape(score_title(section))}" for section in shown]
    return formats.table(["variant", "parameters", *heads], rows)


def _sizes(comparison: Comparison, label: str) -> str:
    """Parameters in its tasks; in its pretraining, whose head is another, where it ran no task."""
    mine = [(section, row) for section in comparison.sections for row in section.rows if row.label == label]
    of_tasks = [row for section, row in mine if not section.is_pretraining] or [row for _, row in mine]
    return _range([value for row in of_tasks for value in row.values("model/params_total").values()], "parameters") or DASH


def _score(section: Section, label: str) -> str:
    row = next((row for row in section.rows if row.label == label), None)
    seen = row.spread(headline(section)) if row else None
    return formats.value(seen.mean, "score", seen.sd) if seen else DASH


def section_name(comparison: Comparison, section: Section) -> str:
    """The task, and its protocol where the task has several; escaped."""
    several = sum(other.task == section.task for other in comparison.sections) > 1
    return escape(section.task) + (f" ({escape(section.protocol)})" if several else "")
