"""The runs of a command in order, one after the other or several at once; each starts after the pretraining that it needs."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from harness.study.end import End
from harness.study.plan import PlannedRun

Outcome = tuple[End, bool]
"""How a run ended, and whether it ran now."""

LEAVES_S = 4.0
"""Longest wait for the runs of an interrupted command, which end their workers."""


def outcomes(
    planned: Iterable[PlannedRun],
    workers: int,
    run: Callable[[PlannedRun], Outcome],
    skipped: Callable[[PlannedRun], bool],
    may_continue: Callable[[], bool],
    interrupted: threading.Event,
) -> Iterator[tuple[PlannedRun, Outcome | None]]:
    """Each run with its outcome as soon as it has ended; None for one that `skipped` says is not to be run.

    Nothing starts where `may_continue` is false; runs in other threads are waited for. Where this thread is interrupted,
    `interrupted` is set, by which they end.
    """
    if workers == 1:  # in this thread
        for item in planned:
            if not may_continue():
                return
            yield item, (None if skipped(item) else run(item))
        return
    crew = _Crew(run)
    waiting = list(planned)
    try:
        while waiting or crew.running:
            ready = next((item for item in waiting if not _waits(item, waiting, crew.running)), None)
            if ready is None or not may_continue() or len(crew.running) == workers:
                if not crew.running:
                    return
                yield crew.next_outcome()
                continue
            waiting = [item for item in waiting if item is not ready]
            if skipped(ready):
                yield ready, None
            else:
                crew.start(ready)
    except BaseException:
        interrupted.set()
        crew.leave()
        raise


def _waits(item: PlannedRun, waiting: list[PlannedRun], running: list[PlannedRun]) -> bool:
    return item.needs is not None and any(other is item.needs for other in (*waiting, *running))


class _Crew:
    """Threads, each of which follows the worker of one run."""

    def __init__(self, run: Callable[[PlannedRun], Outcome]) -> None:
        self._run = run
        self._ended: queue.Queue[tuple[PlannedRun, Outcome | BaseException]] = queue.Queue()
        self._threads: dict[int, threading.Thread] = {}
        self.running: list[PlannedRun] = []

    def start(self, item: PlannedRun) -> None:
        self.running.append(item)
        self._threads[id(item)] = threading.Thread(target=self._follow, args=(item,), name=item.title, daemon=True)
        self._threads[id(item)].start()

    def next_outcome(self) -> tuple[PlannedRun, Outcome]:
        """Waits for the next run to end; raises what it raised."""
        item, outcome = self._ended.get()
        self.running = [other for other in self.running if other is not item]
        del self._threads[id(item)]
        if isinstance(outcome, BaseException):
            raise outcome
        return item, outcome

    def leave(self) -> None:
        """Waits a little for the threads; what they start ends with this process in any case."""
        for thread in self._threads.values():
            thread.join(LEAVES_S)

    def _follow(self, item: PlannedRun) -> None:
        try:
            self._ended.put((item, self._run(item)))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._ended.put((item, error))
