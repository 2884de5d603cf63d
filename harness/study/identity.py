"""What a run is: the facts that shape its results, their hash, its arm and conditions, its name and folder."""

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import paths, tags, versions
from harness.checkpoints import foreign, huggingface, teacher
from harness.comparison import arms
from harness.config import rules
from harness.config.choices import Backend, Precision
from harness.config.conditions import depends_on_seed, is_pretrained
from harness.config.resolve import seed_of_pretraining
from harness.config.schema import RunConfig, flatten, to_dict
from harness.errors import InputError, present
from harness.hardware import facts as machine
from harness.models.keys import NEEDS, built
from harness.tasks.synthetic import theory

LIBRARIES = ("torch", "numpy", "tokenizers", "scikit-learn", "scipy", "seqeval", "torchmetrics")
"""Packages whose version may change results."""

SERVING = {Backend.onnxruntime: "onnxruntime", Precision.int8_weights: "torchao"}
"""Packages that only some served models need."""

DEVICES = ("hardware.devices", "hardware.sharding", "hardware.threads")
"""Keys that say how many processes and threads share the work."""

OF_PROTOCOLS = ("finetune.", "task.max_length", "data.train_examples")
"""Facts that belong to the arm where a protocol is named, which states them."""

CHOICES = ("model_name", "scale_name", "protocol_name", "enhancements", "enhancements.")
"""Keys that name what other keys say."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a run, by content, and the folder of its initial weights."""

    data: str | None = None  # key of the task's prepared data; None: the run is a pretraining
    corpus: str | None = None  # key of the prepared text
    pretraining: str | None = None  # fingerprint of the pretraining that the run starts from
    pretrained: str | None = None  # that pretraining's folder
    overlap: float | None = None  # share of the evaluation items that have an n-gram of the text
    leaked: float | None = None  # share of the rows of validation that are in train, too
    origin: str = ""  # name, revision, configuration and licence of the task's data set
    content: dict[str, str | None] = field(default_factory=dict)  # hashes of rows, text, weights: see `content_of`
    weights_read: str = ""  # what was decided when a published folder was read

    @property
    def is_pretraining(self) -> bool:
        """Whether the run has no task."""
        return self.data is None

    @property
    def rows(self) -> str:
        """Key of the prepared data; ValueError for a pretraining."""
        return present(self.data)

    @property
    def text(self) -> str:
        """Key of the prepared text; ValueError for a run that reads none."""
        return present(self.corpus)


def content_of(
    config: RunConfig, rows: str | None, text: str | None, tokenizer_file: str | None, recipe: str | None
) -> dict[str, str | None]:
    """Name -> hash of all content that the run reads; `parameters` tracks them under `facts.`.

    `recipe` is the fingerprint, without the seed, of the pretraining that the run starts from.
    """
    taught = {} if config.finetune.teacher is None else {"finetune_teacher": teacher.hash_of(Path(config.finetune.teacher))}
    code = {} if config.model.encoder is None else {"code": foreign.code_facts(config.model)}
    return (
        taught
        | code
        | {
            "rows": rows,
            "text": text,
            "tokenizer_file": tokenizer_file,
            "weights": huggingface.content_hash(config.model.init_from),
            "teacher": teacher.content_hash(config),
            "recipe": recipe,
        }
    )


