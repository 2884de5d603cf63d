"""The two blocks of a layer, and its feed-forward. B sequences, T tokens, D hidden."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.attention import Attention, make_attention
from harness.models.attention.products import Context
from harness.models.config import Activation, EncoderConfig, NormPlace, class_of
from harness.models.norms import Dropout, make_norm

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
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


class Block(nn.Module):
    """What a layer computes in one step, with dropout, residual and norm: after the sum (arXiv:1706.03762) or before the step
    (arXiv:2002.04745). Abstract."""

    def __init__(self, config: EncoderConfig, name: str, step: nn.Module, normed: bool = True) -> None:
        super().__init__()
        self.name, self.pre_norm = name, config.norm_place is NormPlace.pre
        self.add_module(name, step)
        self.norm = make_norm(config, config.hidden_size) if normed else nn.Identity()
        self.dropout = Dropout(config.hidden_dropout_prob)

    def read(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> what the step reads, (B, T, D)."""
        return self.norm(hidden) if self.pre_norm else hidden

    def added(self, hidden: Tensor, step: Tensor) -> Tensor:
        """The residual and what the step gives, both (B, T, D) -> (B, T, D)."""
        total = hidden + self.dropout(step)
        return total if self.pre_norm else self.norm(total)


class AttentionBlock(Block):
    """Attention of a layer."""

    attention: Attention

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__(config, "attention", make_attention(config, layer), bool(layer) or config.norms_first_layer)

    def forward(self, hidden: Tensor, context: Context, query: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); with `query`, (B, T, D), that attends to `hidden` in its place, where attention takes one."""
        read = self.read(hidden)
        if query is None:
            return self.added(hidden, self.attention(read, context))
        return self.added(query, self.attention(read, context, self.read(query)))


class FeedForwardBlock(Block):
    """Feed-forward of a layer."""

    feed_forward: FeedForward

    def __init__(self, config: EncoderConfig) -> None:
        make = FeedForward if config.feed_forward is None else class_of("feed_forward", config.feed_forward)
        super().__init__(config, "feed_forward", make(config))

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.added(hidden, self.feed_forward(self.read(hidden)))
