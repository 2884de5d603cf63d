"""Progress of a run on the console: on a terminal a live line with loss, tokens/s and remaining time, plain lines otherwise."""

import time
from types import TracebackType
from typing import Any, Self

from harness.study.screen import Screen
from harness.terminal import LiveLine, console

LINE_EVERY_S = 15.0
"""Seconds between plain lines of one run."""


class Progress:
    """Shows the log of one run."""

    def __init__(self, label: str, screen: Screen | None = None, alone: bool = True) -> None:
        """On a screen that is shown the run has its bar there; `alone`: no other run writes a live line."""
        self._label = label
        self._screen = screen if screen is not None and screen.is_shown else None
        self._alone = alone
        self._stage = self._said = "starting"
        self._steps = 0
        self._began = self._last_line = time.monotonic()
        self._stage_start: dict[str, Any] = {"time": 0, "step": 0, "tokens": 0}
        self._latest = self._stage_start

    @property
    def _is_live(self) -> bool:
        """Whether the run has a live line of its own."""
        return self._alone and console.is_live()

    @property
    def _is_shown(self) -> bool:
        """Whether a live display shows the run."""
        return self._screen is not None or self._is_live

    def __enter__(self) -> Self:
        console.plain(f"{self._label}: started", replaced=self._is_shown)
        if self._screen is not None:
            self._bar = self._screen.begin(self._label)
        elif self._is_live:
            self._line = LiveLine(f"{self._label}: {self._stage}")
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def show(self, entries: list[dict[str, Any]]) -> None:
        """Shows new entries of the log; without any, every LINE_EVERY_S seconds that the stage continues."""
        shown = [entry for entry in entries if "stage" in entry or entry.get("key", "").endswith("/loss")]
        for entry, following in zip(shown, [*shown[1:], {}], strict=False):
            if "stage" in entry:
                self._begin(entry)
            elif "key" not in following:  # only the last of consecutive points
                self._advance(entry)
        if not shown:
            self._say_sometimes(f"{self._said}, {time.monotonic() - self._began:.0f} s")

    def end(self, status: str, metrics: dict[str, float], reason: str, tried_again: bool = False) -> None:
        """One closing line: the headline score, or why it failed."""
        seconds = f"{time.monotonic() - self._began:.0f} s"
        score = f", score {metrics['eval/score']:.4f}" if "eval/score" in metrics else ""
        outcome = f"{status} in {seconds}{score}" if status == "finished" else f"{status}: {reason}"
        self._close()
        say = console.plain if status == "finished" or tried_again else console.problem
        say(f"{self._label}: {outcome}")

    def _begin(self, entry: dict[str, Any]) -> None:
        resumed = entry["stage"] == self._stage
        self._stage_start = (self._latest if resumed else {"step": 0, "tokens": 0}) | {"time": entry["time"]}
        self._stage, self._steps = entry["stage"], entry["steps"]
        self._said = self._stage
        self._show(self._stage, 0)

    def _advance(self, point: dict[str, Any]) -> None:
        self._latest = point
        seconds = max(1e-3, (point["time"] - self._stage_start["time"]) / 1000)
        rate = (point["tokens"] - self._stage_start["tokens"]) / seconds
        done, remaining = self._remaining(point, seconds)
        text = f"{done}, loss {point['value']:.3f}, {rate:,.0f} tokens/s{remaining}"
        self._show(text, point["step"])
        self._said = f"{done}, loss {point['value']:.3f}"
        self._say_sometimes(text)

    def _show(self, text: str, step: int) -> None:
        if self._screen is not None:
            self._bar.advance(text, step, self._steps or None)
        elif self._is_live:
            self._line.show(f"{self._label}: {text}")

    def _close(self) -> None:
        if self._screen is not None:
            self._bar.end()
        elif self._is_live:
            self._line.close()

    def _say_sometimes(self, text: str) -> None:
        if time.monotonic() - self._last_line > LINE_EVERY_S:
            self._last_line = time.monotonic()
            console.plain(f"{self._label}: {text}", replaced=self._is_shown)

    def _remaining(self, point: dict[str, Any], seconds: float) -> tuple[str, str]:
        """Step of the stage, and its remaining time where the number of steps is known."""
        done = f"{self._stage} step {point['step']}"
        if not self._steps:  # a budget in seconds
            return done, ""
        left = seconds / max(1, point["step"] - self._stage_start["step"]) * (self._steps - point["step"])
        return f"{done}/{self._steps}", f", {left:.0f} s left"
