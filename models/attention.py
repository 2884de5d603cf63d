"""Multi-head attention, full or within a window. B sequences, T tokens, D hidden, H heads, K head size.

Windowed attention is blocked (arXiv:2004.05150, section 3.1): the queries of a block of N tokens see the M = N + window keys
around it, band-masked, so that cost and memory grow with T and not with its square. A band mask on full attention would
save nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import EncoderConfig
from models.dropout import dropout as drop
from models.positions import rotate

MINIMUM_BLOCK = 16
"""Queries in a block at least, however small the window: below it the fixed cost of a block outweighs the saved products."""


@dataclass
class Context:
    """What attention is told beside the hidden states, the same for all layers of one forward pass."""

    mask: Tensor | None = None  # (B, T) bool, True for real tokens, or (B, T, T), True where row may see column
    rotation: tuple[Tensor, Tensor] | None = None  # cosines and sines, for layers with a window or for all
    global_rotation: tuple[Tensor, Tensor] | None = None  # for layers that see everything, where they differ
    bias: nn.Module | None = None  # (N, M) offsets -> (H, N, M)
    relative: Tensor | None = None  # vectors of relative positions, of the attention that uses them
    relative_rows: Tensor | None = None  # (T, T), which of them stands between query and key, where it is not their order
    positions: Tensor | None = None  # (B, T, M) which of `relative` lies between row and column, where order does not say
    memory: Tensor | None = None  # (B, P, D) states of the text before, seen too by relative attention
    token_types: Tensor | None = None  # (B, T)


@dataclass
class Heads:
    """Queries, keys and values of one layer, each (B, H, T, K), and how they meet."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    bias: nn.Module | None = None
    causal: bool = False
    scale: float | None = None  # None: one over the root of K
    dropout: float = 0.0