@dataclass(frozen=True, eq=False)
class Identity:
    """The name and the identity of a run."""

    config: RunConfig
    inputs: Inputs

    @functools.cached_property
    def parameters(self) -> dict[str, str]:
        """The tracked parameters: the whole resolved config, and under `facts.` what no config key states."""
        flat = flatten(to_dict(self.config))
        left_out = arms.members(tuple(flat), ("settings.", "published.", "overrides"))
        flat = {key: value for key, value in flat.items() if key not in left_out}
        content = {f"facts.{name}": value for name, value in self.inputs.content.items()}
        others = {"facts.device_name": machine.device_name(self.config.hardware)} | versions.facts()
        return {key: str(value) for key, value in (flat | content | others).items()}

    @functools.cached_property
    def facts(self) -> arms.Facts:
        """The settings that shape the run's results, seeds left out."""
        return arms.facts(self.parameters)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of all that shapes the run's results: config, seeds, content, machine, versions of code and libraries."""
        return self._hash(without=())

    @property
    def recipe(self) -> str:
        """The fingerprint without seeds: the same for all replicates of one pretraining."""
        return self._hash(without=arms.SEEDS)

    @property
    def training(self) -> str:
        """The fingerprint without the devices: checkpoints of a pretraining can be resumed on others."""
        return self._hash(without=DEVICES)

    @property
    def unnamed(self) -> str:
        """Equal for one model and recipe under two names: hashes what is built, without choices and unread keys."""
        model = {f"model.{key}": str(value) for key, value in built(self.config.model).items()}
        return self._hash((*CHOICES, *(f"model.{key}" for key in NEEDS), *rules.unread_by(self.config)), model)

    def _hash(self, without: tuple[str, ...], instead: dict[str, str] | None = None) -> str:
        left_out = (*arms.NAMES, *arms.PATH_KEYS, *arms.NEUTRAL_KEYS, *without)
        ignored = arms.members(tuple(self.parameters), left_out)
        settings = {key: value for key, value in arms.hashed(self.parameters).items() if key not in ignored} | (instead or {})
        read = [self.inputs.data, self.inputs.corpus, self.inputs.pretraining]
        measure = self.config.measure
        serving = [SERVING[key] for key in (measure.backend, measure.precision) if key in SERVING]
        libraries = {name: _version(name) for name in (*LIBRARIES, *serving)}
        return hashlib.sha256(json.dumps([settings, read, libraries], sort_keys=True).encode()).hexdigest()

    @property
    def seed(self) -> int:
        """Seed of the fine-tuning, or of the pretraining where the run is one."""
        return seed_of_pretraining(self.config) if self.inputs.is_pretraining else self.config.seed

    @property
    def task(self) -> str:
        """Name of the task; `tags.PRETRAINING_TASK` for a pretraining."""
        return tags.PRETRAINING_TASK if self.inputs.is_pretraining else self.config.task.name

    @property
    def title(self) -> str:
        """The name of the run in console lines and in MLflow."""
        return f"{self.config.label}, {self.config.scale_name}, {self.task}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        """The run's folder, named after the run and not after the comparison; all studies share their pretrainings."""
        config = self.config
        what = config.pretrain.title if self.inputs.is_pretraining else config.task.name
        names = [config.model_name, *sorted(config.enhancements), config.scale_name, what, str(self.seed)]
        study = paths.PRETRAINED if self.inputs.is_pretraining else config.study
        return paths.run_folder(config.output, study, paths.run_name(names, self.fingerprint))

    @property
    def names(self) -> dict[str, str]:
        """The tags that distinguish the run within its study."""
        config = self.config
        of_pretraining = {tags.PRETRAIN_SEED: str(config.pretrain.seed)} if is_pretrained(config) else {}
        return of_pretraining | {
            tags.ARM: config.label,
            tags.SCALE: config.scale_name,
            tags.TASK: self.task,
            tags.SEED: str(self.seed),
        }

    def described(self, lifted: list[str]) -> dict[str, Any]:
        """Tags and parameters of the run in MLflow; `lifted`: facts that belong to its arm."""
        config, git = self.config, machine.git_state()
        named = self.names | {
            tags.ROLE: tags.ROLE_RUN,
            tags.STUDY: config.study,
            tags.MODEL: config.model_name,
            tags.ENHANCEMENTS: ",".join(sorted(config.enhancements)),
            tags.CONDITIONS: arms.short_hash(arms.conditions(self.facts, lifted)),
            tags.LIFTED: json.dumps(lifted),
            tags.FINGERPRINT: self.fingerprint,
            "git_commit": git["git_commit"] or "unknown",
            "git_dirty": str(git["git_dirty"]).lower(),
            "hardware": machine.description(config.hardware),
        }
        if self.inputs.is_pretraining:
            named[tags.RECIPE] = self.recipe
        else:
            named |= theory.tags(config) | {"selected_on": config.finetune.keep_best.value}
        of_inputs = {
            tags.LEAKED: self.inputs.leaked and f"{self.inputs.leaked:.4g}",
            tags.ORIGIN: self.inputs.origin,
            tags.WEIGHTS_READ: self.inputs.weights_read,
            tags.PRETRAINING: self.inputs.pretraining,
            tags.FIXED: "" if is_pretrained(config) or depends_on_seed(config) else "true",
        }
        named |= {key: value for key, value in of_inputs.items() if value}
        return {"tags": named, "parameters": self.parameters}


@functools.cache
def _version(library: str) -> str:
    """Reading it takes milliseconds, and a sweep has many runs; InputError for an extra that is missing."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"{library} is missing: pip install 'encoder-variant-harness[serve]'") from error


def lifted(runs: Iterable[Identity]) -> list[str]:
    """Facts that vary between the runs of one command on one task, and so belong to the arm.

    Facts of measuring and of the task belong to the conditions unless the command sweeps their keys.
    """
    identities = list(runs)
    varying = arms.varying(run.facts for run in identities)
    if any(run.config.protocol_name for run in identities):  # other commands of the study may name other protocols
        varying = sorted({*varying, *(key for run in identities for key in run.facts if arms.within(key, OF_PROTOCOLS))})
    swept = {key for run in identities for key in (*run.config.swept, *(f"{key}." for key in run.config.swept))}
    of_conditions = ("measure.", "task.", "facts.rows")
    of_arms = {*swept, *(OF_PROTOCOLS if "protocol" in swept else ())}
    return [key for key in varying if not arms.within(key, of_conditions) or arms.within(key, of_arms)]
