"""`summary.csv`: one row per task, protocol, variant, scale and metric, in base units; empty where unknown."""

import pandas as pd

from harness import metrics
from reports.compare import Comparison, Row, Section

COLUMNS = ["task", "protocol", "variant", "scale", "metric", "unit", "direction", "n", "mean", "sd", "min", "max"]
COLUMNS += ["baseline_mean", "change", "change_percent", "ci_low", "ci_high"]
CURVES = {"finetune/loss", "finetune/learning_rate", "pretrain/loss"}
"""Curves by step: their last value is that of one batch, no result of a run."""


def summary(comparison: Comparison) -> bytes:
    """The file's content; the baseline's own rows have no change."""
    lines = [
        line
        for section in comparison.sections
        for row in section.rows
        for metric in metrics.METRICS
        if metric not in CURVES and (line := _line(section, row, metric))
    ]
    return pd.DataFrame(lines, columns=COLUMNS).to_csv(index=False, lineterminator="\n").encode()


def _line(section: Section, row: Row, name: str) -> dict[str, object] | None:
    seen = row.spread(name)
    if seen is None:
        return None
    metric, tags = metrics.get(name), next(iter(row.runs.values())).tags
    line = {"task": section.task, "protocol": section.protocol, "variant": tags["variant"], "scale": tags["scale"]}
    line |= {"metric": name, "unit": metric.unit, "direction": metric.direction.value, "n": seen.n, "mean": seen.mean}
    line |= {"sd": seen.sd, "min": seen.minimum, "max": seen.maximum}
    change = section.change(row, name)
    if change:
        low, high = change.interval or (None, None)
        line |= {"baseline_mean": change.baseline_mean, "change": change.absolute, "change_percent": change.percent}
        line |= {"ci_low": low, "ci_high": high}
    return line
