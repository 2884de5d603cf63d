"""The runs that a command line names: every combination of the swept values, as Hydra's own sweeper makes them.

Runs that differ in seeds alone are composed once, because a composition takes a quarter of a second.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Override
from hydra.errors import HydraException

from harness.config.rules import refuse_numbers
from harness.config.schema import SEEDS, RunConfig, key_of
from harness.errors import InputError
from harness.models.ranges import LARGEST_SEED

OF_NO_ARM = ("task", *SEEDS)
"""Keys that several runs of one arm differ in."""

MOST_RUNS = 100_000
"""Most runs of one command."""


@dataclass(frozen=True)
class Replicate:
    """One job of a sweep, split into its seeds by key and everything else."""

    seeds: dict[str, int]
    others: tuple[str, ...]

    @classmethod
    def of(cls, job: Sequence[str]) -> "Replicate":
        """A seed that is not a whole number stays among the others, and is refused there, as all are next to a `${...}`."""
        matches = {override: re.fullmatch(r"(.+)=(\d+)", override) for override in job}
        seeds = {override: match for override, match in matches.items() if match and match[1] in SEEDS}
        if any("$" in override for override in job):  # `${...}` may name a seed
            seeds = {}
        others = tuple(override for override in job if override not in seeds)
        return cls({match[1]: int(match[2]) for match in seeds.values()}, others)

    def with_seeds(self, seeds: list[int]) -> list["Replicate"]:
        """A replicate per seed; this one if it has a seed, or if there are none."""
        return [replace(self, seeds={**self.seeds, "seed": seed}) for seed in seeds if "seed" not in self.seeds] or [self]

    def of_run(self, run: RunConfig, follows: bool) -> RunConfig:
        """The run with these seeds; that of its pretraining `follows` that of the run unless it has one of its own.

        InputError for a seed out of its range.
        """
        seed = self.seeds.get("seed", run.seed)
        of_pretraining = self.seeds.get("pretrain.seed", seed if follows else run.pretrain.seed)
        replicate = replace(run, seed=seed)
        if seed > LARGEST_SEED:
            refuse_numbers(replicate)  # all other numbers were checked when the run was composed
        try:
            return replace(replicate, pretrain=replace(run.pretrain, seed=of_pretraining))
        except ValueError as error:
            raise InputError(str(error)) from error


def jobs(overrides: Iterable[Override], names_of: Callable[[str], list[str]]) -> list[tuple[str, ...]]:
    """The overrides of every job, the last sweep fastest; if a key is set twice, the last value counts.

    `names_of` lists the choices of a group, for `glob(...)`. InputError for a sweep without runs, or with too many.
    """
    values: dict[str, list[str]] = {}
    swept_words: dict[str, str] = {}
    for override in overrides:
        key, swept = override.get_key_element(), override.value()
        swept_words.pop(key, None)
        if isinstance(swept, IntervalSweep):
            raise InputError(f"{override.input_line}: a sweep takes choice(...) or range(...), not an interval")
        if not override.is_sweep_override():
            values[key] = [override.get_value_element_as_str()]
            continue
        swept_words[key] = str(override.input_line)
        names = swept.filter(names_of(override.key_or_group)) if isinstance(swept, Glob) else override.sweep_string_iterator()
        values[key] = list(itertools.islice(names, MOST_RUNS + 1))  # a range may have no end
    words = " ".join(swept_words.values())
    if (number := math.prod(map(len, values.values()))) > MOST_RUNS:
        raise InputError(f"{words} makes more than {MOST_RUNS:,} runs, the limit of one command: expected fewer values")
    if number == 0:
        raise InputError(f"the sweep has no runs: a range or a list of values on the command line is empty: {words}")
    return list(itertools.product(*([f"{key}={value}" for value in several] for key, several in values.items())))


def controls(job_list: list[tuple[str, ...]], has_weights: bool) -> list[tuple[str, ...]]:
    """The jobs of the first arm, on all tasks and with all seeds, with random weights in place of pretrained ones.

    `has_weights`: it starts from weights, whose tokenizer the control has, too; else that of the text of the pretraining.
    """
    split: list[tuple[dict[str, str], dict[str, str]]] = [({}, {}) for _ in job_list]
    for (own, others), job in zip(split, job_list, strict=True):
        for override in job:
            key = key_of(override)
            (own if key in OF_NO_ARM else others)[key] = override
    replaced = {"pretrain": "pretrain=none", "model.random_weights": "model.random_weights=true"}
    replaced |= {} if has_weights else {"tokenizer.trained_on": "tokenizer.trained_on=corpus"}
    first = split[0][1]
    kept = [
        override for key, override in first.items() if key not in replaced and (has_weights or not key.startswith("pretrain."))
    ]
    found = [(*kept, *own.values(), *replaced.values()) for own, others in split if others == first]
    return list(dict.fromkeys(found))


def values_of(text: str) -> tuple[str, tuple[Any, ...], tuple[float, ...], set[str]] | None:
    """Key, choices, ends and tags of `KEY=choice(A,B)`, `KEY=interval(LOW,HIGH)` and `KEY=tag(NAME,interval(LOW,HIGH))`.

    Choices or ends are empty. None for anything else.
    """
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException:
        return None
    key, swept = override.key_or_group, override.value()
    if isinstance(swept, ChoiceSweep):
        return key, tuple(swept.list), (), set()
    if isinstance(swept, IntervalSweep):
        return key, (), (float(swept.start or 0), float(swept.end or 0)), swept.tags
    return None
