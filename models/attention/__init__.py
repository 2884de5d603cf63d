"""Attention by the kind of position that it uses. B sequences, T tokens, D hidden."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from harness.models.attention.disentangled import DisentangledAttention
from harness.models.attention.full import SelfAttention
from harness.models.attention.relative import RelativeAttention
from harness.models.choices import Position
from harness.models.config import EncoderConfig
from harness.models.describe import Part
from harness.models.reach import Reach

OWN_ATTENTION = {Position.disentangled: DisentangledAttention, Position.relative: RelativeAttention}
"""Positions that need an attention of their own; all others go with SelfAttention."""


@runtime_checkable
class Attention(Protocol):
    """A module that mixes the tokens of a text: all that layers, costs and pictures ask of it, and nothing else.

    It is made from the config and the number of its layer.
    """

    def forward(self, hidden: Tensor, context: Any) -> Tensor:
        """(B, T, D) -> (B, T, D), with the `Context` of the stack."""

    def __call__(self, *inputs: Any) -> Tensor:
        """`forward`, as torch calls it."""

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text, as its operators are counted."""

    @property
    def receptive_field(self) -> Reach:
        """How far one token reads through this layer."""

    @property
    def depends_on_order(self) -> bool:
        """Whether it is more than a function of the set of its inputs."""

    def part(self) -> Part:
        """What a picture says of it."""


def make_attention(config: EncoderConfig, layer: int) -> nn.Module:
    """The `Attention` of one layer, which may depend on its number."""
    return OWN_ATTENTION.get(config.position, SelfAttention)(config, layer)
