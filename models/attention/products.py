"""Queries over keys and values, the core of every attention. B sequences, T tokens, D hidden, H heads, K head size."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.config import EncoderConfig
from harness.models.norms import dropout as drop


@dataclass
class Context:
    """Inputs of attention besides the hidden states, shared by all layers of one forward pass."""

    mask: Tensor | None = None  # (B, T) bool, True for real tokens, or (B, T, T), True where row may see column
    rotation: tuple[Tensor, Tensor] | None = None  # cosines and sines, for layers with a window or for all
    global_rotation: tuple[Tensor, Tensor] | None = None  # for layers that see everything, where they differ
    bias: nn.Module | None = None  # (N, M) offsets -> (H, N, M)


@dataclass
class Heads:
    """Queries, keys and values of one layer, each (B, H, T, K), and how scores are computed."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    bias: nn.Module | None = None
    causal: bool = False
    scale: float | None = None  # None: one over the root of K
    dropout: float = 0.0


LONG = 1024
"""Keys above which the scores of all pairs take too much memory."""


def attend(heads: Heads, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """(..., N, K) queries over (..., M, K) keys, by torch's fused kernel or spelt out.

    On CPU that kernel has no dropout, and in bfloat16 it takes two to three times as long, up to 1,024 keys at least.
    """
    query, key, value = heads.query, heads.key, heads.value
    half = query.dtype is torch.bfloat16 and key.shape[-2] <= LONG
    if query.device.type not in ("cpu", "meta") or (heads.dropout == 0 and not half):
        combined = mask
        if bias is not None:
            combined = bias.to(query.dtype) if mask is None else torch.where(mask, bias.to(query.dtype), float("-inf"))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=combined, dropout_p=heads.dropout, scale=heads.scale)
    scale = query.shape[-1] ** -0.5 if heads.scale is None else heads.scale
    scores = (query * scale) @ key.transpose(-1, -2)  # (..., N, M)
    scores = scores if bias is None else scores + bias
    if mask is not None:  # in place, and an addition: `where` takes several times as long, again in the backward pass
        scores += torch.where(mask, 0.0, float("-inf")).to(scores.dtype)
    return drop(scores.softmax(dim=-1).to(value.dtype), heads.dropout) @ value


def over_heads(mask: Tensor | None) -> Tensor | None:
    """(B, T) real tokens or (B, N, M) what a row may see -> (B, 1, 1 or N, M), one for all heads."""
    if mask is None:
        return None
    return mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]


class MultiHead(nn.Module):
    """Base class of attention with heads. Abstract."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.num_heads, self.head_size = config.num_attention_heads, config.head_width

    @property
    def dropout(self) -> float:
        """Dropout probability of the attention weights, 0 in evaluation mode."""
        return self.config.attention_probs_dropout_prob if self.training else 0.0

    def split(self, x: Tensor) -> Tensor:
        """(..., N, H K) -> (..., H, N, K)."""
        return x.unflatten(-1, (self.num_heads, self.head_size)).transpose(-3, -2)
