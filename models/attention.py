"""Multi-head attention, full or within a window. B sequences, T tokens, D hidden, H heads, K head size.

Windowed attention is blocked (arXiv:2004.05150, section 3.1): the queries of a block of N tokens see the M = N + window keys
around it, band-masked, so that cost and memory grow with T and not with its square. A band mask on full attention would
save nothing.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import EncoderConfig
from models.dropout import dropout as drop

MINIMUM_BLOCK = 16
"""Queries in a block at least, however small the window: below it the fixed cost of a block outweighs the saved products."""


class SelfAttention(nn.Module):
    """Scaled dot-product attention of every token over those it may see, with output projection (arXiv:1706.03762)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads, self.head_size = config.num_attention_heads, config.head_size
        self.window = config.attention_window
        self.dropout = config.attention_probs_dropout_prob
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D), (B, T) or (B, T, T) bool or None -> (B, T, D)."""
        B, T, D = hidden.shape
        heads = self.query_key_value(hidden).view(B, T, 3, self.num_heads, self.head_size)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        dropout = self.dropout if self.training else 0.0
        if self.window is None or self.window // 2 >= T - 1:
            context = full_attention(query, key, value, mask, dropout)
        else:
            context = windowed_attention(query, key, value, mask, self.window, dropout)
        return self.output(context.transpose(1, 2).reshape(B, T, D))


def full_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Each (B, H, T, K) -> (B, H, T, K). No mask at all is passed on as None: an all-true one can rule out the fast kernel."""
    if mask is not None:
        mask = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]  # (B, 1, 1 or T, T)
    return attend(query, key, value, mask, dropout)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """(..., N, K) queries over (..., M, K) keys; torch has no fused kernel with dropout on CPU, so that case is spelt out."""
    if dropout == 0 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)  # (..., N, M)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return drop(scores.softmax(dim=-1).to(value.dtype), dropout) @ value


def windowed_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, window: int, dropout: float) -> Tensor:
    """Each (B, H, T, K) -> (B, H, T, K); token i sees tokens i - window/2 to i + window/2 that the mask allows.

    A padded token always sees itself, so that a row with nothing to see stays finite; its output means nothing.
    """
    B, H, T, K = query.shape
    side, block = window // 2, max(window, MINIMUM_BLOCK)
    if block + 2 * side >= T:  # the keys around one block are the whole text
        return full_attention(
            query, key, value, _block_mask(mask, T, side, T, 1, query.device)[:, 0, :, side : side + T], dropout
        )
    blocks = -(-T // block)
    tail = blocks * block - T
    query = F.pad(query, (0, 0, 0, tail)).view(B, H, blocks, block, K)
    key, value = (_around_blocks(x, side, block, blocks) for x in (key, value))  # (B, H, blocks, M, K)
    allowed = _block_mask(mask, T, side, block, blocks, query.device)  # (B or 1, blocks, N, M)
    query, key, value = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))  # (B * blocks, H, N or M, K)
    allowed = allowed.expand(B, -1, -1, -1).flatten(0, 1)[:, None]  # (B * blocks, 1, N, M)
    context = attend(query, key, value, allowed, dropout)
    context = context.view(B, blocks, H, block, K).transpose(1, 2).reshape(B, H, blocks * block, K)
    return context[:, :, :T]


def _around_blocks(x: Tensor, side: int, block: int, blocks: int) -> Tensor:
    """(B, H, T, K) -> (B, H, blocks, block + 2 * side, K): for each block its own tokens and `side` more at both ends.

    Two views of the same padded tensor, the second one block later, so that the backward pass stays linear in T too.
    """
    B, H, T, K = x.shape
    x = F.pad(x, (0, 0, side, (blocks + 1) * block - T - side)).view(B, H, blocks + 1, block, K)
    return torch.cat([x[:, :, :-1], x[:, :, 1:, : 2 * side]], dim=3)


def _block_mask(mask: Tensor | None, T: int, side: int, block: int, blocks: int, device: torch.device) -> Tensor:
    """(B or 1, blocks, N, M) bool: within the window, within the text, and allowed by the mask."""
    rows = torch.arange(blocks * block, device=device).view(blocks, block, 1)
    columns = torch.arange(block + 2 * side, device=device) + torch.arange(blocks, device=device)[:, None, None] * block - side
    itself = rows == columns
    band = ((rows - columns).abs() <= side) & (columns >= 0) & (columns < T)  # (blocks, N, M)
    if mask is None:
        return (band | itself)[None]
    inside = columns.clamp(0, T - 1)
    if mask.dim() == 2:
        seen = mask[:, inside]  # (B, blocks, 1, M)
    else:
        seen = mask[:, rows.clamp(max=T - 1), inside]  # (B, blocks, N, M)
    return (band & seen) | itself
