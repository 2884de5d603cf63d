"""What a run starts from: published weights, a pretraining, a teacher."""

from harness.checkpoints import huggingface, pretrained, teacher
from harness.config.adopted import Checkpoint
from harness.config.resolve import Found
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import facts, faster_dtype
from models.objectives.config import ObjectiveName


def has_tokenizer(config: RunConfig) -> bool:
    """Whether the checkpoint or teacher of the run comes with a tokenizer."""
    weights = (config.pretrain.checkpoint, config.model.init_from)
    return any(weights) or config.pretrain.objective is ObjectiveName.distillation


def checkpoint_of(config: RunConfig) -> Checkpoint | None:
    """The weights that the run starts from; None for none. InputError for weights that do not exist, and for two of them."""
    if config.pretrain.checkpoint is not None and config.model.init_from is not None:
        raise InputError("pretrain.from and model.init_from both say what to start from: set one of them")
    if config.pretrain.checkpoint is not None:
        return pretrained.checkpoint_of(config)
    return None if config.model.init_from is None else huggingface.checkpoint_of(config)


def read(config: RunConfig) -> Found:
    """Everything that must be read before the composed config can be resolved, except the vocabulary.

    InputError for weights that do not exist, and for two checkpoints to start from.
    """
    checkpoint, taught = checkpoint_of(config), teacher.read(config)
    return Found(checkpoint, taught, threads=facts.threads(config.hardware), dtype=faster_dtype.chosen(config.hardware))
