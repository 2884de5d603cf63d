"""Sends to a tracker from a thread of its own: whatever a library does there, no run waits for it and none ends by it.

Once a tracker has failed it stays away for the rest of the command, which is said once. The runs' folders keep everything.
"""

import math
import queue
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from harness.redact import redacted
from harness.terminal import console, counted, duration

PATIENCE_S = 60.0
"""Longest wait, at the end, for one call: a database on a busy machine takes most of that to be created."""

MOST_S = 180.0
"""Longest wait at the end for all that is left."""

REFUSED = (
    *("INVALID_PARAMETER_VALUE", "MALFORMED_REQUEST", "BAD_REQUEST", "INVALID_STATE", "RESOURCE_ALREADY_EXISTS"),
    *("RESOURCE_DOES_NOT_EXIST", "ENDPOINT_NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED", "NOT_IMPLEMENTED"),
)
"""Codes of MLflow for a call that it has read and refuses."""

NO_ADDRESS = r"Invalid url|unsupported URI|maintenance mode"
"""What MLflow says of an address that it has no store for."""

ENDED_S = 2.5
"""Longest wait after Ctrl-C."""


class Background:
    """Calls in order, in a thread that ends with this process."""

    def __init__(self, name: str, advice: str = "") -> None:
        """`name` of the tracker; `advice` says what helps where it is unreachable."""
        self.name, self._advice = name, advice
        self._error: str | None = None
        self._said = False
        self._calls: queue.Queue[Callable[[], object]] = queue.Queue()
        threading.Thread(target=self._serve, name=f"tracking {name}", daemon=True).start()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls it later; not at all if a call has failed."""
        self.say()
        self._calls.put(lambda: function(*arguments))

    def say(self) -> None:
        """Prints once that the tracker has failed, if it has."""
        if self._error is not None and not self._said:
            self._said = True
            console.problem(f"{self.name} {self._error}. {self._advice}".rstrip())

    @property
    def is_away(self) -> bool:
        """Whether a call has failed."""
        return self._error is not None

    def wait(self, most_s: float = MOST_S, patience_s: float = PATIENCE_S) -> None:
        """Waits until all calls are done, or none of them is for a while; then the tracker counts as unreachable."""
        end = time.monotonic() + most_s
        left, before = self._left(), None
        while left and left != before and self._error is None:
            left, before = self._left(fewer_than=left, most_s=min(patience_s, end - time.monotonic())), left
        if left and self._error is None:
            self._error = "is unreachable (it does not answer)"
            if time.monotonic() >= end:
                self._error = f"is too slow ({counted(left, 'call')} left after {duration(most_s)})"
        self.say()

    def _left(self, fewer_than: float = math.inf, most_s: float = 0.0) -> int:
        """Calls that are not done, as soon as there are fewer of them, or after this time."""
        with self._calls.all_tasks_done:
            self._calls.all_tasks_done.wait_for(lambda: self._calls.unfinished_tasks < fewer_than, max(0.0, most_s))
            return self._calls.unfinished_tasks

    def _serve(self) -> None:
        while True:
            function = self._calls.get()
            try:
                if self._error is None:
                    function()
            except Exception as error:  # noqa: BLE001 - libraries and drivers throw what they like
                self._error = complaint(error)
            finally:
                self._calls.task_done()


def complaint(error: Exception) -> str:
    """`is unreachable (...)`; where it was reached, or its address can lead nowhere, `does not take this (...)`."""
    line = one_line(error)
    refused = getattr(error, "error_code", None) in REFUSED or re.search(NO_ADDRESS, line)
    return f"does not take this ({line})" if refused else f"is unreachable ({line})"


def one_line(error: Exception) -> str:
    """The first line of what it says, without passwords."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return redacted(lines[0])[:200]
