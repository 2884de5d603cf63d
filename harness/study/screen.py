"""One live screen for the runs of a command: how many are done, failed and left, and a bar of its own for what runs now.

There is none where standard output or the error stream is no terminal: then plain lines are printed.
"""

import sys
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from harness.terminal import duration


class Screen:
    """Shows `runs` runs, some of which may be skipped. What is printed meanwhile appears above it."""

    def __init__(self, runs: int) -> None:
        self._runs = self._left = runs
        self._done, self._failed, self._seconds = 0, 0, 0.0
        self._bars: Progress | None = None
        self._name, self._total = "", None
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stdout.isatty() and sys.stderr.isatty():
            self._bars = _bars()
            self._all = self._bars.add_task("all runs", total=self._left, state=self._text())
            self._now = self._bars.add_task("", total=None, state="", visible=False)
            self._bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    @property
    def is_shown(self) -> bool:
        """Whether there is a screen; it shows what `begin` and `advance` say."""
        return self._bars is not None

    def begin(self, name: str) -> None:
        """Something runs now: a run, or the launches of a session."""
        self._began = time.monotonic()
        self._name = name
        self._renew("starting", None)

    def advance(self, state: str, done: float = 0, total: float | None = None) -> None:
        """Where it is; without a total the bar moves without an end."""
        if total != self._total:
            self._renew(state, total)
        if self._bars is not None:
            self._bars.update(self._now, state=state, completed=done)

    def _renew(self, state: str, total: float | None) -> None:
        """A bar keeps its total for ever, so that another total takes another bar."""
        self._total = total
        if self._bars is not None:
            self._bars.remove_task(self._now)
            self._now = self._bars.add_task(self._name, total=total, state=state)

    def end(self) -> None:
        """Nothing runs now."""
        if self._bars is not None:
            self._bars.update(self._now, visible=False)

    def count(self, finished: bool, ran: bool) -> None:
        """One run more has ended, or was skipped because it has a result."""
        self._left -= 1
        self._failed += not finished
        if ran:
            self._done += 1
            self._seconds += time.monotonic() - self._began
        if self._bars is not None:
            self._bars.update(self._all, advance=1, state=self._text())

    def _text(self) -> str:
        """`1/4, 3 left, about 2 min; 1 not finished`; the time is that of the runs of this command so far."""
        left = f"{self._runs - self._left}/{self._runs}, {self._left} left"
        if self._done and self._left:
            left += f", about {duration(self._seconds / self._done * self._left)}"
        return left + (f"; {self._failed} not finished" if self._failed else "")


def _bars() -> Progress:
    columns = (BarColumn(16), TextColumn("{task.fields[state]}", markup=False), TimeElapsedColumn())
    return Progress(TextColumn("{task.description}", markup=False), *columns, transient=True, refresh_per_second=4)
