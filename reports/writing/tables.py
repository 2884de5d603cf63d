"""The report's tables, as Markdown. A column that no row has is left out; a missing number is a dash."""

from collections.abc import Iterable

from harness import metrics
from harness.metrics import PER_BYTE, Direction, Metric, has_one_vocabulary
from harness.paired import CONFIDENCE, pair
from reports.comparison.compare import Comparison
from reports.comparison.section import ACCURACY, HEADLINE, LOSS, MAJORITY, UNIGRAM, Row, Section
from reports.comparison.statistics import Change, Verdict
from reports.writing import formats
from reports.writing.formats import DASH, escape
from reports.writing.verdicts import change_text, size_text, verdict_text

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
OF_PRETRAINING = ("model/params_total", "pretrain/tokens", "pretrain/flops", "pretrain/duration_s", "pretrain/tokens_per_s")
PARTS = ("pretrain/pair_accuracy", "pretrain/detection_accuracy", "pretrain/replaced_accuracy")
OWN = ("pretrain/next_token_loss", "pretrain/permuted_loss", "pretrain/two_sided_loss", "pretrain/centre_loss")
"""What objectives train beside masked tokens, and in their place."""
OF_PRETRAINING += ("pretrain/peak_memory_bytes", *PER_BYTE.values(), LOSS, ACCURACY, *PARTS, *OWN)
"""Columns of a pretraining; `pretrain/loss` is on training text, and compares with no other objective."""
DIFFERENCES = """\
Differences, arm minus {baseline}, paired by seed (launches by round; times, rates and memories in percent): mean [t interval],
verdict, p of the t test, number of pairs. p and interval are corrected for the number of arms in a column (Holm), so that
a column of equal arms holds a false difference in one study of twenty; a single arm has the {level:.0f} % interval."""
CLUSTERS = """ With several pretrainings the interval is over pretrainings: differences are averaged over the fine-tunings
of each first (nested model; see Multi-Bootstrap, arXiv:2106.16163)."""


def present(section: Section, names: Iterable[str]) -> list[str]:
    """Those of the metrics that at least one row has."""
    return [name for name in names if any(row.values(name) for row in section.rows)]


def columns(section: Section) -> list[str]:
    """What the before/after table shows: sizes, speeds, memories, then the headline score and the other scores.

    A pretraining's own loss is no column: losses of different objectives are not comparable.
    """
    if section.is_pretraining:
        one = has_one_vocabulary(run.params for run in section.runs)
        return present(section, (name for name in OF_PRETRAINING if not (one and name in PER_BYTE.values())))
    other = [name for name, metric in metrics.METRICS.items() if name.startswith("eval/") and metric.unit == "score"]
    hidden = {HEADLINE, MAJORITY, f"eval/{section.headline}"}
    return present(section, (*MEASURES, HEADLINE, *(name for name in other if name not in hidden)))


def title(section: Section, name: str) -> str:
    """A column's head; the headline score says which score it is."""
    return f"score: {escape(score_title(section))}" if name == HEADLINE and section.headline else metric_title(name)


def metric_title(name: str) -> str:
    """As the report names what it compares: of latency the mean of launches, not a percentile of their calls."""
    return "latency" if name == "inference/latency_ms_p50" else metrics.get(name).title


def score_title(section: Section) -> str:
    """Which score the headline is, such as accuracy; the word score where no run says it."""
    if section.is_pretraining:
        return metrics.get(ACCURACY).title
    known = metrics.METRICS.get(f"eval/{section.headline}")
    return known.title if known else section.headline or metrics.get(HEADLINE).title


def value_text(row: Row, name: str) -> str | None:
    """Value and spread; n where it is not that of the whole row. None where no run has the metric."""
    spread = row.spread(name)
    if spread is None:
        return None
    metric = metrics.get(name)
    counted_alike = _is_counted(metric) and spread.minimum == spread.maximum
    text = formats.value(spread.mean, metric.unit, None if counted_alike else spread.sd)
    having = len(row.values(name))
    return text + (f" (n {having})" if having < len(row.runs) else "")


def value_and_change(section: Section, row: Row, name: str) -> str:
    """Value and spread, and on a second line the change."""
    text, metric = value_text(row, name), metrics.get(name)
    if text is None:
        return DASH
    if row is section.before or metric.direction is Direction.NEITHER:
        return text
    change = section.change(row, name)
    return f"{text}<br>{change_text(change, metric.unit) if change else DASH}"


