"""From composed values to a config that can run: what stands for something is replaced by it, the impossible is refused."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.choices import Keep, KeepBest, TrainedOn
from harness.config import RunConfig, flatten, to_dict
from harness.errors import InputError
from models.config import Body
from models.objectives.config import ObjectiveName

MEASURED_LENGTH = 128
"""Tokens of the measured text, and of a sequence in pretraining, where no length is given."""

MINIMUM_SEQUENCE = 8
"""Tokens of the shortest sequence of pretraining that has room for a pair."""

BUDGETS = ("tokens", "steps", "flops", "seconds")
"""Keys of `pretrain` of which one says how long."""

DEFAULT_TOKENS = 1e6
"""Budget of pretraining where none is given."""

AT_LEAST_ONE = (
    *(f"finetune.{key}" for key in ("batch_size", "accumulation", "eval_batch_size", "max_steps")),
    *(f"measure.{key}" for key in ("length", "repeats", "rounds", "batch_size", "throughput_batches", "threads")),
    *(f"pretrain.{key}" for key in ("batch_size", "accumulation", "ramp_from", "evaluations", "eval_sequences", "probe_steps")),
    *(f"pretrain.{key}" for key in ("tokens", "steps", "flops")),
    *("corpus.documents", "corpus.train_documents", "tokenizer.train_characters", "tokenizer.vocab_size"),
    *("hardware.threads", "task.max_length", "data.train_examples", "data.validation_examples"),
)
ABOVE_ZERO = (
    *(f"finetune.{key}" for key in ("epochs", "learning_rate", "max_grad_norm")),
    *(f"pretrain.{key}" for key in ("learning_rate", "max_grad_norm", "seconds", "ramp_fraction")),
)
NOT_NEGATIVE = ("measure.retries", "measure.foreign_cpus", "measure.seconds_per_length")
SHARES = ("finetune.warmup_fraction", "pretrain.warmup_fraction", "pretrain.ramp_fraction", "corpus.validation_share")
"""Keys by the numbers that they may have."""


def load(path: Path) -> RunConfig:
    """The config that `save` wrote."""
    return from_node(OmegaConf.load(path))


def from_node(node: Any) -> RunConfig:
    """A validated RunConfig from an OmegaConf node; InputError names the key and what is wrong with it.

    Merging plain values into the schema once more closes what `+key=` slips past it.
    """
    merged = OmegaConf.merge(OmegaConf.structured(RunConfig), OmegaConf.to_container(node, enum_to_str=True))
    config = OmegaConf.to_object(merged)
    if not isinstance(config, RunConfig):
        raise TypeError(f"expected a RunConfig, got {type(config).__name__}")
    _resolve(config)
    refuse_impossible(config)
    return config


def _resolve(config: RunConfig) -> None:
    """Puts values in the place of what stands for them, so that the protocol says what was done."""
    pretrain, longest = config.pretrain, config.model.longest_text
    if config.measure.length is None:
        config.measure.length = min(MEASURED_LENGTH, longest)
    if pretrain.length is None:
        pretrain.length = min(MEASURED_LENGTH, longest)
    if pretrain.objective is ObjectiveName.own:
        pretrain.objective = config.model.objective
    if all(getattr(pretrain, key) is None for key in BUDGETS):
        pretrain.tokens = DEFAULT_TOKENS
    if config.tokenizer.trained_on is TrainedOn.auto:
        config.tokenizer.trained_on = TrainedOn.corpus if is_pretrained(config) else TrainedOn.task


def is_pretrained(config: RunConfig) -> bool:
    """Whether the cell has a pretraining before it, of its own or one that is named."""
    return config.pretrain.objective is not ObjectiveName.none or config.pretrain.checkpoint is not None


def has_task(config: RunConfig) -> bool:
    """Whether something is fine-tuned, or the pretraining alone is wanted."""
    return config.task.name != "none"


def refuse_impossible(config: RunConfig) -> None:
    """InputError for the first value that no run could use."""
    flat = flatten(to_dict(config))
    _refuse_numbers(flat)
    if not (config.finetune.enabled or config.measure.enabled) and has_task(config):
        raise InputError("finetune=none measure=none leave nothing to do: choose one of them")
    _refuse_impossible_pretraining(config)
    _refuse_impossible_training(config, flat)
    trained = ["pretrain.length"] if is_pretrained(config) else []
    for key in ("measure.length", *(["task.max_length"] if has_task(config) else []), *trained):
        if flat[key] > config.model.longest_text:
            raise InputError(
                f"{key}={flat[key]} must be at most the {config.model.longest_text} of model.max_position_embeddings"
            )
    if not config.study or any(character in config.study for character in "/\\\0"):
        raise InputError(f"study={config.study!r} must be a name without slashes: it becomes a folder")


def _refuse_numbers(flat: dict[str, Any]) -> None:
    for key in AT_LEAST_ONE:
        if flat[key] is not None and flat[key] < 1:
            raise InputError(f"{key}={flat[key]} must be at least 1")
    for key in ABOVE_ZERO:
        if flat[key] is not None and not flat[key] > 0:
            raise InputError(f"{key}={flat[key]} must be above 0")
    for key in NOT_NEGATIVE:
        if not flat[key] >= 0:
            raise InputError(f"{key}={flat[key]} must be at least 0")
    for key in SHARES:
        if not 0 <= flat[key] <= 1:
            raise InputError(f"{key}={flat[key]} must be between 0 and 1")
    for key in ("measure.lengths", "measure.batch_sizes"):
        if any(value < 1 for value in flat[key]) or len(set(flat[key])) < len(flat[key]):
            raise InputError(f"{key}={flat[key]} must be different numbers of at least 1")


def _refuse_impossible_training(config: RunConfig, flat: dict[str, Any]) -> None:
    if config.finetune.keep is Keep.best and config.finetune.keep_best is KeepBest.none:
        raise InputError(
            "finetune.keep=best needs a split that chooses the best epoch: set finetune.keep_best=tune, or finetune.keep=last"
        )
    if config.finetune.batch_size % config.finetune.accumulation:
        raise InputError(
            f"finetune.batch_size={config.finetune.batch_size} must be a multiple of "
            f"finetune.accumulation={config.finetune.accumulation}"
        )
    for key in ("finetune.activation_checkpointing", "pretrain.activation_checkpointing"):
        if flat[key] and config.model.body in (Body.lstm, Body.static):
            raise InputError(
                f"{key}=true needs layers to compute again, which model.body={config.model.body.value} has none of: "
                "use model.body=transformer, or leave the key out"
            )


def _refuse_impossible_pretraining(config: RunConfig) -> None:
    told = config.pretrain
    given = [f"pretrain.{key}={getattr(told, key)}" for key in BUDGETS if getattr(told, key) is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are budgets: give one")
    if told.length < MINIMUM_SEQUENCE:
        raise InputError(f"pretrain.length={told.length} must be at least {MINIMUM_SEQUENCE}")
    if told.ramp_from is not None and told.ramp_from > told.batch_size:
        raise InputError(f"pretrain.ramp_from={told.ramp_from} must be at most pretrain.batch_size={told.batch_size}")
    if told.objective is ObjectiveName.distillation and not told.teacher:
        raise InputError("pretrain.objective=distillation needs a teacher: set pretrain.teacher to a run or folder")
    if told.objective is ObjectiveName.own:
        raise InputError("model.objective=own stands for itself: name an objective")
    if not told.checkpoint_every_s >= 0:
        raise InputError(f"pretrain.checkpoint_every_s={told.checkpoint_every_s} must be at least 0")
