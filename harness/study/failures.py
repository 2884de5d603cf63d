"""The runs of a command that did not finish: when they end the sweep, and how they are summed up."""

from collections import Counter
from typing import TYPE_CHECKING

from harness.config.execution import SweepConfig
from harness.study.end import End
from harness.tracking.states import State

if TYPE_CHECKING:
    from harness.study.plan import PlannedRun


class Failures:
    """What did not finish so far."""

    def __init__(self, config: SweepConfig) -> None:
        self._config = config
        self._in_a_row, self._kind = 0, ""
        self.ends: dict[int, End | None] = {}  # by place of the run; None: it needs a pretraining that did not finish

    def add(self, item: "PlannedRun", end: End, ran: bool) -> str | None:
        """Takes the end of one run. Why the sweep must stop now, with the key that says so; None where it goes on."""
        if end.state is not State.finished:
            self.ends[item.place] = end
        if not ran:
            return None
        if end.state in (State.finished, State.diverged):  # a result: the machine works
            self._in_a_row = 0
        else:
            self._in_a_row = self._in_a_row + 1 if end.kind == self._kind else 1
            self._kind = end.kind
        if end.state is not State.finished and self._config.on_failure == "stop":
            return f"a run did not finish ({end.state.text}; sweep.on_failure=stop)"
        if self._config.same_failures and self._in_a_row >= self._config.same_failures:
            count = self._config.same_failures
            return f"{count} runs in a row ended with the same failure, {self._kind!r} (sweep.same_failures={count})"
        return None

    def skip(self, item: "PlannedRun") -> None:
        """A run whose pretraining did not finish is not started."""
        self.ends[item.place] = None

    def has(self, item: "PlannedRun | None") -> bool:
        """Whether this run is among them."""
        return item is not None and item.place in self.ends

    def summary(self, planned: int, not_started: int) -> str:
        """`3 of 200 runs did not finish: 2 out of memory, 1 failed`."""
        counts = Counter(end.state.text if end else "without its pretraining" for end in self.ends.values())
        if not_started:
            counts["not started"] = not_started
        parts = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        return f"{sum(counts.values())} of {planned} run{'s'[: planned != 1]} did not finish: {parts}"
