"""One live screen for the runs of a command: how many are done, failed and left, and a bar for each that runs now.

There is none where standard output or the error stream is no terminal: then plain lines are printed.
"""

import sys
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.terminal import console, duration


class Bar:
    """The bar of what runs now. It is shown until its end; without `bars` nothing is."""

    def __init__(self, bars: Progress | None, name: str) -> None:
        self._bars, self._name = bars, name
        self._task: TaskID | None = None
        self._renew("starting", None)

    def advance(self, state: str, done: float = 0, total: float | None = None) -> None:
        """Where it is; without a total the bar moves without an end."""
        if total != self._total:
            self._renew(state, total)
        if self._bars is not None:
            self._bars.update(self._task, state=state, completed=done)

    def end(self) -> None:
        """It runs no more."""
        if self._bars is not None and self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def _renew(self, state: str, total: float | None) -> None:
        """A bar keeps its total for ever, so that another total takes another bar."""
        self._total = total
        if self._bars is not None:
            self.end()
            self._task = self._bars.add_task(self._name, total=total, state=state)


class Screen:
    """Shows `runs` runs, some of which may be skipped. What is printed meanwhile appears above it."""

    def __init__(self, runs: int) -> None:
        self._runs = self._left = runs
        self._done, self._failed = 0, 0
        self._bars: Progress | None = None
        self._began: float | None = None

    def __enter__(self) -> Self:
        if console.is_live(sys.stdout, sys.stderr):
            self._bars = _bars()
            self._all = self._bars.add_task("all runs", total=self._left, state=self._text())
            self._bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    @property
    def is_shown(self) -> bool:
        """Whether there is a screen; it shows the bars that begin."""
        return self._bars is not None

    def begin(self, name: str) -> Bar:
        """Something runs now: a run, or the launches of a session; several runs may."""
        self._began = self._began or time.monotonic()
        return Bar(self._bars, name)

    def count(self, finished: bool, ran: bool) -> None:
        """One run more has ended, or was skipped because it has a result."""
        self._left -= 1
        self._failed += not finished
        self._done += ran
        if self._bars is not None:
            self._bars.update(self._all, advance=1, state=self._text())

    def _text(self) -> str:
        """`1/4, 3 left, about 2 min; 1 not finished`; the time is that of the runs of this command so far."""
        left = f"{self._runs - self._left}/{self._runs}, {self._left} left"
        if self._done and self._left and self._began is not None:
            left += f", about {duration((time.monotonic() - self._began) / self._done * self._left)}"
        return left + (f"; {self._failed} not finished" if self._failed else "")


def _bars() -> Progress:
    columns = (BarColumn(16), TextColumn("{task.fields[state]}", markup=False), TimeElapsedColumn())
    return Progress(TextColumn("{task.description}", markup=False), *columns, transient=True, refresh_per_second=4)
