"""Progress of a session on the console: on a terminal a line that is renewed every second, few plain lines otherwise."""

import threading
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

from harness.study.screen import Screen
from harness.terminal import console

RENEWED_S, LINE_EVERY_S = 1.0, 15.0
"""Seconds between two drawings on a terminal, and between two plain lines."""

FORMAT = "{desc} [{elapsed}]"


class Progress:
    """Shows which launch is running."""

    def __init__(self, launches: int, screen: Screen | None = None) -> None:
        """`launches`: at most. On a screen that is shown the session has its bar there."""
        self._left, self._done = launches, 0
        self._screen = screen if screen is not None and screen.is_shown else None
        self._began = self._last_line = time.monotonic()
        self._bar: tqdm | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._screen is not None:
            self._shown = self._screen.begin("timing")
        elif console.is_live():
            self._bar = tqdm(bar_format=FORMAT, desc="Timing", leave=False, dynamic_ncols=True)
            self._thread = threading.Thread(target=self._renew, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._screen is not None:
            self._shown.end()
        if self._bar is not None:
            self._thread.join()
            self._bar.close()

    def launch(self, what: str) -> None:
        """A launch begins."""
        if self._done:
            seconds = (time.monotonic() - self._began) / self._done * self._left
            what += f", at most about {seconds:.0f} s left"
        if self._screen is not None:
            self._shown.advance(what, self._done, self._done + self._left)
        elif self._bar is not None:
            self._bar.set_description_str(f"Timing {what}")
        if time.monotonic() - self._last_line > LINE_EVERY_S:
            self._last_line = time.monotonic()
            console.plain(f"Timing {what}", replaced=self._screen is not None or self._bar is not None)
        self._done, self._left = self._done + 1, self._left - 1

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED_S):
            self._bar.refresh()
