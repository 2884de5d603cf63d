"""What a run is: the facts that shape its results, their hash, its arm and conditions, its name and folder."""

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness import arms, paths, redact, tags, versions
from harness.checkpoints import huggingface, teacher
from harness.config.resolve import is_pretrained
from harness.config.schema import RunConfig, flatten, to_dict
from harness.hardware import facts as machine
from harness.tasks.synthetic import theory

LIBRARIES = ("torch", "numpy", "tokenizers", "scikit-learn", "scipy", "seqeval", "torchmetrics")
"""Packages whose version may change results."""


DEVICES = ("hardware.devices", "hardware.sharding", "hardware.threads")
"""Keys that say how many processes and threads share the work."""

CHOICES = ("model_name", "scale_name", "enhancements", "enhancements.")
"""Keys that name what other keys say."""


@dataclass(frozen=True)
class Inputs:
    """What a run reads, by content, and the folder of the weights that it starts from."""

    data: str | None = None  # key of the task's prepared data; None: the run is a pretraining
    corpus: str | None = None  # key of the prepared text
    pretraining: str | None = None  # fingerprint of the pretraining that the run starts from
    pretrained: str | None = None  # that pretraining's folder
    overlap: float | None = None  # share of the evaluation items that have an n-gram of the text
    content: dict[str, str | None] = field(default_factory=dict)  # hashes of rows, text, weights: see `content_of`


def content_of(
    config: RunConfig, rows: str | None, text: str | None, tokenizer_file: str | None, recipe: str | None
) -> dict[str, str | None]:
    """Name -> hash of all content that the run reads; `parameters` tracks them under `facts.`.

    `recipe` is the fingerprint, without the seed, of the pretraining that the run starts from.
    """
    return {
        "rows": rows,
        "text": text,
        "tokenizer_file": tokenizer_file,
        "weights": huggingface.content_hash(config.model.init_from),
        "teacher": teacher.content_hash(config),
        "recipe": recipe,
    }


def parameters(config: RunConfig, inputs: Inputs) -> dict[str, str]:
    """The tracked parameters of a run: its whole resolved config, and under `facts.` what no config key states."""
    flat = flatten(to_dict(config))
    left_out = arms.members(tuple(flat), ("settings.", "published.", "overrides"))
    flat = {key: value for key, value in flat.items() if key not in left_out}
    content = {f"facts.{name}": value for name, value in inputs.content.items()}
    others = {"facts.device_name": machine.device_name(config.hardware)} | versions.facts()
    return {key: str(value) for key, value in (flat | content | others).items()}


def facts(config: RunConfig, inputs: Inputs) -> arms.Facts:
    """The settings that shape the run's results, seeds left out."""
    return arms.facts(parameters(config, inputs))


def fingerprint(config: RunConfig, inputs: Inputs) -> str:
    """Hash of all that shapes the run's results: config, seeds, content, machine, versions of code and libraries."""
    return _fingerprint(config, inputs, without=())


def recipe(config: RunConfig, inputs: Inputs) -> str:
    """The fingerprint without seeds: the same for all replicates of one pretraining."""
    return _fingerprint(config, inputs, without=arms.SEEDS)


def training(config: RunConfig, inputs: Inputs) -> str:
    """The fingerprint without the devices: checkpoints of a pretraining can be resumed on others."""
    return _fingerprint(config, inputs, without=DEVICES)


def unnamed(config: RunConfig, inputs: Inputs) -> str:
    """The fingerprint without the names of the choices: the same for one model and recipe under two names."""
    return _fingerprint(config, inputs, without=CHOICES)


def _fingerprint(config: RunConfig, inputs: Inputs, without: tuple[str, ...]) -> str:
    known = parameters(config, inputs)
    ignored = arms.members(tuple(known), (*arms.NAMES, *arms.BY_CONTENT, *arms.WITHOUT_EFFECT, *without))
    settings = {key: value for key, value in known.items() if key not in ignored}
    read = [inputs.data, inputs.corpus, inputs.pretraining]
    libraries = {name: _version(name) for name in LIBRARIES}
    return hashlib.sha256(json.dumps([settings, read, libraries], sort_keys=True).encode()).hexdigest()


@functools.cache
def _version(library: str) -> str:
    """Reading it takes milliseconds, and a sweep has many runs."""
    return importlib.metadata.version(library)


def seed_of(config: RunConfig, inputs: Inputs) -> int:
    """Seed of the fine-tuning, or of the pretraining where the run is one."""
    return config.pretrain.seed if inputs.data is None else config.seed


def task_of(config: RunConfig, inputs: Inputs) -> str:
    """Name of the task; `tags.PRETRAINING_TASK` for a pretraining."""
    return tags.PRETRAINING_TASK if inputs.data is None else config.task.name


def title(config: RunConfig, inputs: Inputs) -> str:
    """The name of the run in console lines and in MLflow."""
    return f"{config.label}, {config.scale_name}, {task_of(config, inputs)}, seed {seed_of(config, inputs)}"


def folder_of(config: RunConfig, inputs: Inputs) -> Path:
    """The run's folder, named after the run and not after the comparison; all studies share their pretrainings."""
    short = fingerprint(config, inputs)
    names = [config.model_name, *sorted(config.enhancements), config.scale_name]
    if inputs.data is None:
        name = paths.run_name([*names, config.pretrain.objective.value, str(config.pretrain.seed)], short)
        return paths.run_folder(config.output, paths.PRETRAINED, name)
    return paths.run_folder(config.output, config.study, paths.run_name([*names, config.task.name, str(config.seed)], short))


def lifted(runs: Iterable[tuple[RunConfig, Inputs]]) -> list[str]:
    """Facts that vary between the runs of one command on one task, and so belong to the arm.

    Facts of measuring and of the task belong to the conditions unless the command sweeps their keys.
    """
    several = list(runs)
    varying = arms.varying(facts(config, inputs) for config, inputs in several)
    swept = {key for config, _ in several for key in (*config.swept, *(f"{key}." for key in config.swept))}
    kept = ("measure.", "task.", "facts.rows")
    return [key for key in varying if not arms.within(key, kept) or arms.within(key, swept)]


def describe(config: RunConfig, inputs: Inputs, lifted_keys: list[str]) -> dict[str, dict[str, str]]:
    """Tags and parameters of the run in MLflow."""
    git = machine.git_state()
    named = {
        tags.ROLE: tags.ROLE_RUN,
        tags.STUDY: config.study,
        tags.ARM: config.label,
        tags.MODEL: config.model_name,
        tags.SCALE: config.scale_name,
        tags.ENHANCEMENTS: ",".join(sorted(config.enhancements)),
        tags.TASK: task_of(config, inputs),
        tags.SEED: str(seed_of(config, inputs)),
        tags.CONDITIONS: arms.short_hash(arms.conditions(facts(config, inputs), lifted_keys)),
        tags.LIFTED: json.dumps(lifted_keys),
        tags.FINGERPRINT: fingerprint(config, inputs),
        "git_commit": git["git_commit"] or "unknown",
        "git_dirty": str(git["git_dirty"]).lower(),
        "hardware": machine.description(config.hardware),
    }
    if is_pretrained(config):
        named[tags.PRETRAIN_SEED] = str(config.pretrain.seed)
    if inputs.data is None:
        named[tags.RECIPE] = recipe(config, inputs)
    else:
        named |= {"selected_on": config.finetune.keep_best.value, **theory.tags(config)}
    if inputs.pretraining is not None:
        named[tags.PRETRAINING] = inputs.pretraining
    return {"tags": named, "parameters": redact.values(parameters(config, inputs))}
