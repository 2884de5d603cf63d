"""Progress of work in several parts."""

import time

from harness.terminal import duration


class Countdown:
    """Progress of parts that begin one after the other; `total`: their maximum number."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._begun, self._longest, self._since = 0, 0.0, 0.0

    def part(self, text: str) -> str:
        """`2/4, at most about 20 s left: ...` for one that begins now: those left take as long as the longest so far."""
        now = time.monotonic()
        self._longest = max(self._longest, now - self._since) if self._begun else 0.0
        bound = f", up to {duration(self._longest * (self.total - self._begun))} left" if self._begun else ""
        self._begun, self._since = self._begun + 1, now
        return f"{self._begun}/{self.total}{bound}: {text}"
