"""What a run adopts from the weights that it starts from: the shape of their encoder, their tokenizer, their text."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from omegaconf import OmegaConf

from harness.config.help import default_choices
from harness.config.schema import RunConfig, TokenizerConfig, key_of, to_dict, typed, within
from harness.errors import InputError
from harness.models.config import EncoderConfig
from harness.models.keys import UNSHAPED, refuse_underived, refuse_unread, with_own_head_size
from harness.models.objectives.config import ObjectiveName
from harness.paths import conf_directory

CONF = conf_directory()

MEASURED_LENGTH = 128
"""Default tokens of the measured text, and of a pretraining sequence."""

OF_TEXT = ("tokenizer.file", "tokenizer.vocab_file")
"""Keys of the tokenizer that are read beside published weights; with the second one its letter case is, too."""


NAMES = {field.name for field in fields(EncoderConfig)}

GROUPS = ("model", "enhancement")
"""Those whose choices set keys of the encoder, at any scale."""

SIZES = {"embedding_fraction": "embedding_size", "intermediate_size": "feed_forward_size"}
"""Key -> the one that stands in its place where it is set."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights to start from: their shape and tokenizer, and the config of the run if they are from one."""

    name: str
    folder: str
    shape: EncoderConfig
    tokenizer: TokenizerConfig
    run: RunConfig | None = None
    vocabulary: dict[str, Any] = field(default_factory=dict)  # keys of the shape, where the tokenizer has part of the pieces
    longest_text: int | None = None  # tokens that the published tokenizer allows, where it names a limit

    @property
    def key(self) -> str:
        """The key that names it."""
        return "model.init_from" if self.run is None else "pretrain.from"


def refuse_changes(config: RunConfig, checkpoint: Checkpoint, allowed: Iterable[str] = ()) -> None:
    """InputError for groups and keys of a composed run, but those `allowed`, that have no effect beside weights.

    A group that sets keys of the encoder says what the weights become; one that says what they are anyway may stand.
    """
    is_published, where = checkpoint.run is None, f"{checkpoint.key}={checkpoint.folder}"
    different, chosen = _differing_keys(config, checkpoint.shape), _chosen(config)
    different |= {group: [] for group in chosen if said_by(config, group)}
    for group, choice in chosen.items():
        if different[group] and group not in allowed:
            there = ", ".join(f"model.{key}={typed(to_dict(getattr(checkpoint.shape, key)))}" for key in different[group][:3])
            raise InputError(f"{group}={choice} has no effect: the encoder is that of {where}, with {there}; leave it out")
    if not is_published and config.pretrain.objective is not ObjectiveName.none:
        raise InputError(
            f"pretrain={config.pretrain.objective.value} has no effect: the pretraining is that of {where}; leave it out"
        )
    fixed = ("tokenizer", "tokenizer.", *(() if is_published else ("corpus", "corpus.", "recipe")))
    read = (*OF_TEXT, *(("tokenizer.lowercase",) if config.tokenizer.vocab_file else ())) if is_published else ()
    of_files = [(key, f"{key} of {name}") for name, keys in config.said_keys.items() if "=" not in name for key in keys]
    for key, said in [*((key_of(override), override.lstrip("+")) for override in config.overrides), *of_files]:
        looks_away = key == "pretrain.neighbour_heads" and config.pretrain.neighbour_heads
        if looks_away or (within(key, fixed) and key not in read):
            raise InputError(f"{said} has no effect: {where} has its own; leave it out")


def _differing_keys(config: RunConfig, shape: EncoderConfig) -> dict[str, list[str]]:
    """Group -> its keys in which the composed model differs from the weights."""
    keys = [field.name for field in fields(EncoderConfig) if field.name not in (*UNSHAPED, *config.model_keys)]
    different = [key for key in keys if getattr(config.model, key) != getattr(shape, key)]
    of_scale = _keys_of_scale(config.scale_name) or _keys_of_scale("base")
    of_enhancement = said_by(config, "enhancement")
    others = [key for key in different if key not in of_scale]
    return {
        "enhancement": [key for key in others if key in of_enhancement or not of_enhancement] if config.enhancements else [],
        "model": others,
        "scale": [key for key in different if key in of_scale],
    }


