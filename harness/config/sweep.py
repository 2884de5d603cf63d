"""A sweep composed once for all its replicates.

Hydra takes about half a second for each run, so that three seeds of many arms would keep a user waiting for minutes.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from omegaconf import DictConfig, OmegaConf

from harness import arms
from harness.config.resolve import refuse_numbers
from harness.config.schema import RunConfig
from harness.errors import InputError
from models.ranges import LARGEST_SEED

Overrides = Sequence[str]


class Sweep:
    """What Hydra composes in one command."""

    def __init__(self) -> None:
        self._composed: list[tuple[list[RunConfig], bool]] = []  # of each job; whether pretrain.seed is null: that of the run
        self._jobs: list[tuple[int, dict[str, int]]] = []  # of every job of the sweep: its place in `_composed`, its seeds

    def add(self, runs: list[RunConfig], node: DictConfig) -> None:
        """Takes the runs of the next job, composed from this node."""
        self._composed.append((runs, OmegaConf.select(node, "pretrain.seed") is None))

    def runs(self) -> list[RunConfig]:
        """All runs of the command, in the order of the sweep."""
        if not self._jobs:  # no sweep
            return [run for runs, _ in self._composed for run in runs]
        jobs = [(*self._composed[place], seeds) for place, seeds in self._jobs]
        return [_with_seeds(run, seeds, follows) for runs, follows, seeds in jobs for run in runs]

    def without_replicates(self, jobs: Sequence[Overrides]) -> list[Overrides]:
        """The first job of each group of replicates; remembers the others."""
        places: dict[tuple[str, ...], int] = {}
        firsts: list[Overrides] = []
        begin = len(self._composed)  # a sweep may come in batches
        for job in jobs:
            seeds, others = _split(job)
            if others not in places:
                places[others] = begin + len(firsts)
                firsts.append(job)
            self._jobs.append((places[others], seeds))
        return firsts


def _split(job: Overrides) -> tuple[dict[str, int], tuple[str, ...]]:
    """(seeds by key, all other overrides); a seed that is not a whole number stays among the others, and is refused there."""
    found = {override: re.fullmatch(r"(.+)=(\d+)", override) for override in job}
    seeds = {match[1]: int(match[2]) for match in found.values() if match and match[1] in arms.SEEDS}
    others = tuple(override for override, match in found.items() if not (match and match[1] in arms.SEEDS))
    return seeds, others


def _with_seeds(run: RunConfig, seeds: dict[str, int], follows: bool) -> RunConfig:
    """The run as a replicate; the seed of its pretraining `follows` that of the run unless it has one of its own.

    InputError for a seed out of its range.
    """
    seed = seeds.get("seed", run.seed)
    of_pretraining = seeds.get("pretrain.seed", seed if follows else run.pretrain.seed)
    replicate = replace(run, seed=seed)
    if seed > LARGEST_SEED:
        refuse_numbers(replicate)  # all other numbers were checked when the run was composed
    try:
        return replace(replicate, pretrain=replace(run.pretrain, seed=of_pretraining))
    except ValueError as error:
        raise InputError(str(error)) from error
