"""The layers of a transformer in their order of execution. B sequences, T tokens, D hidden."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harness.models.attention.disentangled import Distances, RelativePositions
from harness.models.attention.products import Context
from harness.models.attention.relative import relative_context
from harness.models.batch import Batch
from harness.models.config import EncoderConfig, NormPlace, Position, Sharing
from harness.models.layers import AttentionBlock, FeedForwardBlock
from harness.models.norms import make_norm
from harness.models.positions import BIASES, rotation


class Stack(nn.Module):
    """Layers in their order of execution: sharing runs fewer modules more often (arXiv:1909.11942)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        sharing = None if config.num_hidden_groups is None else config.sharing
        attentions = config.depth if sharing is Sharing.feed_forward else config.groups
        feed_forwards = config.depth if sharing is Sharing.attention else config.groups
        self.attentions = nn.ModuleList(AttentionBlock(config, layer) for layer in range(attentions))
        self.feed_forwards = nn.ModuleList(FeedForwardBlock(config) for _ in range(feed_forwards))
        self.bias = BIASES[config.position](config) if config.position in BIASES else None
        self.relative = RelativePositions(config) if config.position is Position.disentangled else None
        self.norm = make_norm(config, config.hidden_size) if config.norm_place is NormPlace.pre else None
        self.activation_checkpointing = False

    def forward(self, hidden: Tensor, batch: Batch) -> Iterator[Tensor]:
        """(B, T, D) -> the hidden states before the first and after every layer, each (B, T, D); the last one is normed.

        One after the other, so that inference need not hold them all.
        """
        context, order = self.context(batch), self.execution_order()
        yield hidden
        for layer, blocks in enumerate(order, 1):
            hidden = self.through(partial(one_layer, blocks, context), hidden)
            yield self.norm(hidden) if self.norm is not None and layer == len(order) else hidden

    def through(self, layer: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D); with activation checkpointing only the input is kept for the backward pass.

        All else is computed a second time then, with the same random draws (arXiv:1604.06174).
        """
        recomputed = self.activation_checkpointing and torch.is_grad_enabled()
        return checkpoint(layer, hidden, use_reentrant=False) if recomputed else layer(hidden)

    def execution_order(self) -> list[tuple[AttentionBlock, FeedForwardBlock]]:
        """The modules that each of the layers runs."""
        return [(self._of(self.attentions, layer), self._of(self.feed_forwards, layer)) for layer in range(self.config.depth)]

    def _of(self, blocks: nn.ModuleList, layer: int) -> Any:
        """One for each layer, or one for each group of layers."""
        return blocks[layer if len(blocks) == self.config.depth else self.config.group_of(layer)]

    def context(self, batch: Batch) -> Context:
        """Inputs of attention besides the hidden states, shared by all layers of a forward pass."""
        config = self.config
        if config.position is Position.relative:
            return relative_context(batch, config)
        if self.relative is not None:
            vectors, rows = self.relative(batch.input_ids.shape[1])
            return Distances(mask=batch.attention_mask, relative=vectors, relative_rows=rows)
        context = Context(mask=batch.attention_mask, bias=self.bias)
        if config.position is Position.rotary:
            places = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
            places = places if batch.position_ids is None else batch.position_ids
            context.rotation = rotation(places, config.head_width, config.rotary_theta)
            if config.rotary_global_theta is not None:
                context.global_rotation = rotation(places, config.head_width, config.rotary_global_theta)
        return context

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text."""
        return sum(block.attention.flops(length) + other.feed_forward.flops(length) for block, other in self.execution_order())


def one_layer(blocks: tuple[AttentionBlock, FeedForwardBlock], context: Context, hidden: Tensor) -> Tensor:
    """(B, T, D) -> (B, T, D)."""
    attention, feed_forward = blocks
    return feed_forward(attention(hidden, context))
