"""Runs of a study as plain data, wherever they were read from."""

import functools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness import tags
from harness.comparison import arms
from harness.comparison.paired import NO_SEED, Design, Replicate

IDENTITY_TAGS = (tags.ARM, tags.MODEL, tags.SCALE, tags.TASK, tags.SEED, tags.CONDITIONS, tags.LIFTED)
MISSING_TAGS = "unknown (tags missing)"
UNSET = (None, "", "None", "null")
"""Values of a parameter that is not set."""

History = dict[str, dict[int, list[float]]]
"""Run id -> {step: values at that step, oldest first}, of one metric."""


@dataclass(frozen=True)
class Run:
    """One run of a study as it was logged; `started` in ms since 1970, metrics at their highest step."""

    run_id: str
    name: str
    started: int
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    elsewhere: str | None = None  # study that it belongs to, where that is another than the one reported on
    launches: dict[str, dict[int, float]] = field(default_factory=dict)  # metric -> round in its session -> value

    def __post_init__(self) -> None:
        """A setting that is younger than the run has the value that it had then."""
        object.__setattr__(self, "params", arms.stated(self.params))

    @property
    def task(self) -> str:
        return self.tags[tags.TASK]

    @property
    def is_pretraining(self) -> bool:
        return self.tags.get(tags.TASK) == tags.PRETRAINING_TASK

    @property
    def session(self) -> str:
        """The series of launches in which it was timed; empty without any."""
        return self.tags.get(tags.SESSION, "")

    @property
    def hardware(self) -> str:
        """The machine and its threads, spelled as runs since 0.6 have it."""
        return self.tags.get(tags.HARDWARE, "not recorded").replace(", 1 threads,", ", 1 thread,")

    @property
    def looks(self) -> int:
        """How often its session could have ended by what it had measured."""
        return int(self.tags.get(tags.LOOKS, 1))

    @property
    def seed_looks(self) -> int:
        """How often its command could have ended by the results of its seeds so far."""
        return int(self.tags.get(tags.SEED_LOOKS, 1))

    @property
    def is_aa_replicate(self) -> bool:
        """Whether it is only a second timing of an arm in its session."""
        return self.tags.get(tags.REPLICATE) == "true"

    @property
    def is_measured(self) -> bool:
        """Whether more than its training was measured; False with `measure=none`."""
        return self.params.get("measure.enabled") != "False"

    @property
    def origin(self) -> str | None:
        """Fingerprint of the pretraining that it starts from."""
        return self.tags.get(tags.PRETRAINING) or None

    @property
    def status(self) -> str:
        """running, finished, failed or diverged; `unknown (tags missing)` for a run without its identity."""
        missing = [tag for tag in IDENTITY_TAGS if tag not in self.tags and not (self.is_aa_replicate and tag == tags.SEED)]
        if missing or self.lifted is None:
            return MISSING_TAGS
        return self.tags.get(tags.STATUS, MISSING_TAGS)

    @property
    def replicate(self) -> Replicate:
        """Both of its seeds, which for a pretraining are the same; none where they change nothing."""
        if tags.FIXED in self.tags:
            return NO_SEED
        seed = self.tags.get(tags.SEED, "")
        return Replicate(self.tags.get(tags.PRETRAIN_SEED, seed if self.is_pretraining else ""), seed)

    @property
    def design(self) -> Design:
        """What repeats in a comparison of such runs: seeds, but items where a seed changes nothing."""
        return Design(self.tags.get(tags.DESIGN, Design.ITEMS if tags.FIXED in self.tags else Design.SEEDS))

    @property
    def lifted(self) -> list[str] | None:
        """Keys that vary between the arms of the command that ran it; None where the tag cannot be read."""
        try:
            keys = json.loads(self.tags.get(tags.LIFTED, ""))
        except json.JSONDecodeError:
            return None
        return keys if isinstance(keys, list) and all(isinstance(key, str) for key in keys) else None

    @functools.cached_property
    def facts(self) -> arms.Facts:
        """The settings that shape its results, seeds left out."""
        return arms.facts(self.params)

    def setting(self, key: str) -> str | None:
        """The value of a parameter; None where it is unset or not recorded."""
        value = self.params.get(key)
        return None if value in UNSET else value


def oldest_first(runs: Iterable[Run]) -> list[Run]:
    """The runs by start time, then by id."""
    return sorted(runs, key=lambda run: (run.started, run.run_id))


def states_text(states: Iterable[str]) -> str:
    """`1 failed, 2 running`: how many runs are in each state."""
    return ", ".join(f"{count} {state}" for state, count in sorted(Counter(states).items())) or "no runs"


def by_step(history: History, place: int = -1) -> dict[str, dict[int, float]]:
    """Run id -> {step: its last value, or the one at this place}."""
    return {run_id: {step: values[place] for step, values in steps.items()} for run_id, steps in history.items()}
