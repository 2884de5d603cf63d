"""Norms over the last dimension, and dropout that does not dominate a CPU step."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.config import EncoderConfig, Norm


class RMSNorm(nn.RMSNorm):
    """RMS norm in the precision of its weight, which autocast ensures for layer norms only."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return super().forward(x.to(self.weight.dtype))


def make_norm(config: EncoderConfig, size: int) -> nn.Module:
    """The configured norm over the last dimension."""
    if config.norm is Norm.rms:
        return RMSNorm(size, eps=config.layer_norm_eps)
    return nn.LayerNorm(size, eps=config.layer_norm_eps, bias=config.norm_bias)


LEVELS = 65536
"""A 16-bit draw decides an element, so the probability is a multiple of 1 / 65536; the scale makes up for it exactly."""


def dropout(x: Tensor, probability: float) -> Tensor:
    """Zeroes elements with this probability and scales the rest so that the mean stays (arXiv:1207.0580)."""
    if probability == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    dropped = min(round(probability * LEVELS), LEVELS - 1)
    count = -(-x.numel() // 4)  # random 64 bits each
    if torch.compiler.is_compiling():  # which knows no `random_`; the same draws by way of a division
        bits = torch.randint(-(2**63), 2**63 - 1, (count,), dtype=torch.int64) ^ -(2**63)
    else:
        bits = torch.empty(count, dtype=torch.int64).random_(-(2**63), None)
    draws = bits.view(torch.int16)[: x.numel()].view(x.shape)
    mask = torch.ge(draws, dropped - LEVELS // 2, out=torch.empty_like(x, requires_grad=False))  # a bool would take longer
    return x * mask.mul_(LEVELS / (LEVELS - dropped))


class Dropout(nn.Module):
    """`dropout` while training, nothing otherwise."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Any shape in, the same out."""
        return dropout(x, self.probability) if self.training else x
