"""The chapters of the report, in order: each is a function of a study, with one line here or in a plug-in's entry point."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from harness import extensions
from harness.errors import InputError
from harness.reports.chapters import (
    appendix,
    components,
    diagnostics,
    overview,
    pictures,
    pretraining,
    timing,
)
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter

BUILT_IN = (
    overview.chapter,
    pretraining.tasks,
    pretraining.chapter,
    diagnostics.chapter,
    components.chapter,
    pictures.chapter,
    timing.chapter,
    appendix.left_out,
    appendix.legend,
    appendix.reproduce,
    appendix.conditions,
)


GROUP = "harness.chapters"


@dataclass(frozen=True)
class Added:
    """A chapter that a plug-in adds."""

    chapter: Callable[[Study], Chapter]  # empty where a study has nothing for it
    before: Callable[[Study], Chapter] = appendix.left_out  # the chapter of this package that it precedes
    order: int = 0  # among those before the same chapter, then by name
    check: Callable[[list[str]], object] | None = None  # InputError for wrong targets, before anything is read


@cache
def added() -> list[Added]:
    """Chapters of plug-ins; InputError for one that cannot be imported or has no place."""
    chapters = []
    for point in extensions.declared(GROUP).values():
        chapter = extensions.load(point, Added)
        if chapter.before not in BUILT_IN:
            raise InputError(f"{GROUP}: {point.name} = {point.value} is before no chapter of {__name__}.BUILT_IN")
        chapters.append(chapter)
    return sorted(chapters, key=lambda chapter: chapter.order)


@cache
def chapters() -> tuple[Callable[[Study], Chapter], ...]:
    """All chapters, in order."""
    return tuple(
        each for built_in in BUILT_IN for each in (*(one.chapter for one in added() if one.before is built_in), built_in)
    )
