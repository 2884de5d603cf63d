"""Multi-head attention, over the whole text or within a window. B sequences, T tokens, D hidden, H heads, K head size."""

import torch
from torch import Tensor, nn

from harness.models.attention.products import Context, Heads, MultiHead, attend, over_heads
from harness.models.attention.windowed import window_pairs, windowed_attention
from harness.models.config import EncoderConfig
from harness.models.norms import make_norm
from harness.models.positions import rotate


class SelfAttention(MultiHead):
    """Scaled dot-product attention of every token over those it may see, with output projection (arXiv:1706.03762)."""

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__(config)
        size, width = config.hidden_size, config.attention_width
        self.window = config.window_of(layer)
        self.causal, self.scale = config.causal, config.product_scale
        self.query_key_value = nn.Linear(size, 3 * width, bias=config.attention_bias)
        self.output = nn.Linear(width, size, bias=config.attention_bias)
        self.query_norm, self.key_norm = (make_norm(config, config.head_width) if config.qk_norm else None for _ in range(2))
        self.global_tokens = config.global_tokens
        self.global_query_key_value = nn.ModuleDict()  # of global tokens; empty where there are none
        if config.global_tokens:
            parts = {"query": width, "key_value": 2 * width}
            self.global_query_key_value.update(
                {name: nn.Linear(size, rows, config.attention_bias) for name, rows in parts.items()}
            )

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        heads, T = self._heads(context, *self._parts(self.query_key_value, hidden, 3)), hidden.shape[1]
        if self.window is None or (self.window // 2 >= T - 1 and not self.global_tokens):
            attended = full_attention(heads)
        else:
            attended = windowed_attention(heads, self.window, self.global_tokens)
        if self.global_tokens:
            attended = torch.cat([self._of_global_tokens(hidden, context), attended[:, :, self.global_tokens :]], dim=2)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _parts(self, projection: nn.Module, hidden: Tensor, count: int) -> tuple[Tensor, ...]:
        """(B, T, D) -> so many of (B, T, H, K)."""
        B, T, _ = hidden.shape
        return projection(hidden).view(B, T, count, self.num_heads, self.head_size).unbind(2)

    def _heads(self, context: Context, query: Tensor, key: Tensor, value: Tensor) -> Heads:
        """(B, G or T, H, K) of the queries, and (B, T, H, K) of keys and values."""
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # each (B, H, T, K)
        rotation = context.global_rotation if self.window is None and context.global_rotation else context.rotation
        if rotation is not None:
            cosines, sines = (part[..., : query.shape[2], :] for part in rotation)
            query, key = rotate(query, (cosines, sines)), rotate(key, rotation)
        return Heads(query, key, value, context.mask, context.bias, self.causal, self.scale, self.dropout)

    def _of_global_tokens(self, hidden: Tensor, context: Context) -> Tensor:
        """(B, H, G, K): the first G tokens see everything, through projections of their own; only theirs are queries."""
        projections = self.global_query_key_value
        query = self._parts(projections["query"], hidden[:, : self.global_tokens], 1)
        heads = self._heads(context, *query, *self._parts(projections["key_value"], hidden, 2))
        if heads.mask is not None and heads.mask.dim() == 3:
            heads.mask = heads.mask[:, : self.global_tokens]
        return full_attention(heads)

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text: projections and products. Norms multiply nothing."""
        projections, width = self.query_key_value.weight.numel() + self.output.weight.numel(), self.output.in_features
        full = self.window is None or (self.window // 2 >= length - 1 and not self.global_tokens)
        pairs = length * length if full or self.window is None else window_pairs(self.window, length, self.global_tokens)
        products = 2 * 2 * pairs * width
        if self.global_tokens:
            seeing = min(self.global_tokens, length)
            products += 2 * (seeing + 2 * length) * self.output.weight.numel()
            products += 2 * 2 * seeing * length * width
        return 2 * length * projections + products


def full_attention(heads: Heads) -> Tensor:
    """Each (B, H, T, K) -> (B, H, T, K). No mask at all is passed on as None: an all-true one can rule out the fast kernel."""
    N, M = heads.query.shape[2], heads.key.shape[2]
    mask = over_heads(heads.mask)
    if not heads.causal and heads.bias is None:
        return attend(heads, mask, None)
    places = torch.arange(max(N, M), device=heads.query.device)
    offsets = places[None, :M] - places[:N, None]
    if heads.causal:
        past = offsets <= 0
        mask = past if mask is None else mask & past
    return attend(heads, mask, None if heads.bias is None else heads.bias(offsets))
