"""What a run adopts from the weights that it starts from: the shape of their encoder, their tokenizer, their text."""

from dataclasses import dataclass, fields, replace

from harness.config.schema import RunConfig
from harness.config.texts import TokenizerConfig
from harness.errors import InputError
from models.config import EncoderConfig
from models.keys import refuse_unread

MEASURED_LENGTH = 128
"""Default tokens of the measured text, and of a pretraining sequence."""

OF_HEAD = (
    *("pooling", "pooler", "pooler_norm", "pooler_bias", "classifier_bias", "classifier_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
"""Keys of the model that a run may set beside weights: those of the new head, and what has no weights."""


@dataclass(frozen=True)
class Checkpoint:
    """Weights to start from: their shape and tokenizer, and the config of the run if they are from one."""

    name: str
    folder: str
    shape: EncoderConfig
    tokenizer: TokenizerConfig
    run: RunConfig | None = None


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
            given, source = getattr(config.model, key), "model.init_from" if checkpoint.run is None else "pretrain.from"
            raise InputError(
                f"model.{key}={given} has no effect: the encoder is that of {source}={checkpoint.folder}; "
                f"leave it out, or set one of model.{', '.join(OF_HEAD)}"
            )
    shape = replace(checkpoint.shape, **{key: getattr(config.model, key) for key in own})
    refuse_unread(shape, own)
    return shape
