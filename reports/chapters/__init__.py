"""The chapters of the report, in order: each is a function of a study, with one line here or in a plug-in's entry point."""

from collections.abc import Callable
from functools import cache

from harness.reports.chapters import (
    appendix,
    overview,
    tasks,
    timing,
)
from harness.reports.chapters.added import Added, added
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter

__all__ = ["BUILT_IN", "Added", "added", "chapters"]

BUILT_IN = (
    overview.chapter,
    tasks.chapter,
    timing.chapter,
    appendix.left_out,
    appendix.legend,
    appendix.reproduce,
    appendix.conditions,
)


@cache
def chapters() -> tuple[Callable[[Study], Chapter], ...]:
    """All chapters, in order."""
    ordered = []
    for built_in in BUILT_IN:
        ordered += [one.chapter for one in added() if one.before is built_in]
        ordered.append(built_in)
    return tuple(ordered)
