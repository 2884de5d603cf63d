"""Progress on the console: on a terminal a live screen of all runs, or a live line with loss and remaining time.

Without a terminal on standard output and error, plain lines are printed.
"""

import sys
import time
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from harness.terminal import LINE_EVERY_S, WIDTH, LiveLine, columns, console, duration
from harness.tracking import run_log
from harness.tracking.run_log import Entry, Result, State


class Screen:
    """Shows `runs` runs, some of which may be skipped. What is printed meanwhile appears above it."""

    def __init__(self, runs: int) -> None:
        self._runs = self._left = runs
        self._done, self._failed = 0, 0
        self.bars: Progress | None = None
        """Lines of current runs; None without a screen."""
        self.given: set[str] = set()
        """Advice on training that has been printed."""

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if console.is_live(sys.stdout, sys.stderr):
            bar = [BarColumn(16)] if columns() >= WIDTH else []  # its numbers say the same
            name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=columns() // 2))
            state = TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True, ratio=1))
            self.bars = Progress(name, *bar, state, TimeElapsedColumn(), transient=True, refresh_per_second=4, expand=True)
            self._all = self.bars.add_task("all runs", total=self._left, state=self._text())
            self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def count(self, finished: bool, ran: bool) -> None:
        """One run more has ended, or was skipped because it has a result."""
        self._left -= 1
        self._failed += not finished
        self._done += ran
        if self.bars is not None:
            self.bars.update(self._all, advance=1, state=self._text())

    def _text(self) -> str:
        """`1/4 finished, about 2 min left; 1 failed`; the time is that of the runs of this command so far."""
        left = f"{self._runs - self._left}/{self._runs} finished"
        if self._done and self._left:
            left += f", about {duration((time.monotonic() - self._began) / self._done * self._left)} left"
        return left + (f"; {self._failed} failed" if self._failed else "")


class Display:
    """What runs now, as its bar on the screen, or as a live line where there is none; plain lines elsewhere, and in the log."""

    def __init__(self, name: str, prefix: str, screen: Screen | None, alone: bool = True) -> None:
        """`prefix` begins its lines; `alone`: nothing else writes a live line."""
        self._name, self._prefix = name, prefix
        self._began = self._last_line = time.monotonic()
        self._bars, self._given = (screen.bars, screen.given) if screen is not None else (None, set[str]())
        self._bar: TaskID | None = None
        self._total: float | None = None
        self._line = LiveLine(prefix) if self._bars is None and alone and console.is_live() else None
        self._is_shown = self._bars is not None or self._line is not None
        self.place("starting")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the display."""
        if self._line is not None:
            self._line.close()
        if self._bars is not None and self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None

    def place(self, text: str, done: float = 0, total: float | None = None) -> None:
        """Moves the bar to this place; without a total it is indeterminate."""
        if self._line is not None:
            self._line.show(self._prefix + text)
        if self._bars is None:
            return
        if self._bar is None or total != self._total:  # a bar keeps its total for ever
            self.close()
            self._bar, self._total = self._bars.add_task(self._name, total=total, state=text), total
        self._bars.update(self._bar, state=text, completed=done)

    def say_sometimes(self, text: str) -> None:
        """A plain line, at most every LINE_EVERY_S seconds."""
        if time.monotonic() - self._last_line > LINE_EVERY_S:
            self._last_line = time.monotonic()
            console.plain(self._prefix + text, replaced=self._is_shown)


class RunProgress(Display):
    """Shows the log of one run."""

    def __init__(self, label: str, screen: Screen | None = None, alone: bool = True) -> None:
        super().__init__(label, f"{label}: ", screen, alone)
        self._stage, self._steps, self._text = "starting", 0, "starting"
        self._stage_start: Entry = {"time": 0, "step": 0, "tokens": 0}
        self._latest = self._stage_start
        console.plain(f"{label}: started", replaced=self._is_shown)

    def show(self, entries: list[Entry]) -> None:
        """Shows new entries of the log; without any, every LINE_EVERY_S seconds that the stage continues."""
        progress = [entry for entry in entries if {"stage", "part"} & {*entry} or entry.get("key", "").endswith("/loss")]
        for entry, following in zip(progress, [*progress[1:], {}], strict=False):
            if "stage" in entry:
                resumed = entry["stage"] == self._stage
                self._stage_start = (self._latest if resumed else {"step": 0, "tokens": 0}) | {"time": entry["time"]}
                self._stage, self._steps = entry["stage"], entry["steps"]
                self._text = self._stage
                self.place(self._stage, 0, self._steps or None)
            elif "part" in entry:
                self._text = f"{self._text.partition(',')[0]}, {entry['part']}"
                self.place(self._text, self._latest["step"], self._steps or None)
            elif "key" not in following:  # only the last of consecutive points
                self._advance(entry)
        if not progress:
            self.say_sometimes(f"{self._text}, {time.monotonic() - self._began:.0f} s")

    def end(self, status: str, result: Result | None, reason: str, tried_again: bool = False) -> None:
        """One closing line: the headline score with what went wrong, or why it failed."""
        said = run_log.shortened(run_log.said_of(result), self._given)
        finished, outcome = status == State.finished, f"{status}: {reason}"
        if finished:
            score = f", score {result['metrics']['eval/score']:.4f}" if result and "eval/score" in result["metrics"] else ""
            outcome = f"finished in {time.monotonic() - self._began:.0f} s{score}{f'; {said}' if said else ''}"
        self.close()
        (console.plain if (finished and not said) or tried_again else console.problem)(f"{self._prefix}{outcome}")

    def _advance(self, point: Entry) -> None:
        """Shows step, loss, rate, and remaining time where the number of steps is known: it is not for a budget in seconds."""
        self._latest = point
        seconds = max(1e-3, (point["time"] - self._stage_start["time"]) / 1000)
        rate = (point["tokens"] - self._stage_start["tokens"]) / seconds
        done, remaining = f"{self._stage} step {point['step']}", ""
        if self._steps:
            left = seconds / max(1, point["step"] - self._stage_start["step"]) * (self._steps - point["step"])
            done, remaining = f"{done}/{self._steps}", f", {left:.0f} s left"
        self._text = f"{done}, loss {point['value']:.3f}"
        text = f"{done}{remaining}, loss {point['value']:.3f}, {rate:,.0f} tokens/s"  # a narrow terminal cuts the end
        self.place(text, point["step"], self._steps or None)
        self.say_sometimes(text)


class TimingProgress(Display):
    """Shows which launch of a session is running."""

    def __init__(self, launches: int, screen: Screen | None = None) -> None:
        """`launches`: at most."""
        super().__init__("timing", "Timing ", screen)
        self._launches, self._done = launches, 0

    def launch(self, what: str) -> None:
        """A launch begins."""
        if self._done:
            left = (time.monotonic() - self._began) / self._done * (self._launches - self._done)
            what += f", up to {left:.0f} s left"
        self.place(what, self._done, self._launches)
        self.say_sometimes(what)
        self._done += 1
