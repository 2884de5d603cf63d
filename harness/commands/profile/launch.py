"""One process after the other: every round launches every variant, in an order of its own."""

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.config.schema import RunConfig
from harness.measure.launch import TIMING, launch
from harness.measure.records import TRACE, Launch, Measured, MemoryPeaks, ModelFlops, Request
from harness.study.timing import results
from harness.terminal import live_line

AGAIN = "A/A replicate"
"""Name of the second timing of the first variant, which shows what two timings of the same differ by."""

LEAST, MOST, SECONDS = 5, 20, 60.0
"""Rounds of several variants where none are named: as many as begin within these seconds, and at least and at most so many."""

COUNTED = ("sizes", "flops")
"""Instruments whose results are the same every time; they run after what must be alone in its process."""


@dataclass(frozen=True)
class Step:
    """One process: which variant, in which round, and what is measured there."""

    label: str
    round: int
    instruments: tuple[str, ...]


@dataclass
class Column:
    """What the launches of one variant measured: instrument -> round -> record, and the reason for what is missing."""

    records: dict[str, dict[int, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # instrument -> why its process failed

    def add(self, step: Step, measured: Measured, reason: str) -> None:
        """Takes over what one launch measured."""
        for instrument in step.instruments:
            record = getattr(measured, instrument)
            if record is not None:
                self.records.setdefault(instrument, {})[step.round] = record[0] if instrument in TIMING else record
            else:
                self.missing[instrument] = reason

    def values(self, instrument: str, name: str) -> dict[int, float | None]:
        """Round -> value of this metric."""
        return {number: metrics_of(record).get(name) for number, record in self.records.get(instrument, {}).items()}

    def to_json(self) -> dict[str, Any]:
        """Metrics and records of every round, and why others are missing."""
        rounds = {name: by_round.items() for name, by_round in self.records.items()}
        return {
            "metrics": {name: {number: metrics_of(one) for number, one in items} for name, items in rounds.items()},
            "records": {name: {number: _plain(one) for number, one in items} for name, items in rounds.items()},
            "missing": self.missing,
        }


def metrics_of(record: Any) -> dict[str, float | None]:
    """Metric name -> value of one instrument's record; sizes have their names already."""
    if isinstance(record, Launch):
        return results.timing_values([record])
    if isinstance(record, MemoryPeaks):
        return {
            "inference/peak_memory_bytes": record.inference.kernel,
            "train_step/peak_memory_bytes": record.training_step.kernel,
        }
    if isinstance(record, ModelFlops):
        return {"model/flops_forward": record.forward, "model/flops_train_step": record.train_step}
    return record if isinstance(record, dict) else {}


def _plain(record: Any) -> dict[str, Any]:
    return record if isinstance(record, dict) else asdict(record)


def plan(labels: list[str], rounds: int, traced: bool, again: bool = False) -> list[Step]:
    """All launches in order. Timing and memory have processes of their own, for each would measure what the other left.

    What does not depend on the load of the machine is measured in the first round alone. `again`: the A/A replicate too.
    """
    order, stream = [], random.Random(0)
    for number in range(rounds):
        steps = [Step(label, number, TIMING) for label in [*labels, *([AGAIN] if again else [])]]
        steps += [Step(label, number, ("memory", *COUNTED)) for label in labels if number == 0]
        stream.shuffle(steps)
        order += steps
    return order + [Step(label, 0, ("trace",)) for label in labels if traced]


def run(configs: dict[str, RunConfig], rounds: int | None, traces: dict[str, Path]) -> dict[str, Column]:
    """Label -> what was measured, of several variants the A/A replicate too, which is their last.

    `rounds` None: as many as fit into a minute, of a single variant one. `traces`: files of the traces of all, empty for none.
    """
    several = len(configs) > 1
    known = configs | ({AGAIN: next(iter(configs.values()))} if several else {})
    columns = {label: Column() for label in known}
    began, last, enough = time.monotonic(), 0, False
    for step in _shown(plan(list(configs), rounds or (MOST if several else 1), bool(traces), several)):
        if rounds is None and step.round > last:
            last = step.round
            enough = enough or (last >= LEAST and time.monotonic() - began > SECONDS)
        if enough and step.instruments == TIMING:
            continue
        with tempfile.TemporaryDirectory(prefix="harness-profile-") as folder:
            request = Request(step.instruments, step.round)
            outcome = launch(_plain_timing(known[step.label]), request, Path(folder))
            columns[step.label].add(step, outcome.measured, outcome.ending.reason)
            written = Path(folder, TRACE)
            if written.exists():
                traces[step.label].write_bytes(written.read_bytes())
    return columns


def _plain_timing(config: RunConfig) -> RunConfig:
    """Without further lengths and batch sizes, which the table does not show."""
    return replace(config, measure=replace(config.measure, lengths=[], batch_sizes=[]))


def _shown(steps: list[Step]) -> Iterator[Step]:
    """Says on a terminal which one is running."""
    with live_line("measuring") as line:
        for step in steps:
            line.show(f"round {step.round + 1}, {step.label}: {', '.join(step.instruments)}")
            yield step
