"""`summary.csv`: one row per task, protocol, variant, scale and metric, in base units; empty where unknown."""

import pandas as pd

from harness import metrics
from reports.changes import Change
from reports.compare import Comparison, Row, Section
from reports.statistics import Spread

COLUMNS = ["task", "protocol", "variant", "scale", "metric", "unit", "direction", "n", "mean", "sd", "min", "max"]
COLUMNS += ["baseline_mean", "change", "change_percent", "ci_low", "ci_high", "verdict", "noise_floor_percent"]
CURVES = {"finetune/loss", "finetune/learning_rate", "pretrain/loss"}
"""Curves by step: their last value is that of one batch, no result of a run."""
SERIES = (metrics.LENGTHS, metrics.LAUNCHES, metrics.BATCHES)
"""Phases whose steps are lengths, launches or batch sizes: their last value says nothing of the others."""

Line = dict[str, object]
"""Column -> value."""


def summary(comparison: Comparison, averages: list[Line]) -> bytes:
    """The file's content, with averages over tasks at its end; the baseline's own rows have no change."""
    lines = [
        line
        for section in comparison.sections
        for row in section.rows
        for metric in metrics.METRICS
        if metric not in CURVES and not metric.startswith(SERIES) and (line := _line(section, row, metric))
    ]
    return pd.DataFrame([*lines, *averages], columns=COLUMNS).to_csv(index=False, lineterminator="\n").encode()


def _line(section: Section, row: Row, name: str) -> Line | None:
    seen = row.spread(name)
    if seen is None:
        return None
    metric, tags = metrics.get(name), next(iter(row.runs.values())).tags
    line = {"task": section.task, "protocol": section.protocol, "variant": tags["variant"], "scale": tags["scale"]}
    line |= {"metric": name, "unit": metric.unit, "direction": metric.direction.value}
    return line | spread_and_change(seen, section.change(row, name))


def spread_and_change(seen: Spread, change: Change | None) -> Line:
    """Columns of a spread and of the change against the baseline, none of those where there is no change."""
    line: Line = {"n": seen.n, "mean": seen.mean, "sd": seen.sd, "min": seen.minimum, "max": seen.maximum}
    if change:
        low, high = change.interval or (None, None)
        line |= {"baseline_mean": change.baseline_mean, "change": change.absolute, "change_percent": change.percent}
        line |= {"ci_low": low, "ci_high": high, "noise_floor_percent": change.floor}
        line |= {"verdict": change.verdict.value if change.verdict else None}
    return line
