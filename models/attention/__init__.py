"""Attention by the kind of position that it uses."""

from torch import nn

from models.attention.disentangled import DisentangledAttention
from models.attention.full import SelfAttention
from models.attention.relative import RelativeAttention
from models.config import EncoderConfig, Position

OWN_ATTENTION = {Position.disentangled: DisentangledAttention, Position.relative: RelativeAttention}
"""Positions that need an attention of their own; all others go with SelfAttention."""


def make_attention(config: EncoderConfig, layer: int) -> nn.Module:
    """Attention of one layer, which may depend on its number."""
    return OWN_ATTENTION.get(config.position, SelfAttention)(config, layer)