class SelfAttention(nn.Module):
    """Scaled dot-product attention of every token over those it may see, with output projection (arXiv:1706.03762)."""

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__()
        size, width = config.hidden_size, config.attention_width
        self.num_heads, self.head_size = config.num_attention_heads, config.head_width
        self.window = config.window_of(layer)
        self.causal, self.scale = config.causal, None if config.attention_scale else 1.0
        self.dropout = config.attention_probs_dropout_prob
        self.query_key_value = nn.Linear(size, 3 * width, bias=config.attention_bias)
        self.output = nn.Linear(width, size, bias=config.attention_bias)
        self.global_tokens = config.global_tokens
        self.global_query_key_value = nn.Linear(size, 3 * width, bias=config.attention_bias) if config.global_tokens else None

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        heads, T = self._heads(self.query_key_value, hidden, context), hidden.shape[1]
        if self.window is None or (self.window // 2 >= T - 1 and not self.global_tokens):
            seen = full_attention(heads)
        else:
            seen = windowed_attention(heads, self.window, self.global_tokens)
        if self.global_query_key_value is not None:
            seen = torch.cat([self._seen_by_global(hidden, context), seen[:, :, self.global_tokens :]], dim=2)
        return self.output(seen.transpose(1, 2).flatten(2))

    def _heads(self, projection: nn.Linear, hidden: Tensor, context: Context) -> Heads:
        B, T, _ = hidden.shape
        split = projection(hidden).view(B, T, 3, self.num_heads, self.head_size)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        turned = context.global_rotation if self.window is None and context.global_rotation else context.rotation
        if turned is not None:
            query, key = rotate(query, turned), rotate(key, turned)
        dropout = self.dropout if self.training else 0.0
        return Heads(query, key, value, context.mask, context.bias, self.causal, self.scale, dropout)

    def _seen_by_global(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, H, G, K): the first G tokens see everything, through projections of their own."""
        heads = self._heads(self.global_query_key_value, hidden, context)
        heads.query = heads.query[:, :, : self.global_tokens]
        if heads.mask is not None and heads.mask.dim() == 3:
            heads.mask = heads.mask[:, : self.global_tokens]
        return full_attention(heads)

    def flops(self, length: int) -> int:
        """Of one forward pass over one text: projections and products."""
        projections, width = self.query_key_value.weight.numel() + self.output.weight.numel(), self.output.in_features
        full = self.window is None or (self.window // 2 >= length - 1 and not self.global_tokens)
        pairs = length * length if full else window_pairs(self.window, length, self.global_tokens)
        products = 2 * 2 * pairs * width
        if self.global_tokens:
            seeing = min(self.global_tokens, length)
            products += 2 * length * self.global_query_key_value.weight.numel() + 2 * 2 * seeing * length * width
        return 2 * length * projections + products


def full_attention(heads: Heads) -> Tensor:
    """Each (B, H, T, K) -> (B, H, T, K). No mask at all is passed on as None: an all-true one can rule out the fast kernel."""
    N, M = heads.query.shape[2], heads.key.shape[2]
    mask = heads.mask
    if mask is not None:
        mask = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]  # (B, 1, 1 or N, M)
    if heads.causal or heads.bias is not None:
        places = torch.arange(max(N, M), device=heads.query.device)
        offsets = places[None, :M] - places[:N, None]
        mask = _and(mask, offsets <= 0) if heads.causal else mask
        return attend(heads, mask, None if heads.bias is None else heads.bias(offsets))
    return attend(heads, mask, None)


def _and(mask: Tensor | None, other: Tensor) -> Tensor:
    return other if mask is None else mask & other


def attend(heads: Heads, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """(..., N, K) queries over (..., M, K) keys; torch has no fused kernel with dropout on CPU, so that case is spelt out."""
    query, key, value = heads.query, heads.key, heads.value
    if heads.dropout == 0 or query.device.type != "cpu":
        combined = mask if bias is None else _masked(bias.to(query.dtype), mask)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=combined, dropout_p=heads.dropout, scale=heads.scale)
    scale = query.shape[-1] ** -0.5 if heads.scale is None else heads.scale
    scores = (query * scale) @ key.transpose(-1, -2)  # (..., N, M)
    scores = _masked(scores if bias is None else scores + bias, mask)
    return drop(scores.softmax(dim=-1).to(value.dtype), heads.dropout) @ value


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else torch.where(mask, scores, float("-inf"))


def window_pairs(window: int, length: int, global_tokens: int = 0) -> int:
    """Query-key pairs that windowed attention computes over one text."""
    block = max(window, MINIMUM_BLOCK)
    if length <= block + window:
        return length * length
    return -(-length // block) * block * (block + window + global_tokens)


def windowed_attention(heads: Heads, window: int, global_tokens: int = 0) -> Tensor:
    """Each (B, H, T, K) -> (B, H, T, K); token i sees tokens i - window/2 to i + window/2 that the mask allows.

    The first `global_tokens` tokens are seen by all. A padded token always sees itself, so that a row with nothing to see
    stays finite; its output means nothing.
    """
    B, H, T, K = heads.query.shape
    shape = Blocks(T, window // 2, max(window, MINIMUM_BLOCK), global_tokens, heads.causal)
    if shape.size + window >= T:  # the keys around one block are the whole text
        return _within_one_block(heads, shape)
    blocks, device = shape.count, heads.query.device
    query = F.pad(heads.query, (0, 0, 0, blocks * shape.size - T)).view(B, H, blocks, shape.size, K)
    key, value = (_around_blocks(x, shape) for x in (heads.key, heads.value))  # (B, H, blocks, M, K)
    allowed = _block_mask(heads.mask, shape, device).expand(B, -1, -1, -1).flatten(0, 1)[:, None]  # (B * blocks, 1, N, M)
    query, key, value = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))  # (B * blocks, H, N or M, K)
    bias = None if heads.bias is None else _block_bias(heads.bias, B, shape, device)
    seen = attend(Heads(query, key, value, None, scale=heads.scale, dropout=heads.dropout), allowed, bias)
    seen = seen.view(B, blocks, H, shape.size, K).transpose(1, 2).reshape(B, H, blocks * shape.size, K)
    return seen[:, :, :T]


@dataclass
class Blocks:
    """How T tokens are cut: blocks of `size` queries that see `side` more keys at both ends, and the global ones."""

    length: int
    side: int
    size: int
    global_tokens: int
    causal: bool

    @property
    def count(self) -> int:
        """Blocks that cover the text."""
        return -(-self.length // self.size)

    def rows(self, device: torch.device) -> Tensor:
        """(blocks, N, 1): place of each query."""
        return torch.arange(self.count * self.size, device=device).view(self.count, self.size, 1)

    def columns(self, device: torch.device) -> Tensor:
        """(blocks, 1, M): place of each key around a block, global ones left out."""
        first = torch.arange(self.count, device=device)[:, None, None] * self.size - self.side
        return torch.arange(self.size + 2 * self.side, device=device) + first


def _within_one_block(heads: Heads, shape: Blocks) -> Tensor:
    places = torch.arange(shape.length, device=heads.query.device)
    offsets = places[None, :] - places[:, None]
    band = (offsets.abs() <= shape.side) | (places < shape.global_tokens)
    band = band & (offsets <= 0) if shape.causal else band
    mask = heads.mask
    if mask is not None:
        mask = mask[:, None, None, :] if mask.dim() == 2 else mask[:, None]
        band = (band & mask) | (offsets == 0)
    return attend(heads, band, None if heads.bias is None else heads.bias(offsets))


def _around_blocks(x: Tensor, shape: Blocks) -> Tensor:
    """(B, H, T, K) -> (B, H, blocks, M, K): for each block its own tokens, `side` more at both ends, and the global ones.

    Two views of the same padded tensor, the second one block later, so that the backward pass stays linear in T too.
    """
    B, H, T, K = x.shape
    padded = F.pad(x, (0, 0, shape.side, (shape.count + 1) * shape.size - T - shape.side))
    padded = padded.view(B, H, shape.count + 1, shape.size, K)
    parts = [padded[:, :, :-1], padded[:, :, 1:, : 2 * shape.side]]
    if shape.global_tokens:
        parts.append(x[:, :, None, : shape.global_tokens].expand(-1, -1, shape.count, -1, -1))
    return torch.cat(parts, dim=3)


def _block_mask(mask: Tensor | None, shape: Blocks, device: torch.device) -> Tensor:
    """(B or 1, blocks, N, M) bool: within the window, within the text, and allowed by the mask; global keys come last."""
    rows, columns, T, G = shape.rows(device), shape.columns(device), shape.length, shape.global_tokens
    itself = rows == columns
    band = ((rows - columns).abs() <= shape.side) & (columns >= G) & (columns < T)
    band = band & (columns <= rows) if shape.causal else band
    if G:
        everywhere = torch.arange(G, device=device).expand(shape.count, 1, G)
        columns = torch.cat([columns, everywhere], dim=-1)
        band = torch.cat([band, torch.ones(shape.count, shape.size, G, dtype=torch.bool, device=device)], dim=-1)
        itself = F.pad(itself & (rows >= G), (0, G))
    if mask is None:
        return (band | itself)[None]
    inside = columns.clamp(0, T - 1)
    if mask.dim() == 2:
        seen = mask[:, inside]  # (B, blocks, 1, M)
    else:
        seen = mask[:, rows.clamp(max=T - 1), inside]  # (B, blocks, N, M)
    return (band & seen) | itself


def _block_bias(bias: nn.Module, batch: int, shape: Blocks, device: torch.device) -> Tensor:
    """(1, H, N, M) where no key is global, else (B * blocks, H, N, M): offsets to global keys differ from block to block."""
    offsets = shape.columns(device)[0] - shape.rows(device)[0]
    if not shape.global_tokens:
        return bias(offsets)[None]
    everywhere = torch.arange(shape.global_tokens, device=device) - shape.rows(device)  # (blocks, N, G)
    each = [bias(torch.cat([offsets, to_global], dim=-1)) for to_global in everywhere]
    return torch.stack(each).repeat(batch, 1, 1, 1)
