"""What an arm's own value is, and how well it is known: its mean with the 95 % t interval over seeds, or over launches."""

import math
from dataclasses import dataclass

from harness import metrics
from harness.paired import by_pretraining, mean_interval
from reports.comparison import launches
from reports.comparison.compare import Row


@dataclass(frozen=True)
class Estimate:
    """In base units; no interval where one value is all there is. What is counted is exact: its interval is the value."""

    mean: float
    interval: tuple[float, float] | None
    n: int


def estimate(row: Row, metric: str) -> Estimate | None:
    """Of one arm in one section; None where no run has the metric.

    Over the rounds of the newest session for what launches measure; over pretrainings where there are several, as the
    fine-tunings of one share its luck; of logarithms for what is compared by ratios.
    """
    values = row.values(metric)
    if not values:
        return None
    rounds = of_launches(row, metric)
    independent = rounds or by_pretraining(values)
    declared = metrics.get(metric)
    exact = declared.deterministic and len(set(independent)) == 1
    if declared.by_ratio and min(independent) > 0:
        mean, interval = mean_interval([math.log(value) for value in independent])
        mean, interval = math.exp(mean), interval and tuple(map(math.exp, interval))
    else:
        mean, interval = mean_interval(independent)
    return Estimate(mean, (mean, mean) if exact else interval, len(independent))


def of_launches(row: Row, metric: str) -> list[float]:
    """One value a round of the newest session of the arm; empty for what launches do not measure."""
    timed = [run for run in row.runs.values() if run.session and run.launches]
    if metric not in launches.JUDGED or not timed:
        return []
    newest = max(timed, key=lambda run: row.sessions.names.index(run.session))
    return row.sessions.levels(newest, launches.JUDGED[metric])
