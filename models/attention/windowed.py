"""Attention within a window. B sequences, T tokens, D hidden, H heads, K head size.

It is blocked (arXiv:2004.05150, section 3.1): the queries of a block of N tokens see the M = N + window keys around it,
band-masked, so that cost and memory grow with T and not with its square. A band mask on full attention would save nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.attention.products import Heads, attend, over_heads

MINIMUM_BLOCK = 16
"""Queries in a block at least, however small the window: below it the fixed cost of a block outweighs the saved products."""

SMALL_BLOCK = 32
"""Half a window is worth a block of its own from this many queries on."""


def block_size(window: int) -> int:
    """Queries in a block: larger ones compute more pairs outside of the window, smaller ones copy each key more often."""
    return max(window // 2, min(window, SMALL_BLOCK), MINIMUM_BLOCK)


def is_one_block(window: int, length: int) -> bool:
    """Whether a text is too short for blocks to save pairs worth their copies."""
    return length <= max(window, MINIMUM_BLOCK) + window


def window_pairs(window: int, length: int, global_tokens: int) -> int:
    """Query-key pairs that windowed attention computes over one text."""
    if is_one_block(window, length):
        return length * length
    block = block_size(window)
    return -(-length // block) * block * (block + window + global_tokens)


def windowed_attention(heads: Heads, window: int, global_tokens: int = 0) -> Tensor:
    """Each (B, H, T, K) -> (B, H, T, K); token i sees tokens i - window/2 to i + window/2 that the mask allows.

    The first `global_tokens` tokens are seen by all. A padded token always sees itself, so that a row with nothing to see
    stays finite; its output means nothing.
    """
    B, H, T, K = heads.query.shape
    shape = Blocks(T, window // 2, block_size(window), global_tokens, heads.causal, heads.query.device)
    if is_one_block(window, T):
        return _within_one_block(heads, shape)
    blocks = shape.count
    query = F.pad(heads.query.transpose(1, 2), (0, 0, 0, 0, 0, blocks * shape.size - T))  # (B, blocks * N, H, K)
    query = query.reshape(B * blocks, shape.size, H, K).transpose(1, 2)  # (B * blocks, H, N, K)
    key, value = (_around_blocks(x, shape) for x in (heads.key, heads.value))  # (B * blocks, H, M, K)
    allowed = _block_mask(heads.mask, shape).expand(B, -1, -1, -1).flatten(0, 1)[:, None]  # (B * blocks, 1, N, M)
    bias = None if heads.bias is None else _block_bias(heads.bias, B, shape)
    attended = attend(Heads(query, key, value, None, scale=heads.scale, dropout=heads.dropout), allowed, bias)
    return attended.transpose(1, 2).reshape(B, blocks * shape.size, H, K)[:, :T].transpose(1, 2)


@dataclass
class Blocks:
    """How T tokens are cut: blocks of `size` queries that see `side` more keys at both ends, and the global ones."""

    length: int
    side: int
    size: int
    global_tokens: int
    causal: bool
    device: torch.device

    @property
    def count(self) -> int:
        """Blocks that cover the text."""
        return -(-self.length // self.size)

    @property
    def rows(self) -> Tensor:
        """(blocks, N, 1): place of each query."""
        return torch.arange(self.count * self.size, device=self.device).view(self.count, self.size, 1)

    @property
    def columns(self) -> Tensor:
        """(blocks, 1, M): place of each key around a block, global ones left out."""
        first = torch.arange(self.count, device=self.device)[:, None, None] * self.size - self.side
        return torch.arange(self.size + 2 * self.side, device=self.device) + first


def _within_one_block(heads: Heads, shape: Blocks) -> Tensor:
    places = torch.arange(shape.length, device=shape.device)
    offsets = places[None, :] - places[:, None]
    band = (offsets.abs() <= shape.side) | (places < shape.global_tokens)
    band = band & (offsets <= 0) if shape.causal else band
    if (keys := over_heads(heads.mask)) is not None:
        band = (band & keys) | (offsets == 0)
    return attend(heads, band, None if heads.bias is None else heads.bias(offsets))


def _around_blocks(x: Tensor, shape: Blocks) -> Tensor:
    """(B, H, T, K) -> (B * blocks, H, M, K): for each block its own tokens, `side` more at both ends, and the global ones.

    Views of one padded tensor, each a block later, so that the backward pass stays linear in T too.
    """
    B, H, T, K = x.shape
    N, M, blocks, x = shape.size, shape.size + 2 * shape.side, shape.count, x.transpose(1, 2)  # (B, T, H, K)
    later = -(-M // N) - 1  # blocks after the first that the keys around one block reach into
    padded = F.pad(x, (0, 0, 0, 0, shape.side, (blocks + later) * N - T - shape.side))
    padded = padded.view(B, blocks + later, N, H, K).transpose(2, 3)
    parts = [padded[:, number : number + blocks, :, : M - number * N] for number in range(later + 1)]
    if shape.global_tokens:
        parts.append(x[:, None, : shape.global_tokens].transpose(2, 3).expand(-1, blocks, -1, -1, -1))
    return torch.cat(parts, dim=3).flatten(0, 1)


def _block_mask(mask: Tensor | None, shape: Blocks) -> Tensor:
    """(B or 1, blocks, N, M) bool: within the window, within the text, and allowed by the mask; global keys come last."""
    rows, columns, T, G = shape.rows, shape.columns, shape.length, shape.global_tokens
    offsets = columns[0] - rows[0]  # (N, M), the same in every block
    near = (offsets.abs() <= shape.side) & ((offsets <= 0) if shape.causal else True)
    itself, band = (offsets == 0)[None], near & (columns >= G) & (columns < T)
    if G:
        everywhere = torch.arange(G, device=shape.device).expand(shape.count, 1, G)
        columns = torch.cat([columns, everywhere], dim=-1)
        band = torch.cat([band, torch.ones(shape.count, shape.size, G, dtype=torch.bool, device=shape.device)], dim=-1)
        itself = F.pad(itself & (rows >= G), (0, G))
    if mask is None:
        return (band | itself)[None]
    inside = columns.clamp(0, T - 1)
    if mask.dim() == 2:
        visible = mask[:, inside]  # (B, blocks, 1, M)
    else:
        visible = mask[:, rows.clamp(max=T - 1), inside]  # (B, blocks, N, M)
    return (band & visible) | itself


def _block_bias(bias: nn.Module, batch: int, shape: Blocks) -> Tensor:
    """(1, H, N, M) where no key is global, else (B * blocks, H, N, M): offsets to global keys differ from block to block."""
    offsets = shape.columns[0] - shape.rows[0]
    if not shape.global_tokens:
        return bias(offsets)[None]
    everywhere = torch.arange(shape.global_tokens, device=shape.device) - shape.rows  # (blocks, N, G)
    return torch.stack([bias(torch.cat([offsets, to_global], dim=-1)) for to_global in everywhere]).repeat(batch, 1, 1, 1)
