"""Which arm the others are compared with."""

from collections.abc import Iterable

from harness import tags
from reports.comparison import labels as naming
from reports.errors import ReportError, unknown
from reports.reading.store import Run


def choose_baseline(runs: list[Run], labels: dict[str, str], name: str | None, left_out: Iterable[Run] = ()) -> str:
    """The baseline's label: this name itself, or the one arm of that model with the fewest settings; arms of tasks first.

    An arm of which no run finished, among those left out, is taken only where no other fits. ReportError, listing the labels,
    where no arm or more than one fits.
    """
    searched = "base" if name is None else name
    for pool in ([run for run in runs if not run.is_pretraining], runs):
        fitting = _fitting(pool, labels, searched)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ReportError(f"baseline {searched!r} could be {' or '.join(fitting)}; choose one with --baseline")
    unfinished = [run.tags[tags.ARM] for run in left_out if searched in (run.tags.get(tags.ARM), run.tags.get(tags.MODEL))]
    if unfinished:
        return min(unfinished, key=naming.settings)
    choices = list(dict.fromkeys(labels[run.run_id] for run in runs))
    if name is None:
        raise ReportError(f"this study has no arm 'base' to compare with; choose one with --baseline: {', '.join(choices)}")
    raise unknown("baseline", name, choices)


def _fitting(runs: list[Run], labels: dict[str, str], name: str) -> list[str]:
    """Labels that may be meant by this name: itself, or those of that arm or model with the fewest settings."""
    fitting = []
    for run in runs:
        label = labels[run.run_id]
        if name in (label, naming.stem(label), run.tags[tags.ARM], run.tags[tags.MODEL]):
            fitting.append(label)
    if name in fitting:
        return [name]
    fewest = min(map(naming.settings, fitting), default=0)
    return [label for label in dict.fromkeys(fitting) if naming.settings(label) == fewest]


def baseline_of(group: list[Run], runs: list[Run], labels: dict[str, str], chosen: str) -> str:
    """The study's baseline; for pretrainings, which may lack it, the one of the same name or else of the same encoder."""
    if not group[0].is_pretraining or any(labels[run.run_id] == chosen for run in group):
        return chosen
    encoders = {_encoder(run) for run in runs if labels[run.run_id] == chosen}
    named = [labels[run.run_id] for run in group if naming.stem(labels[run.run_id]) == naming.stem(chosen)]
    alike = list(dict.fromkeys(named or [labels[run.run_id] for run in group if _encoder(run) in encoders]))
    return alike[0] if len(alike) == 1 else chosen


def _encoder(run: Run) -> tuple[str, ...]:
    return run.tags[tags.MODEL], run.tags[tags.SCALE], run.tags.get(tags.ENHANCEMENTS, "")
