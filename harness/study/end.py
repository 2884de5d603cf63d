"""The end of a run: its state, the reason, and the last lines of its log."""

from dataclasses import dataclass
from typing import Any

from harness.processes.ending import Ending
from harness.tracking.states import State

INVALID = 2
"""Exit code of a worker that was asked for what cannot be run, as that of the command."""


@dataclass(frozen=True)
class End:
    """How a run ended."""

    state: State
    reason: str = ""  # one line; empty for a run that finished
    lines: tuple[str, ...] = ()  # the last ones that its worker printed

    @property
    def kind(self) -> str:
        """Equal for failures of the same kind: the state and, of a worker that failed, its exception."""
        return f"{self.state.text}: {self.reason.partition(':')[0]}" if self.state is State.failed else self.state.text


WITH_ITS_COMMAND = End(State.killed, "its command was interrupted or ended")


def of_worker(ending: Ending, result: dict[str, Any] | None, complaint: str | None) -> End:
    """From the end of the worker's process, the result that it left, and the complaint for which it was ended, if any."""
    if result is not None:  # it was written whole, whatever happened after
        state = State(result["status"])
        return End(state) if state is State.finished else End(state, ending.last_line, ending.lines)
    if complaint is not None:
        return End(State.timeout, complaint, ending.lines)
    if ending.code == INVALID:
        return End(State.invalid, ending.last_line, ending.lines)
    return End(_state(ending), ending.reason.removeprefix("out of memory: "), ending.lines)


def _state(ending: Ending) -> State:
    if ending.out_of_memory:
        return State.out_of_memory
    if ending.code < 0 and not ending.crashed:
        return State.killed
    return State.failed
