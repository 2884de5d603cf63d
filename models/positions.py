"""Positions for attention: rotated queries and keys, or a bias by offset. T tokens, H heads, K head size."""

import math

import torch
from torch import Tensor, nn

from harness.models.config import EncoderConfig, Position

BUCKETS = 32
"""Buckets of distance where the config names no number (arXiv:1910.10683)."""


def frequencies(width: int, device: torch.device | None, base: float = 10000.0) -> Tensor:
    """(W / 2,) radians per token, falling from 1 to nearly 1 / base (arXiv:1706.03762, section 3.5)."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)


def sinusoids(length: int, width: int, device: torch.device | None = None) -> Tensor:
    """(T, width): sines at even features, cosines at odd ones."""
    angles = torch.arange(length, dtype=torch.float32, device=device)[:, None] * frequencies(width, device)
    table = torch.zeros(length, width, device=device)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()[:, : width // 2]
    return table


def rotation(positions: Tensor, head_size: int, theta: float) -> tuple[Tensor, Tensor]:
    """(T,) or (B, T) positions -> cosines and sines, each (..., T, K) (arXiv:2104.09864)."""
    angles = positions[..., None].float() * frequencies(head_size, positions.device, theta)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """(B, H, T, K) rotated by its position: feature i pairs with feature i + K / 2."""
    cosines, sines = (part if part.dim() == 2 else part[:, None] for part in rotation)
    first, second = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat([-second, first], dim=-1) * sines).to(x.dtype)


class Alibi(nn.Module):
    """A penalty that grows with distance, steeper for some heads than for others (arXiv:2108.12409, section 3)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads

    def forward(self, offsets: Tensor) -> Tensor:
        """(N, M) key place minus query place -> (H, N, M)."""
        closest = 2 ** math.floor(math.log2(self.num_heads))
        slopes = [2 ** (-8 * (i + 1) / closest) for i in range(closest)]
        slopes += [2 ** (-4 * (2 * i + 1) / closest) for i in range(self.num_heads - closest)]
        return -torch.tensor(slopes, device=offsets.device)[:, None, None] * offsets.abs()


class BucketedBias(nn.Module):
    """A learned number for each head and bucket of distance; near distances have buckets of their own (arXiv:1910.10683)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.buckets = config.position_buckets or BUCKETS
        self.farthest = config.max_relative_distance
        self.causal = config.causal
        self.bias = nn.Embedding(self.buckets, config.num_attention_heads)

    def forward(self, offsets: Tensor) -> Tensor:
        """(N, M) key place minus query place -> (H, N, M)."""
        return self.bias(self.bucket(offsets)).permute(2, 0, 1)

    def bucket(self, offsets: Tensor) -> Tensor:
        """Half of the buckets for each direction; in each, half exact and half by the logarithm of the distance."""
        buckets, start = self.buckets, torch.zeros_like(offsets)
        if self.causal:
            distance = (-offsets).clamp(min=0)
        else:
            buckets //= 2
            start, distance = (offsets > 0).long() * buckets, offsets.abs()
        exact = buckets // 2
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.farthest / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return start + torch.where(distance < exact, distance, far)


BIASES = {Position.alibi: Alibi, Position.bucketed: BucketedBias}
"""Positions that act as a bias on the scores, by offset alone."""
