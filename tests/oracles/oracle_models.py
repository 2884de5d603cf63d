"""Small models and a padded batch that the oracles are compared on."""

import torch
from torch import nn

from harness.models.batch import Batch
from harness.models.config import EncoderConfig

PADDING, LENGTHS, LENGTH = 3, (7, 4, 1), 7


def small_config(**changes) -> EncoderConfig:
    defaults = {
        "vocab_size": 19,
        "max_position_embeddings": 9,
        "pad_token_id": PADDING,
        "hidden_size": 12,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return EncoderConfig(**{**defaults, **changes})


def padded_batch(vocab_size: int = 19) -> Batch:
    """Three texts of unlike lengths, the shortest of one token, with both types."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(PADDING + 1, vocab_size, mask.shape, generator=generator).masked_fill(~mask, PADDING)
    types = torch.randint(0, 2, mask.shape, generator=generator)
    return Batch(input_ids=ids, token_type_ids=types, attention_mask=mask)


def scrambled(model: nn.Module) -> nn.Module:
    """The model with values far from those of an initialisation, in which biases and norms matter too."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4
            parameter.copy_(noise + (1 if parameter.dim() == 1 else 0))
    return model
