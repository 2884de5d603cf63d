"""What a run starts from: published weights, a pretraining, a teacher."""

from collections.abc import Iterable

from harness.checkpoints import foreign, huggingface, pretrained, teacher
from harness.config.resolve import Checkpoint, Found, refuse_changes, started_from
from harness.config.schema import RunConfig
from harness.data import one_file
from harness.errors import InputError
from harness.hardware import facts
from harness.models.config import EncoderConfig
from harness.tasks.rows import kind_by_features


def checkpoint_of(config: RunConfig, allowed: Iterable[str] = ()) -> Checkpoint | None:
    """The weights that the composed run starts from; None for none.

    InputError for weights that do not exist, for two of them, and for other groups, except those `allowed`, that would
    change them.
    """
    if config.pretrain.checkpoint is not None and config.model.init_from is not None:
        raise InputError("pretrain.from and model.init_from both name initial weights: set only one")
    if config.pretrain.checkpoint is None and config.model.init_from is None:
        return None
    source = huggingface if config.pretrain.checkpoint is None else pretrained
    checkpoint = source.checkpoint_of(config)
    refuse_changes(config, checkpoint, allowed)
    return checkpoint


def read(config: RunConfig) -> Found:
    """Everything that must be read before the composed config can be resolved, except the vocabulary.

    InputError for weights that do not exist, for two checkpoints to start from, and for a data set that cannot be loaded.
    """
    checkpoint, taught = checkpoint_of(config), teacher.read(config)
    shape = None if checkpoint is not None else shape_of_class(config)
    threads, dtype = facts.threads(config.hardware), facts.chosen_dtype(config.hardware)
    return Found(checkpoint, taught, threads, dtype, shape, kind_by_features(config), one_file.with_splits(config))


def shape_of_class(config: RunConfig) -> EncoderConfig | None:
    """The shape of the encoder class of another package that the config names; None where it names none."""
    return None if config.model.encoder is None else foreign.shape_of(config.model)


def started(config: RunConfig, allowed: Iterable[str]) -> tuple[RunConfig, Checkpoint | None]:
    """The config with the shape that it starts from, and the weights, as `checkpoint_of` has them."""
    checkpoint = checkpoint_of(config, allowed)
    return started_from(config, checkpoint, None if checkpoint is not None else shape_of_class(config)), checkpoint
