"""What every chapter reads: the comparison, the histories of its metrics, and the options of single chapters."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reports.comparison.compare import Comparison
from reports.comparison.remembered import remembered
from reports.comparison.section import RESULTS
from reports.reading.store import History, Run, first, latest

Curve = dict[str, dict[int, float]]
"""Run id -> {step: value}, of one metric."""


def _curve(metric: str, history: History) -> Curve:
    return first(history) if metric in RESULTS else latest(history)


@dataclass(frozen=True)
class Options:
    """What the command line says of single chapters."""

    targets: tuple[str, ...] = ()  # qualities whose cost is shown, written METRIC=NUMBER
    with_wnli: bool = False  # WNLI counts in the average over GLUE
    audit: Path | None = None  # record that `python -m harness audit` wrote


def _no_history(metric: str, runs: list[Run]) -> History:
    return {}


@dataclass(frozen=True)
class Study:
    """The comparison, the launches of its sessions within it, and the history of every metric."""

    comparison: Comparison
    read: Callable[[str, list[Run]], History] = _no_history  # of a metric and runs, from the store
    options: Options = Options()
    output: Path | None = None  # folder with the files of its runs, where that is known
    forkable: bool = False  # whether a forked process may `read`, too

    @remembered
    def history(self, metric: str) -> History:
        """All values of a metric by run and step; read once."""
        return self.read(metric, self.comparison.runs)

    @remembered
    def curve(self, metric: str) -> Curve:
        """The last value of every step; of a result the first one, which was evaluated there."""
        return _curve(metric, self.history(metric))

    def curves_of(self, runs: list[Run], metric: str) -> Curve:
        """The same of these runs alone, read whenever it is called: a long curve of thousands of runs takes seconds."""
        return _curve(metric, self.read(metric, runs))
