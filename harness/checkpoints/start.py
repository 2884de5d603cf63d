"""What a run starts from: published weights, a pretraining of ours, a teacher."""

from harness.checkpoints import huggingface, pretrained, teacher
from harness.config.resolve import Found
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.hardware import facts


def read(config: RunConfig) -> Found:
    """All that must be read before the composed config can be resolved, but for its vocabulary.

    InputError for weights that are not there, and for two places to start from.
    """
    checkpoint = None
    if config.pretrain.checkpoint is not None and config.model.init_from is not None:
        raise InputError("pretrain.checkpoint and model.init_from both say what to start from: set one of them")
    if config.pretrain.checkpoint is not None:
        checkpoint = pretrained.checkpoint_of(config)
    elif config.model.init_from is not None:
        checkpoint = huggingface.checkpoint_of(config)
    return Found(checkpoint, teacher.read(config), threads=facts.cores())
