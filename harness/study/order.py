"""The order in which a command starts its runs: as planned, each after the pretraining that it needs, first what is free."""

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

LOOKS_AGAIN_S = 1.0
"""Seconds that are waited for a run of another command, when nothing else is left, before the next such run is tried."""


class Item(Protocol):
    """What the order needs of a run."""

    @property
    def needs(self) -> "Item | None":
        """The run that must end before this one starts."""


Run = TypeVar("Run", bound=Item)


class Next(NamedTuple, Generic[Run]):
    """A run that can start."""

    run: Run
    again: bool  # it was put off before, and nothing else can start


class Order(Generic[Run]):
    """Which run starts next; a step costs at most the logarithm of the number of runs.

    `planned` has each run after the one that it needs. Runs are taken from it when they are needed, because the end of one may
    decide which comes next.
    """

    def __init__(self, planned: Iterable[Run]) -> None:
        self._coming = enumerate(planned)
        self._ready: list[tuple[int, Run]] = []  # by place
        self._blocked: dict[int, list[tuple[int, Run]]] = {}  # by the run that they need
        self._put_off: deque[Run] = deque()
        self._open: set[int] = set()  # runs that were seen and have not ended

    def take(self) -> Next[Run] | None:
        """The next run; None where nothing can start before another run has ended, or nothing is left."""
        if self._ready:
            return Next(heapq.heappop(self._ready)[1], again=False)
        for place, run in self._coming:
            self._open.add(id(run))
            if run.needs is None or id(run.needs) not in self._open:
                return Next(run, again=False)
            self._blocked.setdefault(id(run.needs), []).append((place, run))
        return Next(self._put_off.popleft(), again=True) if self._put_off else None

    def put_off(self, run: Run) -> None:
        """Another command holds this run, which was taken: all others come first."""
        self._put_off.append(run)

    def end(self, run: Run) -> None:
        """The run, which was taken, has ended or is not to be run: what needs it can start."""
        self._open.remove(id(run))
        for released in self._blocked.pop(id(run), []):
            heapq.heappush(self._ready, released)
