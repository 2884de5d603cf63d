"""Every token gets the mean of all real tokens. B texts, T tokens, D hidden."""

import torch
from torch import Tensor, nn

from harness.models.attention.products import Context
from harness.models.config import EncoderConfig


class Mean(nn.Module):
    """No weights, no heads."""

    reads = ()

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        real = hidden.new_ones(hidden.shape[:2]) if context.mask is None else context.mask.to(hidden.dtype)
        mean = torch.sum(hidden * real[..., None], 1, keepdim=True) / real.sum(1)[:, None, None]
        return mean.expand_as(hidden)

    def flops(self, length: int) -> int:
        """Nothing is multiplied by a matrix."""
        return 0
