"""What a run adopts from the weights that it starts from: the shape of their encoder, their tokenizer, their text."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from omegaconf import OmegaConf

from harness.arms import within
from harness.config.mistakes import default_choices
from harness.config.schema import RunConfig, TokenizerConfig
from harness.errors import InputError
from harness.paths import conf_directory
from models.config import EncoderConfig
from models.keys import refuse_unread
from models.objectives.config import ObjectiveName

CONF = conf_directory()

MEASURED_LENGTH = 128
"""Default tokens of the measured text, and of a pretraining sequence."""

OF_HEAD = (
    *("pooling", "pooler", "pooler_norm", "pooler_bias", "classifier_bias", "classifier_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
"""Keys of the model that a run may set beside weights: those of the new head, and what has no weights."""

UNSHAPED = ("vocab_size", "pad_token_id", "initializer_range", "init")
"""Keys in which the composed model may differ from the weights: those of the tokenizer, and initial values."""

OF_TEXT = ("tokenizer.file", "tokenizer.vocab_file")
"""Keys of the tokenizer that are read beside published weights; with the second one its letter case is, too."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights to start from: their shape and tokenizer, and the config of the run if they are from one."""

    name: str
    folder: str
    shape: EncoderConfig
    tokenizer: TokenizerConfig
    run: RunConfig | None = None

    @property
    def key(self) -> str:
        """The key that names it."""
        return "model.init_from" if self.run is None else "pretrain.from"


def refuse_changes(config: RunConfig, checkpoint: Checkpoint, allowed: Iterable[str] = ()) -> None:
    """InputError for groups and keys of a composed run, but those `allowed`, that would change what the weights fix.

    A group that says what the weights are anyway may stand.
    """
    is_published, where = checkpoint.run is None, f"{checkpoint.key}={checkpoint.folder}"
    different = _differing_keys(config, checkpoint.shape)
    for group, choice in _chosen(config).items():
        if different[group] and group not in allowed:
            there = ", ".join(f"model.{key}={_typed(getattr(checkpoint.shape, key))}" for key in different[group][:3])
            raise InputError(f"{group}={choice} has no effect: the encoder is that of {where}, with {there}; leave it out")
    if not is_published and config.pretrain.objective is not ObjectiveName.none:
        raise InputError(
            f"pretrain={config.pretrain.objective.value} has no effect: the pretraining is that of {where}; leave it out"
        )
    fixed = ("tokenizer", "tokenizer.", *(() if is_published else ("corpus", "corpus.", "recipe")))
    read = (*OF_TEXT, *(("tokenizer.lowercase",) if config.tokenizer.vocab_file else ())) if is_published else ()
    for override in (override.lstrip("+") for override in config.overrides):
        key = override.partition("=")[0]
        looks_away = key == "pretrain.neighbour_heads" and config.pretrain.neighbour_heads
        if looks_away or (within(key, fixed) and key not in read):
            raise InputError(f"{override} has no effect: {where} has its own; leave it out")


def _differing_keys(config: RunConfig, shape: EncoderConfig) -> dict[str, list[str]]:
    """Group -> its keys in which the composed model differs from the weights."""
    keys = [field.name for field in fields(EncoderConfig) if field.name not in (*UNSHAPED, *config.model_keys)]
    different = [key for key in keys if getattr(config.model, key) != getattr(shape, key)]
    of_scale = _keys_in(CONF / "scale", [config.scale_name or "base"]) or _keys_in(CONF / "scale", ["base"])
    of_enhancement = _keys_in(CONF / "enhancement", config.enhancements)
    others = [key for key in different if key not in of_scale]
    return {
        "enhancement": [key for key in others if key in of_enhancement or not of_enhancement] if config.enhancements else [],
        "model": others,
        "scale": [key for key in different if key in of_scale],
    }


def _keys_in(folder: Path, choices: Iterable[str]) -> set[str]:
    """Keys of the model that these choices set; none for files of the user, which are elsewhere."""
    paths = [folder / f"{choice}.yaml" for choice in choices]
    nodes = [OmegaConf.load(path) for path in paths] if all(path.is_file() for path in paths) else []
    return {str(key) for node in nodes for key in node.get("model", node)}


def _chosen(config: RunConfig) -> dict[str, str]:
    """Group of the model -> its choice as it is typed, where the command or a file of it chooses one."""
    enhancements = f"[{','.join(sorted(config.enhancements))}]"
    choices = {"enhancement": enhancements, "model": config.model_name, "scale": config.scale_name}
    typed = {override.lstrip("+").partition("=")[0] for override in config.overrides}
    default = default_choices()
    return {group: name for group, name in choices.items() if group in typed or name not in ("", "[]", default[group])}


def _typed(value: object) -> str:
    return "null" if value is None else str(getattr(value, "value", value))


def started_from(config: RunConfig, checkpoint: Checkpoint | None) -> RunConfig:
    """With the shape and tokenizer of the weights, and of a pretraining also its text and budget."""
    if checkpoint is None:
        return config
    shape = _with_own_head(config, checkpoint)
    model = replace(config.model, **vars(shape))
    measured = config.measure.length or MEASURED_LENGTH
    adopted = replace(
        config,
        arm=config.arm or checkpoint.name,
        model=model,
        published=model,
        pretrain=replace(config.pretrain, neighbour_heads=False),
        tokenizer=checkpoint.tokenizer,
        measure=replace(config.measure, length=min(measured, model.longest_text)),
    )
    source = checkpoint.run
    if source is None:
        return replace(adopted, scale_name=f"L{model.depth}-H{model.hidden_size}")
    replaced = {f"model.{key}" for key in config.model_keys}
    kept = {key: value for key, value in source.settings.items() if key not in replaced}
    return replace(
        adopted,
        arm=config.arm or source.arm,
        settings=kept | config.settings,
        model_name=source.model_name,
        scale_name=source.scale_name,
        enhancements=source.enhancements,
        model=replace(source.model, **vars(shape)),
        published=source.published,
        pretrain=replace(source.pretrain, checkpoint=checkpoint.folder, at=config.pretrain.at),
        corpus=source.corpus,
    )


def _with_own_head(config: RunConfig, checkpoint: Checkpoint) -> EncoderConfig:
    """The shape of the weights, with the head and the dropout that the command sets: they need no other weights.

    InputError for any other key of the encoder.
    """
    own = [key for key in config.model_keys if key in {field.name for field in fields(EncoderConfig)}]
    for key in own:
        if key not in OF_HEAD:
            raise InputError(
                f"model.{key}={getattr(config.model, key)} has no effect: the encoder is that of "
                f"{checkpoint.key}={checkpoint.folder}; leave it out, or set one of model.{', '.join(OF_HEAD)}"
            )
    shape = replace(checkpoint.shape, **{key: getattr(config.model, key) for key in own})
    refuse_unread(shape, own)
    return shape
