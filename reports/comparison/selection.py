"""Which sections the numbers over tasks are of, where a study ran a task under several conditions."""

from harness import tags
from reports.comparison.compare import Comparison
from reports.comparison.remembered import remembered
from reports.comparison.section import Section


@remembered
def selected(comparison: Comparison) -> tuple[Section, ...]:
    """One section of each task: of its conditions those with the baseline, of these with the most arms, of these the newest.

    Pretrainings are those that the selected runs start from, where these are of any.
    """
    by_task: dict[str, list[Section]] = {}
    for section in comparison.sections:
        by_task.setdefault(section.task, []).append(section)
    tasks = [max(group, key=_weight) for group in by_task.values() if not group[0].is_pretraining]
    origins = {run.origin for section in tasks for run in section.runs} - {None}
    pretrainings = [group for group in by_task.values() if group[0].is_pretraining]
    first = [max(group, key=lambda section: (_used(section, origins), *_weight(section))) for group in pretrainings]
    return tuple(section for section in comparison.sections if section in (*first, *tasks))


def _weight(section: Section) -> tuple[bool, int, int]:
    return section.before is not None, len(section.rows), max(run.started for run in section.runs)


def _used(section: Section, origins: set[str]) -> int:
    """How many of its pretrainings are among these fingerprints."""
    return sum(run.tags.get(tags.FINGERPRINT) in origins for run in section.runs)
