"""Which head predicted the masked tokens of a pretraining: the objective's own, or a probe on the frozen encoder."""

from collections.abc import Iterable

from harness.plateau import MASKED, PROBE
from reports.comparison.statistics import Change, Verdict
from reports.reading.store import Run


def judged_with_one_head(found: Change | None, name: str, before: Iterable[Run], after: Iterable[Run]) -> Change | None:
    """The change, without a verdict where the metric is of masked tokens and the two sides have other heads."""
    if found is None or name not in MASKED:
        return found
    heads = [{run.metrics[PROBE] for run in side if PROBE in run.metrics} for side in (before, after)]
    return found if heads[0] == heads[1] else Change(found.n, found.baseline_mean, found.absolute, None, Verdict.OPEN)
