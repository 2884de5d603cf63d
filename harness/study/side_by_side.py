"""The runs of a command in order, one after the other or several at once."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from harness.study.end import End
from harness.study.order import Order
from harness.study.plan import PlannedRun

Outcome = tuple[End, bool]
"""How a run ended, and whether it ran now."""

LEAVES_S = 4.0
"""Longest wait for the runs of an interrupted command, which end their workers."""

Runner = Callable[[PlannedRun, bool], Outcome | None]
"""Runs one; None if another command holds it. The flag: nothing else is left to run, so that it may wait a little for that."""


def outcomes(
    planned: Iterable[PlannedRun],
    workers: int,
    run: Runner,
    skipped: Callable[[PlannedRun], bool],
    may_continue: Callable[[], bool],
    interrupted: threading.Event,
    on_last: Callable[[], None] = lambda: None,
) -> Iterator[tuple[PlannedRun, Outcome | None]]:
    """Each run with its outcome as soon as it has ended; None for one that `skipped` says is not to be run.

    Nothing starts where `may_continue` is false; runs in other threads are waited for. Where this thread is interrupted,
    `interrupted` is set, by which they end. `on_last` is called in this thread when a worker has nothing left to run while
    another still runs.
    """
    order, free = Order(planned), False
    crew = _Here(run) if workers == 1 else _Crew(run, interrupted)
    with crew:
        while True:
            ready = order.take() if may_continue() and crew.running < workers else None
            if ready is not None and skipped(ready.run):
                order.end(ready.run)
                yield ready.run, None
            elif ready is not None:
                crew.start(ready.run, ready.again)
            elif crew.running:
                if crew.running < workers and not free:
                    free = True
                    on_last()
                item, outcome = crew.next_outcome()
                if outcome is None:
                    order.put_off(item)
                else:
                    order.end(item)
                    yield item, outcome
            else:
                return


class _Here:
    """Runs in this thread."""

    running = 0

    def __init__(self, run: Runner) -> None:
        self._run = run

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, item: PlannedRun, again: bool) -> None:
        """Runs it to its end."""
        self._ended, self.running = (item, self._run(item, again)), 1

    def next_outcome(self) -> tuple[PlannedRun, Outcome | None]:
        """That of the last one."""
        self.running = 0
        return self._ended


class _Crew:
    """Threads, each of which follows the worker of one run."""

    def __init__(self, run: Runner, interrupted: threading.Event) -> None:
        self._run, self._interrupted = run, interrupted
        self._ended: queue.Queue[tuple[PlannedRun, Outcome | BaseException | None]] = queue.Queue()
        self._threads: dict[int, threading.Thread] = {}

    @property
    def running(self) -> int:
        """Number of runs that were started and whose outcome was not taken."""
        return len(self._threads)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Where this thread is interrupted, waits a little for the others; what they start ends with this process anyway."""
        if kind is not None:
            self._interrupted.set()
            for thread in self._threads.values():
                thread.join(LEAVES_S)

    def start(self, item: PlannedRun, again: bool) -> None:
        """Runs it in a thread of its own."""
        thread = threading.Thread(target=self._follow, args=(item, again), name=item.title, daemon=True)
        self._threads[id(item)] = thread
        thread.start()

    def next_outcome(self) -> tuple[PlannedRun, Outcome | None]:
        """Waits for the next run to end; raises what it raised."""
        item, outcome = self._ended.get()
        del self._threads[id(item)]
        if isinstance(outcome, BaseException):
            raise outcome
        return item, outcome

    def _follow(self, item: PlannedRun, again: bool) -> None:
        try:
            self._ended.put((item, self._run(item, again)))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._ended.put((item, error))
