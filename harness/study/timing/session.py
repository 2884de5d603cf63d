"""A session: all variants of a command timed side by side, and one of them twice.

In each round every variant is launched once, in an order that is drawn anew, so that a slow minute of the machine hits all of
them alike; the report pairs launches by round. The twin is the baseline a second time under another name: what the two of
them differ by is noise (an A/A pair). A launch beside which others kept the CPUs busy is repeated.
"""

import hashlib
import json
import random
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness import arms, paths, processes
from harness.config.schema import RunConfig, flatten, save, to_dict
from harness.study import identity
from harness.study.plan import PlannedRun
from harness.tracking import run_log

BASELINE = "base"
"""How the variant is named that is timed twice, as base and base+mlm; another one in a command that has none."""


FUTILE = 3
"""Repeated launches in a row that were no quieter than allowed, after which a session repeats none: others are here to stay."""


@dataclass
class Timed:
    """One network on one task, with the launches that it had; `folder` holds what they left."""

    config: RunConfig
    data: str
    folder: Path
    number: int = 0  # of a twin, from 1
    results: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None

    @property
    def title(self) -> str:
        """As a reader names it."""
        return f"{self.config.label} {self.config.task.name}{' (A/A replicate)' if self.number else ''}"


class Session:
    """The launches of one command: what they said of each cell, and of the twins."""

    def __init__(self, planned: list[PlannedRun]) -> None:
        """Nothing is timed yet; cells that are finished or not measured take no part."""
        self.name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
        self._futile = 0
        self._timed: dict[str, Timed] = {}
        self.replicates: list[tuple[PlannedRun, Timed]] = []
        wanted = [item for item in planned if _is_wanted(item)]
        for item in wanted:
            self._timed.setdefault(_network(item), self._new(item, _network(item)))
        for item in _baselines(planned, wanted):
            for number in range(1, 2 if _network(item) in self._timed else 3):  # one that is finished is no half of a pair
                self.replicates.append((item, self._new(item, f"{_network(item)}-again-{number}", number)))

    def _new(self, item: PlannedRun, name: str, number: int = 0) -> Timed:
        folder = paths.session_folder(item.config.output, self.name) / name
        return Timed(item.config, item.inputs.data, folder, number)

    def run(self) -> None:
        """Launches everything, round by round; a variant whose launch fails is left out from there on."""
        timed = [*self._timed.values(), *(twin for _, twin in self.replicates)]
        if not timed:
            return
        rounds = max(one.config.measure.rounds for one in timed)
        replicates = len(self.replicates)
        print(
            f"timing {len(self._timed)} models and {replicates} A/A replicate{'s'[: replicates != 1]}, {rounds} rounds "
            f"(measure=none skips this; session {self.name})",
            flush=True,
        )
        began = time.monotonic()
        for number in range(rounds):
            taking_part = [one for one in timed if one.failed is None and number < one.config.measure.rounds]
            random.Random(f"{self.name} {number}").shuffle(taking_part)
            for one in taking_part:
                self._launch(one, number)
            left = (time.monotonic() - began) / (number + 1) * (rounds - number - 1)
            print(f"timing: round {number + 1} of {rounds} done, about {left:.0f} s left", flush=True)
        for one in timed:
            if one.failed is not None:
                print(f"timing {one.title}: failed: {one.failed}", flush=True)

    def _launch(self, one: Timed, number: int) -> None:
        """One launch, and again while others kept more than measure.foreign_cpus busy beside it; the quietest counts."""
        allowed, seen = one.config.measure.foreign_cpus, []
        tries = 1 + (one.config.measure.retries if self._futile < FUTILE else 0)
        _lay_out(one)
        while not seen or (_foreign(seen[-1]) > allowed and len(seen) < tries):
            with FileLock(paths.timing_lock(one.config.output)):
                result = _one_launch(one, number)
            if result is None:
                log = one.folder / "log.txt"
                one.failed = f"{processes.last_line(log)} (see {log})"
                return
            seen.append(result)
        if len(seen) > 1:
            self._futile = self._futile + 1 if _foreign(seen[-1]) > allowed else 0
        one.results.append(min(seen, key=_foreign) | {"round": number, "repeated": len(seen) - 1})

    def of(self, item: PlannedRun) -> Timed | None:
        """What was seen of a cell's network; None where it took no part or a launch failed."""
        timed = self._timed.get(_network(item)) if item.inputs.data is not None else None
        return timed if timed is not None and timed.failed is None and timed.results else None


def _is_wanted(item: PlannedRun) -> bool:
    measured = item.inputs.data is not None and item.config.measure.enabled
    return measured and (item.config.rerun or run_log.result(item.folder) is None)


def _baselines(planned: list[PlannedRun], wanted: list[PlannedRun]) -> list[PlannedRun]:
    """For each task and protocol with cells to time, the one that is timed twice, whether it is finished or not."""
    groups: dict[str, list[PlannedRun]] = {}
    for item in planned:
        if item.inputs.data is not None:
            conditions = arms.conditions(identity.facts(item.config, item.inputs), item.lifted)
            groups.setdefault(arms.short_hash(conditions), []).append(item)
    chosen = []
    for group in groups.values():
        if any(item in wanted for item in group):
            plain = [item for item in group if item.config.label.startswith(BASELINE)]
            chosen.append(min(plain or group, key=lambda item: len(item.config.label)))
    return chosen


def _network(item: PlannedRun) -> str:
    """Name of what is timed: the same for cells that differ in seed, training or weights alone."""
    flat = flatten(to_dict(item.config))
    told = {key: value for key, value in flat.items() if key.startswith(("model.", "measure.", "hardware.", "task."))}
    told |= {"data": item.inputs.data, "model.objective": None, "model.init_from": None}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _lay_out(one: Timed) -> None:
    one.folder.mkdir(parents=True, exist_ok=True)
    save(one.config, one.folder / "config.yaml")
    run_log.write_json(one.folder / "launch.json", {"data": one.data})


def _foreign(result: dict[str, Any]) -> float:
    """CPUs that others kept busy; where that is unknown nothing is held against a launch."""
    return result["foreign_cpus"] or 0.0


def _one_launch(one: Timed, number: int) -> dict[str, Any] | None:
    arguments, log = [str(one.folder), str(number)], one.folder / "log.txt"
    code = processes.run("harness.study.timing.launch", arguments, one.config.measure.threads, log)
    return json.loads((one.folder / f"launch-{number}.json").read_text()) if code == 0 else None
