"""What a run starts from: published weights, a pretraining, a teacher."""

from harness.checkpoints import huggingface, pretrained, teacher
from harness.config.resolve import Found
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import facts, faster_dtype
from models.objectives.config import ObjectiveName


def has_tokenizer(config: RunConfig) -> bool:
    """Whether the checkpoint or teacher of the run comes with a tokenizer."""
    weights = (config.pretrain.checkpoint, config.model.init_from)
    return any(weights) or config.pretrain.objective is ObjectiveName.distillation


def read(config: RunConfig) -> Found:
    """Everything that must be read before the composed config can be resolved, except the vocabulary.

    InputError for weights that do not exist, and for two checkpoints to start from.
    """
    checkpoint = None
    if config.pretrain.checkpoint is not None and config.model.init_from is not None:
        raise InputError("pretrain.from and model.init_from both say what to start from: set one of them")
    if config.pretrain.checkpoint is not None:
        checkpoint = pretrained.checkpoint_of(config)
    elif config.model.init_from is not None:
        checkpoint = huggingface.checkpoint_of(config)
    return Found(
        checkpoint, teacher.read(config), threads=facts.threads(config.hardware), dtype=faster_dtype.chosen(config.hardware)
    )
