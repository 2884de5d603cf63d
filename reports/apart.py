"""Chapters of pictures, made by a second process while this one makes the others: drawing takes half of a report's time."""

import contextlib
import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from harness.processes import end_with_parent
from reports.chapters import components, effects, pictures, pretraining, scales, scaling
from reports.comparison.study import Study
from reports.errors import ReportError
from reports.writing.chapter import Chapter

DRAWN = (pretraining.chapter, components.chapter, effects.chapter, scales.chapter, scaling.chapter, pictures.chapter)
"""Chapters that take more time to draw than to compute, and share little of what they compute with others."""

Made = dict[Callable[[Study], Chapter], Chapter]

_studies: list[Study] = []
"""The study of which a forked process makes chapters: what it reads with cannot be pickled."""


def can_draw_apart() -> bool:
    """Whether a forked process saves time: on Linux, with a second core."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@contextlib.contextmanager
def drawn_apart(study: Study) -> Iterator[Callable[[], Made]]:
    """Begins with the chapters of DRAWN in a forked process; what it gives waits for them.

    ReportError where that process ends before; errors of a chapter are raised as they are.
    """
    _studies.append(study)
    gc.freeze()  # else the first collection there would copy all memory
    try:
        fork, parent = multiprocessing.get_context("fork"), (os.getpid(),)
        with ProcessPoolExecutor(1, fork, initializer=end_with_parent, initargs=parent) as pool:
            drawn = pool.submit(_draw)
            yield lambda: dict(zip(DRAWN, drawn.result(), strict=True))
    except BrokenProcessPool as error:
        raise ReportError("the process that draws the pictures was killed, as by a lack of memory; no report") from error
    finally:
        gc.unfreeze()
        _studies.pop()


def _draw() -> list[Chapter]:
    return [chapter(_studies[-1]) for chapter in DRAWN]
