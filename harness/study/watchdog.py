"""Ends the wait for a worker that takes too long, or that does nothing for too long."""

import time
from pathlib import Path

from harness import paths
from harness.config.execution import SweepConfig

LONGEST_STEP_S = 30.0
"""Most seconds that one look counts: a machine that slept, or a command that was stopped, did not let the worker work."""


class Watchdog:
    """Counts the time of one run, and the time since its folder last changed."""

    def __init__(self, config: SweepConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._last = time.monotonic()
        self._ran_s = self._silent_s = 0.0
        self._seen: object = None

    def complaint(self) -> str | None:
        """Why the worker must end, with the key that says so; None while it may go on. To be called every few seconds."""
        now, seen = time.monotonic(), self._signs()
        step, self._last = min(now - self._last, LONGEST_STEP_S), now
        self._ran_s += step
        self._silent_s = self._silent_s + step if seen == self._seen else 0.0
        self._seen = seen
        longest, silent = self._config.timeout_minutes, self._config.silent_minutes
        if longest is not None and self._ran_s > 60 * longest:
            return f"it ran for more than {longest:g} min (sweep.timeout_minutes)"
        if silent is not None and self._silent_s > 60 * silent:
            return f"no progress for {silent:g} min (sweep.silent_minutes)"
        return None

    def _signs(self) -> object:
        """Sizes and times of the files that a working worker changes: its log, its curves, its checkpoints."""
        found = []
        for path in paths.below(self._folder):
            try:
                facts = path.stat()
            except FileNotFoundError:  # renamed meanwhile
                continue
            found.append((path.name, facts.st_size, facts.st_mtime_ns))
        return found
