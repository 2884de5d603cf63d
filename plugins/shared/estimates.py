"""The mean of an arm with its 95 % interval over seeds and items, or over rounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness import metrics
from harness.comparison import by_launch, launches, paired
from harness.comparison.paired import by_pretraining, of_differences
from harness.comparison.runs import Run
from harness.comparison.section import HEADLINE, Row, Section
from harness.comparison.verdicts import fewest_for
from harness.metrics import HIGHEST_FLOOR, Compared

NO_BETTER = "not shown to beat the majority baseline"


@dataclass(frozen=True)
class Estimate:
    """In base units; no interval where one value is all there is. What is counted is exact: its interval is the value.

    `doubt`: why the interval decides on no limit; empty where it does.
    """

    mean: float
    interval: tuple[float, float] | None
    n: int
    doubt: str = ""


def estimate(section: Section, row: Row, metric: str) -> Estimate | None:
    """The estimate of one arm in one section; None where no run has the metric.

    Over the rounds of the newest session for what launches measure; over pretrainings where there are several, as the
    fine-tunings of one share its luck; over logarithms for metrics that are compared by ratios. The interval of a score is no
    narrower than its items allow and within its range, that of a time or a memory no narrower than the noise floor.
    """
    values = row.values(metric)
    if not values:
        return None
    declared = metrics.get(metric)
    independent = of_launches(row, metric) or by_pretraining(values)
    if declared.deterministic and len(set(independent)) == 1:
        return Estimate(independent[0], (independent[0], independent[0]), len(independent))
    if declared.by_ratio and min(independent) > 0:
        return _of_ratio(section, row, metric, independent)
    found, kind = of_differences(independent), section.kind_of(metric)
    rows = section.rows_of(row, metric) if declared.unit == "score" else None
    item = paired.item_error(found.mean, rows, kind) if rows else 0.0
    interval = found.with_items(item).interval
    least, most = paired.ends(kind)
    if interval and declared.unit in ("score", "share") and not least <= interval[0] <= interval[1] <= most:
        half = (interval[1] - interval[0]) / 2  # Student's t knows no ends
        interval = paired.score_interval(found.mean, half, kind, rows)
    return Estimate(found.mean, interval, len(independent), _doubt(section, row, metric, len(independent)))


def _doubt(section: Section, row: Row, metric: str, count: int) -> str:
    declared = metrics.get(metric)
    if 1 < count < (fewest := fewest_for(declared)):
        return f"{count} replicates carry no verdict; expected {fewest} or more"
    return NO_BETTER if declared.unit == "score" and section.beats_constant(row, HEADLINE) is False else ""


def _of_ratio(section: Section, row: Row, metric: str, values: Sequence[float]) -> Estimate:
    """By logarithms; for times and memory, with the noise floor of their session."""
    declared, found = metrics.get(metric), of_differences([math.log(value) for value in values])
    mean, count, doubt, newest = math.exp(found.mean), len(values), "", _newest(row)
    floor = section.sessions.memory_floor(row.runs) if declared.unit == "bytes" else None
    if metric in launches.JUDGED and newest:
        floor = section.sessions.floor(newest.session, section.place, launches.JUDGED[metric])
    if declared.compared in (Compared.SHOWN, Compared.OWN_CLOCK):
        doubt = "no judged timing"
    elif metric in launches.JUDGED:
        if floor is None:
            doubt = "unknown noise floor: no A/A replicate was timed in its session"
        elif floor > HIGHEST_FLOOR:
            doubt = f"noise floor {by_launch.percent_text(floor)}, which supports no verdict on times"
    else:
        doubt = _doubt(section, row, metric, count)
    if found.interval is None:
        return Estimate(mean, None, count, doubt)
    half = max(found.interval[1] - found.mean, floor or 0.0)
    return Estimate(mean, (mean * math.exp(-half), mean * math.exp(half)), count, doubt)


def of_launches(row: Row, metric: str) -> list[float]:
    """One value a round of the newest session of the arm; empty for what launches do not measure."""
    newest = _newest(row)
    if metric not in launches.JUDGED or newest is None:
        return []
    return list(row.sessions.levels(newest, launches.JUDGED[metric]).values())


def _newest(row: Row) -> Run | None:
    """The run of the newest session that launched the arm."""
    timed = [run for run in row.runs if run.session and run.launches]
    return max(timed, key=lambda run: row.sessions.names.index(run.session), default=None)
