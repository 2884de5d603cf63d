"""From composed values to a config that can run: what stands for something is replaced by it, the impossible is refused."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.arms import within
from harness.config.choices import TrainedOn
from harness.config.schema import (
    CorpusConfig,
    FinetuneConfig,
    MeasureConfig,
    PretrainConfig,
    RunConfig,
    TaskConfig,
    TokenizerConfig,
    flatten,
    to_dict,
)
from harness.errors import InputError
from models.config import Body, EncoderConfig
from models.objectives.config import ObjectiveName

MEASURED_LENGTH = 128
"""Tokens of the measured text, and of a sequence in pretraining, where no length is given."""

MINIMUM_SEQUENCE = 8
"""Tokens of the shortest sequence of pretraining that has room for a pair."""

BUDGETS = ("tokens", "steps", "flops", "seconds")
"""Keys of `pretrain` of which one says how long."""

DEFAULT_TOKENS = 1e6
"""Budget of pretraining where none is given."""

NO_TASK = "none"
"""Name of the task of a pretraining."""

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


@dataclass(frozen=True)
class Vocabulary:
    """What a network must know of its tokenizer."""

    size: int
    pad: int


@dataclass(frozen=True)
class Checkpoint:
    """Weights to start from: their shape, their tokenizer, and of a pretraining of ours the config that it ran with."""

    name: str
    folder: str
    shape: EncoderConfig
    tokenizer: TokenizerConfig
    run: RunConfig | None = None


@dataclass(frozen=True)
class Found:
    """What was read before a run can be resolved; None for what is not there or not read yet."""

    checkpoint: Checkpoint | None = None
    teacher: tuple[str, TokenizerConfig] | None = None  # its folder and its tokenizer
    text_tokenizer: str | None = None  # tokenizer.json of the prepared text
    vocabulary: Vocabulary | None = None
    threads: int | None = None  # CPU cores that training may use where hardware.threads names none


def resolve(composed: RunConfig, found: Found) -> RunConfig:
    """The config that runs: every value that stands for another is replaced, adopted shapes and vocabulary included.

    It is a pure function, and its result is what is hashed, saved, tracked, shown and run. Resolving the result again changes
    nothing. InputError for a value that no run could use.
    """
    config = _started_from(composed, found.checkpoint)
    if found.teacher is not None:
        folder, tokenizer = found.teacher
        config = replace(config, pretrain=replace(config.pretrain, teacher=folder), tokenizer=tokenizer)
    config = _without_unread(_without_placeholders(config))
    if found.text_tokenizer is not None:
        config = replace(config, tokenizer=replace(config.tokenizer, vocab_file=None, file=found.text_tokenizer))
    if found.vocabulary is not None and found.checkpoint is None:
        shape = replace(config.model, vocab_size=found.vocabulary.size, pad_token_id=found.vocabulary.pad)
        config = replace(config, model=shape)
    threads = config.hardware.threads or found.threads
    config = replace(config, hardware=replace(config.hardware, threads=threads))
    refuse_impossible(config)
    return config


def pretraining_of(config: RunConfig) -> RunConfig:
    """The run of the pretraining that this resolved run needs: all that belongs to the task is left at its defaults."""
    kept = {key: value for key, value in config.settings.items() if not key.startswith(("finetune", "task", "measure", "data"))}
    return replace(
        config,
        settings=kept,
        seed=config.pretrain.seed,
        task=TaskConfig(name=NO_TASK),
        finetune=FinetuneConfig(enabled=False),
        measure=replace(MeasureConfig(enabled=False), length=config.pretrain.length),
        data=replace(config.data, train_examples=None, validation_examples=None),
    )


def _started_from(config: RunConfig, checkpoint: Checkpoint | None) -> RunConfig:
    """With shape and tokenizer of the weights, and of a pretraining of ours the text and budget that it had."""
    if checkpoint is None:
        return config
    model = replace(config.model, **vars(checkpoint.shape))
    measured = config.measure.length or MEASURED_LENGTH
    adopted = replace(
        config,
        arm=config.arm or checkpoint.name,
        model=model,
        published=model,
        tokenizer=checkpoint.tokenizer,
        measure=replace(config.measure, length=min(measured, model.longest_text)),
    )
    theirs = checkpoint.run
    if theirs is None:
        return replace(adopted, scale_name=f"L{model.depth}-H{model.hidden_size}")
    return replace(
        adopted,
        arm=config.arm or theirs.arm,
        settings=theirs.settings | config.settings,
        model_name=theirs.model_name,
        scale_name=theirs.scale_name,
        model=replace(theirs.model, **vars(checkpoint.shape)),
        published=theirs.published,
        pretrain=replace(theirs.pretrain, checkpoint=checkpoint.folder),
        corpus=theirs.corpus,
    )


def _without_placeholders(config: RunConfig) -> RunConfig:
    """Defaults that depend on other keys, as values."""
    longest = min(MEASURED_LENGTH, config.model.longest_text)
    pretrain = replace(
        config.pretrain,
        length=config.pretrain.length or longest,
        objective=config.model.objective if config.pretrain.objective is ObjectiveName.own else config.pretrain.objective,
        seed=config.seed if config.pretrain.seed is None else config.pretrain.seed,
    )
    if all(getattr(pretrain, key) is None for key in BUDGETS):
        pretrain = replace(pretrain, tokens=DEFAULT_TOKENS)
    measure = replace(config.measure, length=config.measure.length or longest)
    config = replace(config, pretrain=pretrain, measure=measure)
    if config.tokenizer.trained_on is not TrainedOn.auto:
        return config
    trained_on = TrainedOn.corpus if is_pretrained(config) else TrainedOn.task
    return replace(config, tokenizer=replace(config.tokenizer, trained_on=trained_on))


def _without_unread(config: RunConfig) -> RunConfig:
    """What a run without pretraining does not read is at its defaults, so that it cannot tell equal runs apart."""
    if is_pretrained(config):
        return config
    plain = PretrainConfig(length=config.pretrain.length, tokens=DEFAULT_TOKENS, seed=config.seed)
    reads_text = config.tokenizer.trained_on is TrainedOn.corpus
    unread = ("pretrain.",) if reads_text else ("pretrain.", "corpus", "corpus.")
    settings = {key: value for key, value in config.settings.items() if not within(key, unread)}
    corpus = config.corpus if reads_text else CorpusConfig(name="none")
    return replace(config, pretrain=plain, corpus=corpus, settings=settings)


def load(path: Path) -> RunConfig:
    """The resolved config that `save` wrote."""
    return from_node(OmegaConf.load(path))


def from_node(node: Any) -> RunConfig:
    """A validated RunConfig from an OmegaConf node; InputError names the key and what is wrong with it.

    Merging plain values into the schema once more closes what `+key=` slips past it.
    """
    merged = OmegaConf.merge(OmegaConf.structured(RunConfig), OmegaConf.to_container(node, enum_to_str=True))
    config = OmegaConf.to_object(merged)
    if not isinstance(config, RunConfig):
        raise TypeError(f"expected a RunConfig, got {type(config).__name__}")
    config = _without_placeholders(config)
    refuse_impossible(config)
    return config


def is_pretrained(config: RunConfig) -> bool:
    """Whether the cell has a pretraining before it, of its own or one that is named."""
    return config.pretrain.objective is not ObjectiveName.none or config.pretrain.checkpoint is not None


def has_task(config: RunConfig) -> bool:
    """Whether something is fine-tuned, or the pretraining alone is wanted."""
    return config.task.name != NO_TASK


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
