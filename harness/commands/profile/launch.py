"""Fresh processes, one after the other: every round launches every variant, in an order of its own."""

import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import processes
from harness.config import schema as configs
from harness.config.schema import RunConfig
from harness.hardware import facts

COUNTED = ("sizes", "flops")
"""Measures that come out the same every time, taken after what must be alone in its process."""


@dataclass(frozen=True)
class Launch:
    """One process: which variant, in which round, and what is measured there."""

    label: str
    round: int
    measures: tuple[str, ...]


@dataclass
class Measured:
    """What the launches of one variant left: measure -> round -> values, and for what is missing why."""

    values: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # measure -> what its process said at last

    def add(self, launch: Launch, result: dict[str, Any], said: str) -> None:
        """Takes over what one launch left."""
        for measure in launch.measures:
            if measure in result:
                self.values.setdefault(measure, {})[launch.round] = result[measure]
            else:
                self.missing[measure] = said


def plan(labels: list[str], rounds: int, traced: bool) -> list[Launch]:
    """All launches in order. Speed and memory have processes of their own, for each would see what the other left; what does
    not depend on what else the machine does is measured in the first round alone.
    """
    order, draw = [], random.Random(0)
    for number in range(rounds):
        launches = [Launch(label, number, ("speed",)) for label in labels]
        launches += [Launch(label, number, ("memory", *COUNTED)) for label in labels if number == 0]
        draw.shuffle(launches)
        order += launches
    return order + [Launch(label, 0, ("trace",)) for label in labels if traced]


def run(cells: dict[str, RunConfig], rounds: int, traces: dict[str, Path]) -> dict[str, Measured]:
    """Label -> what was measured; `traces` says where the trace of each variant goes, and is empty for none."""
    measured = {label: Measured() for label in cells}
    for launch in _shown(plan(list(cells), rounds, bool(traces))):
        with tempfile.TemporaryDirectory(prefix="harness-profile-") as folder:
            result, said = _work(launch, cells[launch.label], Path(folder))
            measured[launch.label].add(launch, result, said)
            written = Path(folder, "trace.json")
            if written.exists():
                traces[launch.label].write_bytes(written.read_bytes())
    return measured


def _shown(launches: list[Launch]) -> Iterator[Launch]:
    """With a bar on a terminal, and nothing elsewhere."""
    from tqdm import tqdm

    with tqdm(launches, disable=None, leave=False) as bar:
        for launch in bar:
            bar.set_description(f"{launch.label}: {', '.join(launch.measures)}")
            yield launch


def _work(launch: Launch, config: RunConfig, folder: Path) -> tuple[dict[str, Any], str]:
    """What a worker of this launch leaves, and its last word if it fails."""
    configs.save(config, folder / "config.yaml")
    arguments, log = [str(folder), *launch.measures], folder / "log.txt"
    processes.run("harness.commands.profile.worker", arguments, facts.threads(config.hardware), log)
    result = folder / "result.json"
    return json.loads(result.read_text()) if result.exists() else {}, processes.last_line(log)
