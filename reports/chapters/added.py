"""Chapters that plug-ins add to those of this package."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from harness import extensions
from harness.reports.chapters import appendix
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter

GROUP = "harness.chapters"


@dataclass(frozen=True)
class Added:
    """A chapter that a plug-in adds."""

    chapter: Callable[[Study], Chapter]  # empty where a study has nothing for it
    before: Callable[[Study], Chapter] | None = appendix.left_out  # the chapter of this package that it precedes; None: of the
    # opening, where its pictures and sentences stand below the first table
    order: int = 0  # among those before the same chapter, then by name
    check: Callable[[list[str]], object] | None = None  # InputError for wrong targets, before anything is read


@cache
def added() -> list[Added]:
    """Chapters of plug-ins, in order; InputError for one that cannot be imported."""
    every = [extensions.load(point, Added) for point in extensions.declared(GROUP).values()]
    return sorted(every, key=lambda one: one.order)
