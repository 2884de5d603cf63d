"""Chapters of pictures, made by a second process while this one makes the others: drawing takes half of a report's time."""

import contextlib
import gc
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from harness.processes import end_with_parent
from reports.chapters import components, effects, pictures, pretraining, scales, scaling
from reports.comparison.study import Study
from reports.errors import ReportError
from reports.writing.chapter import Chapter

DRAWN = (pretraining.chapter, components.chapter, effects.chapter, scales.chapter, scaling.chapter, pictures.chapter)
"""Chapters that take more time to draw than to compute, and share little of what they compute with others."""

Made = dict[Callable[[Study], Chapter], Chapter]


def can_draw_apart() -> bool:
    """Whether a forked process is safe and saves time: on Linux, with a second core, and from a process of one thread.

    A lock that another thread holds at the fork, such as that of SQLite's memory, is never released in the forked process.
    """
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


@contextlib.contextmanager
def drawn_apart(study: Study) -> Iterator[Callable[[], Made]]:
    """Begins with the chapters of DRAWN in a forked process; what it gives waits for them.

    ReportError where that process ends before; errors of a chapter are raised as they are.
    """
    fork = multiprocessing.get_context("fork")  # the study is inherited: what it reads with cannot be pickled
    received, sent = fork.Pipe(duplex=False)
    process = fork.Process(target=_draw, args=(study, sent, os.getpid()), daemon=True)
    gc.freeze()  # else the first collection there would copy all memory
    process.start()
    gc.unfreeze()
    sent.close()
    try:
        yield lambda: _received(received)
    finally:
        received.close()
        process.kill()
        process.join()


def _draw(study: Study, sent: Connection, parent: int) -> None:
    end_with_parent(parent)
    try:
        made = [chapter(study) for chapter in DRAWN]
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        made = error
    with contextlib.suppress(BrokenPipeError):  # the report has failed elsewhere
        sent.send(made)


def _received(received: Connection) -> Made:
    try:
        made = received.recv()
    except EOFError as error:
        raise ReportError("the process that draws the pictures was killed, as by a lack of memory; no report") from error
    if isinstance(made, Exception):
        raise made
    return dict(zip(DRAWN, made, strict=True))
