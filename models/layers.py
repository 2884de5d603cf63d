"""The two blocks of a layer, and its feed-forward. B sequences, T tokens, D hidden."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import make_attention
from models.attention.products import Context
from models.config import Activation, EncoderConfig, NormPlace
from models.describe import Part, parameters_of
from models.dropout import Dropout
from models.norms import make_norm, norm_parts

ACTIVATIONS = {
    Activation.gelu: F.gelu,
    Activation.gelu_tanh: partial(F.gelu, approximate="tanh"),
    Activation.relu: F.relu,
    Activation.relu2: lambda x: F.relu(x).square(),
    Activation.silu: F.silu,
    Activation.tanh: torch.tanh,
}


class FeedForward(nn.Module):
    """Two matrices around a non-linearity, or three with a gate: act(x W) * x V (GLU variants, arXiv:2002.05202)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.gated = config.gated_feed_forward
        self.hidden_act, self.activation = config.hidden_act, ACTIVATIONS[config.hidden_act]
        size, width, bias = config.hidden_size, config.feed_forward_width, config.feed_forward_bias
        self.input = nn.Linear(size, 2 * width if self.gated else width, bias=bias)
        self.output = nn.Linear(width, size, bias=bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        inner = self.input(hidden)
        if not self.gated:
            return self.output(self.activation(inner))
        gate, linear = inner.chunk(2, dim=-1)
        return self.output(self.activation(gate) * linear)

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text."""
        return 2 * length * (self.input.weight.numel() + self.output.weight.numel())

    def part(self) -> Part:
        """With its widths."""
        size, width = self.input.in_features, self.output.in_features
        detail = f"{size:,} → {'2 × ' if self.gated else ''}{width:,} → {size:,}, {self.hidden_act.value}"
        return Part("Gated feed-forward" if self.gated else "Feed-forward", "feed_forward", detail, parameters_of(self))


def residual_parts(block: nn.Module, main: Part) -> tuple[Part, ...]:
    """Drawn parts of a block around `main`, from the bottom up."""
    norm = norm_parts(block.norm)
    if block.pre_norm:
        return (*norm, main, Part("Add", "norm", residual=2 + len(norm)))
    return (main, *(replace(part, title=f"Add, {part.title}", residual=2) for part in norm))


class AttentionBlock(nn.Module):
    """Attention with dropout, residual and norm: after the sum (arXiv:1706.03762) or before it (arXiv:2002.04745)."""

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__()
        self.hidden_size, self.pre_norm = config.hidden_size, config.norm_place is NormPlace.pre
        self.attention = make_attention(config, layer)
        self.norm = make_norm(config, config.hidden_size) if layer or config.norms_first_layer else nn.Identity()
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, context: Context, query: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); with `query`, (B, T, D), that attends to `hidden` in its place, where attention takes one."""
        if query is not None:
            return self._of_query(hidden, context, query)
        if self.pre_norm:
            return hidden + self.dropout(self.attention(self.norm(hidden), context))
        return self.norm(hidden + self.dropout(self.attention(hidden, context)))

    def _of_query(self, hidden: Tensor, context: Context, query: Tensor) -> Tensor:
        if self.pre_norm:
            return query + self.dropout(self.attention(self.norm(hidden), context, self.norm(query)))
        return self.norm(query + self.dropout(self.attention(hidden, context, query)))

    def parts(self) -> tuple[Part, ...]:
        """From the bottom up."""
        return residual_parts(self, self.attention.part())


class FeedForwardBlock(nn.Module):
    """Feed-forward with dropout, residual and norm, as in AttentionBlock."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.hidden_size, self.pre_norm = config.hidden_size, config.norm_place is NormPlace.pre
        self.feed_forward = FeedForward(config)
        self.norm = make_norm(config, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        if self.pre_norm:
            return hidden + self.dropout(self.feed_forward(self.norm(hidden)))
        return self.norm(hidden + self.dropout(self.feed_forward(hidden)))

    def parts(self) -> tuple[Part, ...]:
        """From the bottom up."""
        return residual_parts(self, self.feed_forward.part())
