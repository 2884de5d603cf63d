"""A study as its report reads it: what is compared, the history of every metric, and where the files of runs are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.comparison import cached_method
from harness.comparison.compare import Comparison
from harness.comparison.runs import History, Run, by_step
from harness.comparison.section import RESULTS
from harness.reports.reading.store import Output

Curve = dict[str, dict[int, float]]
"""Run id -> {step: value}, of one metric."""
CURVE_POINTS = 200
"""Most points of a curve that a report shows."""


def _curve(metric: str, history: History) -> Curve:
    place = 0 if metric in RESULTS else -1  # a run that restores an earlier checkpoint ends with its score as its result
    return by_step(history, place)


@dataclass(frozen=True)
class Options:
    """What the command line says of single chapters."""

    targets: tuple[str, ...] = ()  # qualities whose cost is shown, written METRIC=NUMBER
    with_wnli: bool = False  # WNLI counts in the average over GLUE
    all_pairs: bool = False  # the chapter of ranks
    random_tasks: bool = False  # in it, tasks are what repeats
    columns: tuple[str, ...] = ()  # of the table on the terminal
    audit: bytes | None = None  # record that `python -m harness audit` wrote


@dataclass(frozen=True)
class Study:
    """The comparison, the launches of its sessions within it, and the history of every metric."""

    comparison: Comparison
    read: Callable[[str, list[Run]], History] = lambda metric, runs: {}  # of a metric and runs, from the store
    options: Options = Options()
    output: Output = None
    forkable: bool = False  # whether a forked process may `read`, too
    trials: Sequence[Run] = ()  # that selected settings of its runs on the rows that these report

    @cached_method
    def history(self, metric: str) -> History:
        """All values of a metric by run and step; read once."""
        return self.read(metric, self.comparison.runs)

    @cached_method
    def curve(self, metric: str) -> Curve:
        """The last value of every step; for a result the first one, which was evaluated there."""
        return _curve(metric, self.history(metric))

    def curves_of(self, runs: list[Run], metric: str) -> Curve:
        """The curve of these runs alone, read at every call: a long curve of thousands of runs takes seconds."""
        return _curve(metric, self.read(metric, runs))
