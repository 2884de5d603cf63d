"""`summary.csv`, `summary.parquet`: a row per task, conditions, arm and metric, in base units; empty where unknown."""

import io
from collections.abc import Iterable

from harness import metrics, tags
from harness.paired import Spread
from reports.comparison.compare import Comparison
from reports.comparison.section import RESULTS, Row, Section
from reports.comparison.statistics import Change

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
    return [
        line
        for section in comparison.sections
        for row in section.rows
        for metric in RESULTS
        if (line := _line(section, row, metric))
    ]


def parquet_file(lines: Iterable[Line]) -> bytes:
    """Content of a Parquet file with these rows: text, int64 and float64, null where a row has no value."""
    import pyarrow  # half a second that no other format needs
    from pyarrow import parquet

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(column, types[kind]) for column, kind in COLUMNS.items()])
    content = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(lines), schema), content)
    return content.getvalue()


def _line(section: Section, row: Row, name: str) -> Line | None:
    found = row.spread(name)
    if found is None:
        return None
    metric = metrics.get(name)
    line = {"task": section.task, "conditions": section.conditions} | arm_columns(row)
    line |= {"metric": name, "unit": metric.unit, "direction": metric.direction.value}
    return line | spread_and_change(found, section.change(row, name))


def arm_columns(row: Row) -> Line:
    """The arm by its label, and the choices that made its encoder."""
    first = next(iter(row.runs.values())).tags
    return {"arm": row.label, "model": first[tags.MODEL], "scale": first[tags.SCALE]}


def spread_and_change(values: Spread, change: Change | None) -> Line:
    """Columns of a spread and of the change against the baseline, none of those where there is no change."""
    line: Line = {"n": values.n, "mean": values.mean, "sd": values.sd, "min": values.minimum, "max": values.maximum}
    if change:
        low, high = change.interval or (None, None)
        line |= {"baseline_mean": change.baseline_mean, "change": change.absolute, "change_percent": change.percent}
        line |= {"pairs": change.n, "pretrainings": change.pretrainings or None}
        line |= {"ci_low": low, "ci_high": high, "noise_floor_percent": change.floor}
        line |= {"verdict": change.verdict.value if change.verdict else None}
        line |= {"p_holm": change.p, "pairs_needed": change.needed}
    return line
