"""How a process ended and why: its exit code, the signal that ended it, and what ran out of memory."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import says_no_memory

INVALID = 2
"""Exit code of a worker for a wrong input, as of a command."""

CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""Signals that a process causes itself: a crash."""

SHOWN = 10
"""Lines of a log that are kept with its end."""

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Ending:
    """The end of a process. `oom_kills`: processes that the kernel ended meanwhile because memory was used up."""

    code: int  # below zero for a signal
    lines: tuple[str, ...]  # the last ones that it printed
    oom_kills: int = 0

    @property
    def signal(self) -> str | None:
        """`SIGKILL`; None for a process that exited by itself."""
        if self.code >= 0:
            return None
        return signal.Signals(-self.code).name if -self.code in {*signal.Signals} else f"signal {-self.code}"

    @property
    def crashed(self) -> bool:
        """Whether it ended by a signal that it caused itself."""
        return -self.code in CRASHES

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel ended it for want of memory, or it was refused some and said so."""
        killed = self.code == -signal.SIGKILL and self.oom_kills > 0
        refused = self.code > 0 or self.code == -signal.SIGABRT  # C++ aborts
        return killed or (refused and any(map(says_no_memory, self.lines)))

    @property
    def last_line(self) -> str:
        """The last line that it printed."""
        return self.lines[-1] if self.lines else "it printed nothing"

    @property
    def reason(self) -> str:
        """One line: the signal, or the last line that it printed."""
        last = self.last_line
        if self.signal is None and not self.out_of_memory:
            return last if self.code == 1 and self.lines else f"exit code {self.code} without a result; {last}"
        if self.code == -signal.SIGKILL and self.out_of_memory:
            count = f"oom_kill rose by {self.oom_kills}"
            return f"out of memory: the kernel ended it with SIGKILL (exit code {self.code}, {count})"
        if self.out_of_memory:
            return f"out of memory: {next(filter(says_no_memory, reversed(self.lines)))}"
        how = "crashed with" if self.crashed else "ended by"
        return f"{how} {self.signal} (exit code {self.code}); its log ends with: {last}"


class Watch:
    """Counts what the kernel ends for want of memory from now on."""

    def __init__(self) -> None:
        self._before = _oom_kills()

    def ending(self, code: int, log: Path) -> Ending:
        """The end of a process that ran meanwhile."""
        rises = [after - before for before, after in zip(self._before, _oom_kills(), strict=True)]
        return Ending(code, tuple(last_lines(log)), max(rises, default=0))


def last_lines(log: Path) -> list[str]:
    """The last lines that a worker printed, empty ones left out."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if line.strip()][-SHOWN:]


def _oom_kills() -> tuple[int, int]:
    """Kills on the whole machine, and in the group of processes whose memory is limited together; 0 where none are counted."""
    return _count(PROC / "vmstat"), max((_count(path) for path in _of_group()), default=0)


def _of_group() -> Iterator[Path]:
    """The files with the counts of this process's group, in both versions of control groups."""
    groups = PROC / "self" / "cgroup"
    for line in groups.read_text().splitlines() if groups.exists() else []:
        _, controllers, path = line.split(":", 2)
        for place in {path, "/"}:  # within a container its own group may be the root
            if not controllers:
                yield CGROUPS / place.lstrip("/") / "memory.events"
            elif "memory" in controllers.split(","):
                yield CGROUPS / "memory" / place.lstrip("/") / "memory.oom_control"


def _count(path: Path) -> int:
    """The value of `oom_kill` in a file of names and numbers."""
    try:
        lines = path.read_text().splitlines()
    except OSError:  # of another version, or not to be read in this container
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
