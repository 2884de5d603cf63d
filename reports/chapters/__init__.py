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
    effects,
    glue,
    over_items,
    overview,
    pictures,
    predictions,
    pretraining,
    scales,
    scaling,
    timing,
    trade_offs,
)
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter

BUILT_IN = (
    overview.chapter,
    glue.chapter,
    trade_offs.chapter,
    effects.chapter,
    pretraining.tasks,
    pretraining.chapter,
    over_items.chapter,
    diagnostics.chapter,
    components.chapter,
    scales.scales,
    scaling.chapter,
    pictures.chapter,
    predictions.disagreements,
    predictions.errors,
    timing.chapter,
    appendix.left_out,
    appendix.legend,
    appendix.reproduce,
    appendix.conditions,
)


GROUP = "harness.chapters"


def accept(targets: list[str]) -> None:
    """Has nothing against any targets."""


@dataclass(frozen=True)
class Added:
    """A chapter that a plug-in adds."""

    chapter: Callable[[Study], Chapter]  # empty where a study has nothing for it
    before: Callable[[Study], Chapter] = appendix.left_out  # the chapter of this package that it precedes
    check: Callable[[list[str]], object] = accept  # ReportError for wrong targets, before anything is read


@cache
def added() -> list[Added]:
    """Chapters of plug-ins; InputError for one that cannot be imported or has no place."""
    chapters = []
    for point in extensions.declared(GROUP).values():
        chapter = extensions.load(point, Added)
        if chapter.before not in BUILT_IN:
            raise InputError(f"{GROUP}: {point.name} = {point.value} is before no chapter of {__name__}.BUILT_IN")
        chapters.append(chapter)
    return chapters


@cache
def chapters() -> tuple[Callable[[Study], Chapter], ...]:
    """All chapters, in order."""
    return tuple(
        each for built_in in BUILT_IN for each in (*(one.chapter for one in added() if one.before is built_in), built_in)
    )
