"""The arm and the conditions of a run: its facts, divided into those of its arm and all others.

A fact is a setting that affects results: a dotted key with its value as text. Seeds are not facts: they make the replicates of
an arm. A key that one command sweeps is *lifted*: it belongs to the arm, and so do the facts that change
with it. Runs are compared where their conditions agree, which are the facts that do not belong to the arm.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import PurePath

from harness import versions
from harness.models.objectives.config import ObjectiveConfig

Facts = dict[str, str]
Known = frozenset[tuple[str, str]]

HASH_DIGITS = 8
"""Digits of a hash in tables and labels."""

SEEDS = ("seed", "pretrain.seed")
"""Keys of the two levels of replicates: fine-tunings, and pretrainings that they start from (arXiv:2106.16163)."""

NO_FILE = ("None", hashlib.sha256(b"").hexdigest()[:16])
"""Values of facts.tokenizer_file of a tokenizer that is trained, not read."""

NAMES = (
    "study",
    "hypothesis",
    "arm",
    "match.",
    "matched.",
    "matched",
    "search.",
    "tuned.",
    "tuned",
    "settings.",
    "settings",
    "swept",
    "overrides",
    "model_keys",
    "said_keys.",
    "said_keys",
    "output",
    "rerun",
    "report",
    "sweep.",
    "tracking.",
    "environment.",
    "published.",
)
"""Keys, or groups that end in a dot, that name runs or say where results go."""

PATH_KEYS = (
    *("data.source", "data.root", "task.hub", "task.folder", "task.subset", "corpus.hub", "corpus.folder", "corpus.subset"),
    *("task.train_file", "task.validation_file", "task.test_file", "corpus.files", "corpus.validation_files"),
    *("tokenizer.vocab_file", "tokenizer.file", "model.init_from", "pretrain.checkpoint", "pretrain.teacher"),
    "finetune.teacher",
)
"""Keys that say where content comes from. The content itself is a fact, under `facts.`: rows, text, weights, tokenizer."""

NEUTRAL_KEYS = (
    *("model.objective", "model.tokenizer.", "model.recipe.", "model.finetune_rate", "model.scratch_rate"),
    *("finetune.keep", "pretrain.keep", "pretrain.checkpoint_every_s"),
)
"""Other keys, or groups that end in a dot, without effect on results: what a model states is resolved into other keys."""

DERIVED_KEYS = ("model.vocab_size", "model.pad_token_id", "finetune.submit")
"""Keys that follow from the tokenizer, or that only add files: two runs that differ in them alone may be compared."""

OF_ARM = (
    *("model.", "model_name", "scale_name", "enhancements.", "enhancements", "facts.weights", "facts.teacher", "facts.recipe"),
    *(f"pretrain.{field.name}" for field in fields(ObjectiveConfig)),
)
"""Keys, or groups that end in a dot, that belong to the arm whether they are swept or not."""

_OPTIMISER = {"optimizer": "adamw", "schedule": "linear", "momentum": None, "ema_decay": None}

ADDED = {
    "model.keep_layers": None,
    "model.vector_pooling": "mean",
    "model.random_weights": False,
    "model.finetune_rate": None,
    "finetune.soft_weight": 1.0,
    "finetune.temperature": 2.0,
    "finetune.hidden_weight": 0.0,
    "finetune.seconds": None,
    "finetune.in_batch_negatives": False,
    "finetune.cosine_temperature": 0.05,
    "finetune.trains": "all",
    "finetune.lora_rank": 8,
    "finetune.freeze_layers": None,
    "finetune.layer_decay": 1.0,
    "finetune.decay_fraction": None,
    **{f"{phase}.{key}": value for phase in ("finetune", "pretrain") for key, value in _OPTIMISER.items()},
    "finetune.evaluations_per_epoch": 1,
    "finetune.early_stopping": None,
    "finetune.class_weights": None,
    "task.pairs": None,
    "task.label_separator": None,
    "corpus.shuffled_words": False,
    "pretrain.hidden_weight": 0.0,
    "pretrain.matched_layers": "all",
    "pretrain.relation_weight": 0.0,
    "model.base_head_size": None,
    "pretrain.mup_base_width": None,
    "pretrain.phases": [],
    "pretrain.shares": [],
    "pretrain.decay_fraction": 1.0,
    "pretrain.noise_density": 0.15,
    "pretrain.mean_noise_span_length": 3.0,
    "tokenizer.sentinels": 0,
    "measure.backend": "torch",
    "measure.precision": "fp32",
    "measure.load": [],
    "measure.load_share": 0.5,
    "measure.load_texts": 200,
}
"""Keys that finished runs may lack -> the value that such a run has: no hash holds it, so that the run is the same."""
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
    arm = members(tuple(all_facts), (*OF_ARM, *lifted))
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
    """Keys whose value is not the same in all of these, in order; a key that one of them lacks varies."""
    everywhere = list({known(some_facts): some_facts for some_facts in several}.values())
    keys = sorted({key for some_facts in everywhere for key in some_facts})
    return [key for key in keys if len({some_facts.get(key) for some_facts in everywhere}) > 1]


def distinguish(labels: Mapping[str, str], arms: Mapping[str, Facts]) -> dict[str, str]:
    """Run id -> label, with as few ` key=value` added as it takes that no two different arms share one.

    `labels` and `arms` are by run id; the keys that a reader knows best, such as the scale, are taken first. Where even that
    gives two arms one label, such as a value that reads like another setting, a hash of the arm's facts is added.
    """
    apart = dict(labels)
    for runs in _by_label(labels):
        keys = _separating([arms[run] for run in runs])
        for run in runs:
            apart[run] = " ".join([labels[run], *setting_texts(arms[run], keys)])
    hashes = {run: short_hash(arms[run]) for run in apart}
    for runs in _by_label(apart):
        if len({hashes[run] for run in runs}) > 1:
            apart |= {run: f"{apart[run]} #{hashes[run]}" for run in runs}
    return apart


def _by_label(labels: Mapping[str, str]) -> list[list[str]]:
    """Run ids that have the same label, together."""
    runs: dict[str, list[str]] = {}
    for run, label in labels.items():
        runs.setdefault(label, []).append(run)
    return list(runs.values())


def setting_texts(some_facts: Facts, keys: Iterable[str]) -> list[str]:
    """`dtype=bf16` for each key, by its short name unless two of the keys share that; `-` where the key is missing.

    Of a hash the first eight digits are shown, of a path the last part, of a large whole number no decimals: `at=500000`.
    """
    named = list(keys)
    short = [short_name(key) for key in named]
    names = [name if short.count(name) == 1 else key for key, name in zip(named, short, strict=True)]
    return [f"{name}={_value_text(key, some_facts.get(key, '-'))}" for key, name in zip(named, names, strict=True)]


def _value_text(key: str, value: str) -> str:
    if key.startswith("facts.") and re.fullmatch("[0-9a-f]{16,}", value):
        return value[:HASH_DIGITS]
    if key in PATH_KEYS:
        return PurePath(value).name or value
    return value.removesuffix(".0") if re.fullmatch(r"-?\d{4,}\.0", value) else value


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


def short_name(key: str) -> str:
    """`dtype` of `hardware.dtype`, `scale` of `scale_name`."""
    return key.rpartition(".")[2].removesuffix("_name")


def within(key: str, keys: Iterable[str]) -> bool:
    """Whether the key is one of these, or in a group of them that ends in a dot."""
    return any(key == one or (one.endswith(".") and key.startswith(one)) for one in keys)


@functools.lru_cache(maxsize=256)
def members(keys: tuple[str, ...], groups: tuple[str, ...]) -> frozenset[str]:
    """Those of the keys that are within the groups; a study's runs all have the same keys, so that few are computed."""
    return frozenset(key for key in keys if within(key, groups))
