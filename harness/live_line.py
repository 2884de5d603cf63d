"""One line on the terminal that says what happens now, rewritten every second with the time since its start.

Where the error stream is no terminal, there is no such line.
"""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

EVERY_S = 1.0
"""Seconds between two rewrites."""

CLEAR = "\r\x1b[K"
"""Control characters: to the start of the line, and remove what is there."""


class LiveLine:
    """Shows a text from its creation until it is closed."""

    def __init__(self, text: str) -> None:
        self._text, self._began, self._closed = text, time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._rewrite, name="live line", daemon=True)
        if sys.stderr.isatty():
            self._thread.start()

    def show(self, text: str) -> None:
        """Replaces the text at the next rewrite."""
        self._text = text

    def close(self) -> None:
        """Removes the line."""
        if self._thread.is_alive():
            self._closed.set()
            self._thread.join()

    def _rewrite(self) -> None:
        while not self._closed.is_set():
            minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
            line = f"{self._text}, {minutes}:{seconds:02d}"[: shutil.get_terminal_size().columns - 1]
            print(f"{CLEAR}{line}", end="", file=sys.stderr, flush=True)
            self._closed.wait(EVERY_S)
        print(CLEAR, end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def live_line(text: str) -> Iterator[LiveLine]:
    """Shows the text while the block works."""
    line = LiveLine(text)
    try:
        yield line
    finally:
        line.close()
