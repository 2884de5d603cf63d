"""Attention by the kind of position that it uses. B sequences, T tokens, D hidden."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from harness.models.attention.disentangled import DisentangledAttention
from harness.models.attention.full import SelfAttention
from harness.models.attention.relative import RelativeAttention
from harness.models.config import EncoderConfig, Position, class_of

OWN_ATTENTION = {Position.disentangled: DisentangledAttention, Position.relative: RelativeAttention}
"""Positions that need an attention of their own; all others go with SelfAttention."""


@runtime_checkable
class Attention(Protocol):
    """A module that mixes the tokens of a text: all that layers and costs ask of it.

    It is made from the config and the number of its layer. The class may state more: `receptive_field`, the `Reach` of one
    layer (EVERYWHERE where it does not), `depends_on_order`, false for a function of the set of its inputs (true), and `reads`,
    those keys of OF_HEADS that shape it (all of them).
    """

    def forward(self, hidden: Tensor, context: Any) -> Tensor:
        """(B, T, D) -> (B, T, D), with the `Context` of the stack."""

    def __call__(self, *inputs: Any) -> Tensor:
        """`forward`, as torch calls it."""

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text, as its operators are counted."""


def make_attention(config: EncoderConfig, layer: int) -> nn.Module:
    """The `Attention` of one layer; InputError for an unsuitable class of another package."""
    if config.attention is not None:
        return class_of("attention", config.attention)(config, layer)
    return OWN_ATTENTION.get(config.position, SelfAttention)(config, layer)
