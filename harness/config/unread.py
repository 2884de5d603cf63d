"""Keys of a part of the config that no run of a command reads: a sweep over them would be one run, without a word."""

from collections.abc import Callable
from typing import NamedTuple

from harness.config.choices import MatchOn
from harness.config.schema import RunConfig
from harness.errors import InputError
from models.objectives.config import ObjectiveName


class Part(NamedTuple):
    """When a run reads a part of the config, what to say where none does, and the choice that makes it read."""

    is_read: Callable[[RunConfig], bool]
    why: str
    choice: str


PARTS = {
    "pretrain": Part(lambda run: run.pretrain.objective is not ObjectiveName.none, "pretrains", "pretrain=mlm"),
    "match": Part(lambda run: run.match.cost is not MatchOn.none, "is resized", "match=params"),
    "search": Part(lambda run: bool(run.search.space), "searches for settings", "search=rate"),
}

READ_WITHOUT = ("pretrain.checkpoint", "pretrain.at")
"""Keys that say where finished weights are."""


def refuse_unread_parts(runs: list[RunConfig], overrides: list[str]) -> None:
    """InputError for a typed key of a part that none of the runs reads."""
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        name, dot, _ = key.partition(".")
        if not dot or name not in PARTS or key in READ_WITHOUT or any(PARTS[name].is_read(run) for run in runs):
            continue
        raise InputError(f"{key}={value} has no effect, because {_reason(name, runs)}, or leave it out")


def _reason(name: str, runs: list[RunConfig]) -> str:
    weights = runs[0].pretrain.checkpoint
    if name == "pretrain" and weights is not None:
        return f"the pretraining is that of pretrain.from={weights}: name a pretraining with that setting"
    return f"no run of this command {PARTS[name].why}: add {PARTS[name].choice}"