def _keys_of_scale(name: str) -> set[str]:
    """Keys of the model that a scale sets; none for a file of the user, which is elsewhere."""
    path = CONF / "scale" / f"{name}.yaml"
    return {str(key) for key in OmegaConf.load(path)} if path.is_file() else set()


def _chosen(config: RunConfig) -> dict[str, str]:
    """Group of the model -> its choice as it is typed, where the command or a file of it chooses one."""
    enhancements = f"[{','.join(sorted(config.enhancements))}]"
    choices = {"enhancement": enhancements, "model": config.model_name, "scale": config.scale_name}
    typed, default = {*map(key_of, config.overrides)}, default_choices()
    return {group: name for group, name in choices.items() if group in typed or name not in ("", "[]", default[group])}


def started_from(config: RunConfig, checkpoint: Checkpoint | None) -> RunConfig:
    """With the shape and tokenizer of the weights, and of a pretraining also its text and budget."""
    if checkpoint is None:
        return config
    shape = _shape_of(config, checkpoint)
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
    model_choice, enhancements = (_changing(config, checkpoint.shape, group) for group in GROUPS)
    kept = source.settings_without(*(f"model.{key}" for key in config.model_keys))
    return replace(
        adopted,
        arm=config.arm or "+".join([source.arm, *model_choice, *enhancements]),
        settings=kept | config.settings,
        model_name=source.model_name,
        scale_name=source.scale_name,
        enhancements=source.enhancements | dict.fromkeys(enhancements, True),
        model=replace(source.model, **vars(shape) | {"keep_layers": config.model.keep_layers}),
        published=source.published,
        pretrain=replace(source.pretrain, checkpoint=checkpoint.folder, at=config.pretrain.at),
        corpus=source.corpus,
    )


def _shape_of(config: RunConfig, checkpoint: Checkpoint) -> EncoderConfig:
    """The shape of the weights, with what the command says of the encoder; InputError for what cannot change."""
    own = [key for key in config.model_keys if key in NAMES]
    chosen = _chosen(config)
    said = [*own, *(key for group in GROUPS if group in chosen for key in said_by(config, group) & NAMES)]
    changes = {key: getattr(config.model, key) for key in said if key not in UNSHAPED}
    for size, stated in SIZES.items():  # a size that the weights state is no longer one
        if size in changes and stated not in changes:
            changes[stated] = None
    layers = config.model.keep_layers
    if layers is not None:
        changes = {"num_hidden_layers": len(layers), "depth_fraction": 1.0} | changes
    try:
        shape = replace(with_own_head_size(checkpoint.shape, changes), **checkpoint.vocabulary)
        refuse_underived(checkpoint.shape, shape, layers)
    except ValueError as error:
        raise InputError(f"{checkpoint.key}={checkpoint.folder}: {error}") from error
    refuse_unread(shape, own)
    return shape


def said_by(config: RunConfig, group: str) -> set[str]:
    """Keys of the model that the files of what a group chooses set, the user's own files included."""
    return {key for choice, keys in config.said_keys.items() if choice.startswith(f"{group}=") for key in keys}


def _changing(config: RunConfig, shape: EncoderConfig, group: str) -> list[str]:
    """Choices of a group, where the command makes one, that set a key to another value than weights of this shape have."""
    said = {
        choice.partition("=")[2]: NAMES & {*keys} for choice, keys in config.said_keys.items() if choice.startswith(f"{group}=")
    }
    return [
        choice
        for choice, keys in sorted(said.items())
        if group in _chosen(config) and any(getattr(config.model, key) != getattr(shape, key) for key in keys - {*UNSHAPED})
    ]
