"""A session: all variants of a command timed in interleaved launches, and the baseline twice.

In each round every variant is launched once, in a new random order, so that a slow minute of the machine affects all of them
alike; the report pairs launches by round. The A/A replicate is the baseline timed a second time: the difference between the
two is noise. A launch during which other processes kept the CPUs busy is repeated.
"""

import hashlib
import json
import random
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from harness import arms, paths
from harness.config.schema import RunConfig, flatten, to_dict
from harness.measure.launch import TIMING, launch
from harness.measure.records import Launch, Request
from harness.study import identity
from harness.study.plan import PlannedRun
from harness.tracking import run_log

BASELINE = "base"
"""The variant that is timed twice is the one with the shortest label that begins so, or with the shortest label of all."""

FUTILE_REPEATS = 3
"""Consecutive repeats above the allowed load after which a session stops repeating launches: the load persists."""


@dataclass
class Timed:
    """One variant on one task, with its launches; `folder` has a folder for each of them."""

    config: RunConfig
    data: str
    folder: Path
    number: int = 0  # of an A/A replicate, from 1; 0 for the variant itself
    launches: list[Launch] = field(default_factory=list)
    failed: str | None = None

    @property
    def title(self) -> str:
        """Its name in console lines."""
        return f"{self.config.label} {self.config.task.name}{' (A/A replicate)' if self.number else ''}"


class Session:
    """The launches of one command: its variants and the A/A replicates."""

    def __init__(self, planned: list[PlannedRun]) -> None:
        """Runs that are finished or not measured are not timed."""
        self.name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
        self._futile = 0
        self._timed: dict[str, Timed] = {}
        self.replicates: list[tuple[PlannedRun, Timed]] = []
        timed = [item for item in planned if _is_timed(item)]
        for item in timed:
            self._timed.setdefault(_variant_key(item), self._new(item, _variant_key(item)))
        for item in _baselines(planned, timed):
            for number in (1,) if _variant_key(item) in self._timed else (1, 2):  # a finished baseline needs both
                self.replicates.append((item, self._new(item, f"{_variant_key(item)}-again-{number}", number)))

    def _new(self, item: PlannedRun, name: str, number: int = 0) -> Timed:
        folder = paths.session_folder(item.config.output, self.name) / name
        return Timed(item.config, item.inputs.data, folder, number)

    def run(self) -> None:
        """Launches everything, round by round; a variant whose launch fails is left out of later rounds."""
        timed = [*self._timed.values(), *(replicate for _, replicate in self.replicates)]
        if not timed:
            return
        rounds = max(variant.config.measure.rounds for variant in timed)
        counts = [(len(self._timed), "variant"), (len(self.replicates), "A/A replicate"), (rounds, "round")]
        variants, replicates, times = (f"{number} {what}{'s' if number != 1 else ''}" for number, what in counts)
        print(f"Timing {variants} and {replicates}, {times} (measure=none skips this; session {self.name})", flush=True)
        began = time.monotonic()
        for number in range(rounds):
            active = [variant for variant in timed if variant.failed is None and number < variant.config.measure.rounds]
            random.Random(f"{self.name} {number}").shuffle(active)
            for variant in active:
                self._launch(variant, number)
            left = (time.monotonic() - began) / (number + 1) * (rounds - number - 1)
            print(f"Timing: round {number + 1} of {rounds} done, about {left:.0f} s left", flush=True)
        for variant in timed:
            if variant.failed is not None:
                print(f"Timing of {variant.title} failed: {variant.failed}", flush=True)

    def _launch(self, variant: Timed, number: int) -> None:
        """One launch, repeated while other processes keep more than measure.foreign_cpus busy; the least disturbed counts."""
        allowed, tried = variant.config.measure.foreign_cpus, []
        tries = 1 + (variant.config.measure.retries if self._futile < FUTILE_REPEATS else 0)
        request = Request(TIMING, number, variant.data, with_peak_flops=number == 0)
        while not tried or (_foreign(tried[-1]) > allowed and len(tried) < tries):
            with FileLock(paths.timing_lock(variant.config.output)):
                outcome = launch(variant.config, request, variant.folder / f"launch-{number}")
            if outcome.code != 0:
                variant.failed = f"{outcome.last_line} (see {outcome.log})"
                return
            tried.append(outcome.measured.timing)
        if len(tried) > 1:
            self._futile = self._futile + 1 if _foreign(tried[-1]) > allowed else 0
        variant.launches.append(replace(min(tried, key=_foreign), round=number, repeated=len(tried) - 1))

    def of(self, item: PlannedRun) -> Timed | None:
        """The launches of a run's variant; None if it was not timed or a launch failed."""
        timed = self._timed.get(_variant_key(item)) if item.inputs.data is not None else None
        return timed if timed is not None and timed.failed is None and timed.launches else None


def _is_timed(item: PlannedRun) -> bool:
    measured = item.inputs.data is not None and item.config.measure.enabled
    return measured and (item.config.rerun or run_log.result(item.folder) is None)


def _baselines(planned: list[PlannedRun], timed: list[PlannedRun]) -> list[PlannedRun]:
    """The baseline of each group of runs that share task and conditions and have something to time; it may be finished."""
    groups: dict[str, list[PlannedRun]] = {}
    for item in planned:
        if item.inputs.data is not None:
            conditions = arms.conditions(identity.facts(item.config, item.inputs), item.lifted)
            groups.setdefault(arms.short_hash(conditions), []).append(item)
    chosen = []
    for group in groups.values():
        if any(item in timed for item in group):
            plain = [item for item in group if item.config.label.startswith(BASELINE)]
            chosen.append(min(plain or group, key=lambda item: len(item.config.label)))
    return chosen


def _variant_key(item: PlannedRun) -> str:
    """Hash of what is timed: equal for runs that differ only in seed, training or weights."""
    flat = flatten(to_dict(item.config))
    settings = {key: value for key, value in flat.items() if key.startswith(("model.", "measure.", "hardware.", "task."))}
    settings |= {"data": item.inputs.data, "model.objective": None, "model.init_from": None}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _foreign(one: Launch) -> float:
    """CPUs that other processes kept busy; 0 where that is unknown, so that the launch is not repeated."""
    return one.foreign_cpus or 0.0
