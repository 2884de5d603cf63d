"""The arm and the conditions of a run: its facts, divided into those of its arm and all others.

A fact is a setting that affects results: a dotted key with its value as text. Seeds are not facts: they make the replicates of
an arm. A key that one command sweeps belongs to the arm, and so do the facts that change
with it. Runs are compared where their conditions agree, which are the facts that do not belong to the arm.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from harness import versions
from harness.comparison.paired import grouped
from harness.config.schema import (
    ADDED,
    DERIVED_KEYS,
    HASH_DIGITS,
    NAMES,
    NEUTRAL_KEYS,
    OF_ARM,
    PATH_KEYS,
    SEEDS,
    members,
    setting_texts,
    short_name,
    within,
)

__all__ = [
    "ADDED",
    "DERIVED_KEYS",
    "HASH_DIGITS",
    "NAMES",
    "NEUTRAL_KEYS",
    "OF_ARM",
    "PATH_KEYS",
    "SEEDS",
    "members",
    "setting_texts",
    "short_name",
    "within",
]

Facts = dict[str, str]
Known = frozenset[tuple[str, str]]

NO_FILE = ("None", hashlib.sha256(b"").hexdigest()[:16])
"""Values of facts.tokenizer_file of a tokenizer that is trained, not read."""

_ADDED_TEXTS = {key: str(value) for key, value in ADDED.items()}


def stated(params: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a run with those that it may lack."""
    return _ADDED_TEXTS | dict(params)


def hashed(params: Mapping[str, str]) -> dict[str, str]:
    """The parameters without those that a run may lack, where they have the value of such a run."""
    return {key: value for key, value in params.items() if _ADDED_TEXTS.get(key) != value}


def facts(params: Mapping[str, str]) -> Facts:
    """The settings among the parameters of a run that affect its results, without seeds."""
    out = members(tuple(params), (*NAMES, *PATH_KEYS, *NEUTRAL_KEYS, *DERIVED_KEYS, *SEEDS))
    return versions.FIRST | stated({key: value for key, value in params.items() if key not in out})


def of_arm(all_facts: Facts, lifted: Iterable[str]) -> Facts:
    """The facts of the arm of a run."""
    arm = members(tuple(all_facts), (*OF_ARM, *lifted))
    return {key: value for key, value in all_facts.items() if key in arm}


def conditions(all_facts: Facts, lifted: Iterable[str]) -> Facts:
    """The facts that must agree for a comparison."""
    arm = of_arm(all_facts, lifted)
    return {key: value for key, value in all_facts.items() if key not in arm}


def objective(params: Mapping[str, str]) -> str | None:
    """`mlm`, of phases `clm-mlm`, by the parameters of a run; None where they do not have it."""
    return "-".join(re.findall(r"\w+", params.get("pretrain.phases", ""))) or params.get("pretrain.objective")


def short_hash(some_facts: Facts) -> str:
    """Hexadecimal hash, equal for equal facts."""
    return _short_hash(known(hashed(some_facts)))


@functools.lru_cache(maxsize=16384)
def _short_hash(some_facts: Known) -> str:
    """Runs of one arm or one section share their facts, so that few are hashed."""
    return hashlib.sha256(json.dumps(dict(some_facts), sort_keys=True).encode()).hexdigest()[:HASH_DIGITS]


def known(some_facts: Facts) -> Known:
    """The facts as a key of a dictionary, whatever their order."""
    return frozenset(some_facts.items())


def varying(several: Iterable[Facts]) -> list[str]:
    """Sorted keys whose values differ; a key that is missing in some of these differs too."""
    everywhere = list({known(some_facts): some_facts for some_facts in several}.values())
    keys = sorted({key for some_facts in everywhere for key in some_facts})
    return [key for key in keys if len({some_facts.get(key) for some_facts in everywhere}) > 1]


def distinguish(labels: Mapping[str, str], arms: Mapping[str, Facts]) -> dict[str, str]:
    """Run id -> label, with as few ` key=value` added as it takes that no two different arms share one.

    `labels` and `arms` are by run id; the keys that a reader knows best, such as the scale, are taken first. Where even that
    gives two arms one label, such as a value that reads like another setting, a hash of the arm's facts is added.
    """
    apart = dict(labels)
    for runs in grouped((label, run) for run, label in labels.items()).values():
        keys = _separating([arms[run] for run in runs])
        for run in runs:
            apart[run] = " ".join([labels[run], *setting_texts(arms[run], keys)])
    hashes = {run: short_hash(arms[run]) for run in apart}
    for runs in grouped((label, run) for run, label in apart.items()).values():
        if len({hashes[run] for run in runs}) > 1:
            apart |= {run: f"{apart[run]} #{hashes[run]}" for run in runs}
    return apart


def _separating(several: list[Facts]) -> list[str]:
    """The fewest varying keys, best known first, by which all of these differ that differ at all."""
    chosen: list[str] = []
    candidates = sorted(varying(several), key=lambda key: (not key.endswith("_name"), key.startswith("facts."), key))
    different = {known(some_facts) for some_facts in several}

    def groups(keys: list[str]) -> int:
        return len({tuple(some_facts.get(key) for key in keys) for some_facts in several})

    for key in candidates:
        if groups(chosen) == len(different):
            break
        if groups([*chosen, key]) > groups(chosen):
            chosen.append(key)
    return chosen