def before_after(section: Section) -> str:
    """One row an arm, one column a metric, and below them the value that is reached without reading the text."""
    names = columns(section)
    rows = [
        [escape(row.label), replicates_text(row), *(value_and_change(section, row, name) for name in names)]
        for row in section.rows
    ]
    below, of, text = constant(section)
    if text and of in names:
        rows.append([below, DASH, *(text if name == of else DASH for name in names)])
    return formats.readable(["arm", "replicates", *(title(section, name) for name in names)], rows)


def replicates_text(row: Row) -> str:
    """`5 seeds`, `3 pretrainings × 5 seeds`, or `3 pretrainings` where the runs are these."""
    seeds: dict[str, int] = {}
    for one in row.runs:
        seeds[one.pretrain_seed] = seeds.get(one.pretrain_seed, 0) + 1
    if all(run.is_pretraining for run in row.runs.values()):
        return _counted_noun(str(len(seeds)), "pretraining")
    each = _counted_noun(" to ".join(dict.fromkeys((str(min(seeds.values())), str(max(seeds.values()))))), "seed")
    return each if not any(seeds) else f"{_counted_noun(str(len(seeds)), 'pretraining')} × {each}"


def _counted_noun(count: str, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != '1')}"


def constant(section: Section) -> tuple[str, str, str | None]:
    """(name, metric, value) of the answer that ignores the text; no value where no run has it."""
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
    """Paired differences with their interval, p and verdict; None where no arm shares two replicates with the baseline."""
    names = [name for name in columns(section) if not _is_counted(metrics.get(name))]
    rows = [[section.change(row, name) for name in names] for row in section.rows]
    shown = [name for index, name in enumerate(names) if any(row[index] and row[index].interval for row in rows)]
    lines = []
    for row, changes in zip(section.rows, rows, strict=True):
        pairs = zip(names, changes, strict=True)
        texts = {name: difference_text(change, metrics.get(name).unit) for name, change in pairs}
        if any(text != DASH for text in texts.values()):
            lines.append([escape(row.label), *(texts[name] for name in shown)])
    return formats.readable(["arm", *(title(section, name) for name in shown)], lines) if lines else None


def pairs_text(change: Change) -> str:
    """`5 rounds`, `5 seeds`, `15 seeds of 3 pretrainings` or `3 pretrainings`: what this change is computed from."""
    if change.by_round:
        return _counted_noun(str(change.n), "round")
    if change.pretrainings and change.n == change.pretrainings:
        return _counted_noun(str(change.n), "pretraining")
    seeds = _counted_noun(str(change.n), "seed")
    return seeds + (f" of {_counted_noun(str(change.pretrainings), 'pretraining')}" if change.pretrainings else "")


def differences_intro(section: Section) -> str:
    """How the differences are computed."""
    before = section.before
    paired = [pair(before.runs, row.runs) for row in section.rows if before and row is not before]
    several = any(len({one.pretrain_seed or other.pretrain_seed for one, other in pairs} - {""}) > 1 for pairs in paired)
    return DIFFERENCES.format(baseline=escape(section.baseline), level=100 * CONFIDENCE) + CLUSTERS * several


def _is_counted(metric: Metric) -> bool:
    """Whether it is counted, of every seed separately or once: an interval would mean nothing."""
    return metric.deterministic or metric.unit in ("FLOP", "tokens")


def difference_text(change: Change | None, unit: str) -> str:
    """`+1.2 points [0.4, 2.0]` with verdict, p and pairs, of ratios in percent; a dash without an interval."""
    if change is None or change.interval is None:
        return DASH
    words = [verdict_text(change, unit), f"p {change.p:.2g}"]
    if change.verdict is Verdict.OPEN:
        words = [words[0] if words[0] != DASH else Verdict.OPEN.value]
    return f"{size_text(change, unit)}<br>" + ", ".join(text for text in (*words, pairs_text(change)) if text)


def section_name(comparison: Comparison, section: Section) -> str:
    """The task, and its conditions where the task has several; escaped."""
    several = sum(other.task == section.task for other in comparison.sections) > 1
    return escape(section.task) + (f" ({escape(section.conditions)})" if several else "")
