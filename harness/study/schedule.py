"""Which run of a command starts next, how a run ended, and when failures end the sweep; tests simulate large ones."""

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from harness.config.schema import SweepConfig
from harness.terminal import counted
from harness.tracking.run_log import State


@dataclass(frozen=True)
class End:
    """How a run ended."""

    state: State
    reason: str = ""  # one line; empty for a run that finished
    lines: tuple[str, ...] = ()  # the last ones that its worker printed

    @property
    def kind(self) -> str:
        """Equal for failures of the same kind: the state and, of a worker that failed, its exception."""
        return f"{self.state.text}: {self.reason.partition(':')[0]}" if self.state is State.failed else self.state.text


INTERRUPTED = End(State.killed, "its command was interrupted or ended")


LOOKS_AGAIN_S = 1.0
"""Seconds that are waited for a run of another command, when nothing else is left, before the next such run is tried."""


class Planned(Protocol):
    """What scheduling needs of a run."""

    place: int  # among the runs as the command names them

    @property
    def needs(self) -> "Planned | None":
        """The run that must end before this one starts."""


Run = TypeVar("Run", bound=Planned)


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


class Failures:
    """The runs that have not finished so far."""

    def __init__(self, config: SweepConfig) -> None:
        self._config = config
        self._in_a_row, self._kind = 0, ""
        self.ends: dict[int, End | None] = {}  # by place of the run; None: it needs a pretraining that did not finish

    def add(self, run: Planned, end: End, ran: bool) -> str | None:
        """Takes the end of one run. Why the sweep must stop now, with the key that says so; None if it continues."""
        if end.state is not State.finished:
            self.ends[run.place] = end
        if not ran:
            return None
        if end.state in (State.finished, State.diverged):  # a result: the machine works
            self._in_a_row = 0
        else:
            self._in_a_row = self._in_a_row + 1 if end.kind == self._kind else 1
            self._kind = end.kind
        if end.state is not State.finished and self._config.on_failure == "stop":
            return f"a run did not finish ({end.state.text}; sweep.on_failure=stop)"
        if self._config.same_failures and self._in_a_row >= self._config.same_failures:
            count = self._config.same_failures
            return f"{count} runs in a row ended with the same failure, {self._kind!r} (sweep.same_failures={count})"
        return None

    def has(self, run: Planned | None) -> bool:
        """Whether this run is among them."""
        return run is not None and run.place in self.ends

    def summary(self, planned: int, not_started: int) -> str:
        """`3 of 200 runs did not finish: 2 out of memory, 1 failed`."""
        counts = Counter(end.state.text if end else "without its pretraining" for end in self.ends.values())
        if not_started:
            counts["not started"] = not_started
        parts = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        return f"{sum(counts.values())} of {counted(planned, 'run')} did not finish: {parts}"
