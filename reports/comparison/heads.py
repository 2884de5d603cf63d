"""Which head predicted the masked tokens of a pretraining: the objective's own, or a probe on the frozen encoder."""

from collections.abc import Iterable

from harness.metrics import PER_TOKEN, has_one_vocabulary
from harness.plateau import MASKED, PROBE
from reports.comparison.statistics import Change, Verdict
from reports.reading.store import Run


def judged_alike(found: Change | None, name: str, before: Iterable[Run], after: Iterable[Run]) -> Change | None:
    """The change, without a verdict where the metric does not compare: see `are_comparable`."""
    if found is None or are_comparable(name, before, after):
        return found
    return Change(found.n, found.baseline_mean, found.absolute, None, Verdict.OPEN)


def are_comparable(name: str, before: Iterable[Run], after: Iterable[Run]) -> bool:
    """False for a metric of masked tokens that other heads predict, and for one by token of other vocabularies."""
    before, after = list(before), list(after)
    if name in PER_TOKEN and not has_one_vocabulary(run.params for run in (*before, *after)):
        return False
    return name not in MASKED or heads_of(before) == heads_of(after)


def heads_of(runs: Iterable[Run]) -> set[float]:
    """Steps that the probes of these pretrainings were trained for; 0 stands for the objective's own head."""
    return {run.metrics[PROBE] for run in runs if PROBE in run.metrics}


def have_probes(runs: Iterable[Run]) -> bool:
    """Whether a probe answers for any of these pretrainings."""
    return any(heads_of(runs))
