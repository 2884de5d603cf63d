"""The states that a run ends in."""

from enum import StrEnum


class State(StrEnum):
    """How a run ended. `finished` and `diverged` are results; a run in another state is tried again by the next command."""

    finished = "finished"
    diverged = "diverged"  # the loss was not a finite number
    out_of_memory = "out_of_memory"
    timeout = "timeout"  # it took too long, or said nothing for too long
    killed = "killed"  # by a signal, or with its command
    failed = "failed"
    invalid = "invalid"  # what was asked for cannot be run here

    @property
    def text(self) -> str:
        """As it is read: `out of memory`."""
        return self.value.replace("_", " ")
