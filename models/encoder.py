"""Token ids in, one vector per token out. B sequences, T tokens, E embedding size, D hidden."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.attention import Context
from models.batch import Batch
from models.config import Body, EncoderConfig, Init, NormPlace, Position, Sharing
from models.disentangled import RelativePositions
from models.dropout import Dropout
from models.layers import AttentionBlock, FeedForwardBlock, make_norm
from models.positions import BIASES, rotation, sinusoids
from models.relative import relative_context

INTO_RESIDUAL = ("attention.output.weight", "feed_forward.output.weight")
"""Endings of the names of matrices whose product a block adds to its input."""

EMBEDDINGS = ("token_embedding.weight", "position_embedding.weight", "type_embedding.weight")
"""Endings of the names of tables that are looked up by piece, position and type."""


class Embeddings(nn.Module):
    """Sum of token, position and type vectors, normed; projected when they are smaller than the hidden size."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.offset, self.longest = config.position_offset, config.max_position_embeddings - config.position_offset
        self.scale = width**0.5 if config.embedding_scale else 1.0
        self.sinusoidal = config.position is Position.sinusoidal
        self.token_embedding = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        learned = config.position is Position.learned
        self.position_embedding = nn.Embedding(config.max_position_embeddings, width) if learned else None
        queried = config.position is Position.relative  # the query of permutation training (arXiv:1906.08237)
        self.mask_embedding = nn.Parameter(torch.zeros(width)) if queried else None
        self.type_embedding = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = make_norm(config, width) if config.embedding_norm else None
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.projection = nn.Linear(width, config.hidden_size) if width != config.hidden_size else None

    def forward(self, batch: Batch) -> Tensor:
        """Batch with (B, T) ids -> (B, T, D); ValueError for a text longer than the position table."""
        embedded = self.token_embedding(batch.input_ids) * self.scale  # (B, T, E)
        if batch.queries is not None:
            embedded = torch.where(batch.queries[..., None], self.mask_embedding, embedded)
        positions = self._positions(batch)
        embedded = embedded if positions is None else embedded + positions
        if self.type_embedding is not None:
            alone = batch.token_type_ids is None or self.type_embedding.num_embeddings == 1  # RoBERTa's one type is for all
            types = torch.zeros_like(batch.input_ids) if alone else batch.token_type_ids
            embedded = embedded + self.type_embedding(types)
        embedded = self.dropout(embedded if self.norm is None else self.norm(embedded))
        return embedded if self.projection is None else self.projection(embedded)

    def _positions(self, batch: Batch) -> Tensor | None:
        """(T, E) or (B, T, E)."""
        T = batch.input_ids.shape[1]
        if self.position_embedding is not None:
            if batch.position_ids is None:
                if self.longest < T:
                    raise ValueError(f"{T} tokens are more than model.max_position_embeddings={self.longest} holds")
                return self.position_embedding.weight[self.offset : self.offset + T]
            return self.position_embedding(batch.position_ids + self.offset)
        if self.sinusoidal:
            width, device = self.token_embedding.embedding_dim, batch.input_ids.device
            longest = T if batch.position_ids is None else self.longest
            table = sinusoids(longest, width, device)
            return table if batch.position_ids is None else table[batch.position_ids]
        return None

    def flops(self, length: int) -> int:
        """Of one forward pass over one text: the projection alone multiplies."""
        return 0 if self.projection is None else 2 * length * self.projection.weight.numel()


class Stack(nn.Module):
    """Layers in their order of execution: sharing runs fewer modules more often (arXiv:1909.11942)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        attentions = config.depth if config.sharing is Sharing.feed_forward else config.groups
        feed_forwards = config.depth if config.sharing is Sharing.attention else config.groups
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
        depth = self.config.depth
        attentions = [self.attentions[layer * len(self.attentions) // depth] for layer in range(depth)]
        feed_forwards = [self.feed_forwards[layer * len(self.feed_forwards) // depth] for layer in range(depth)]
        return list(zip(attentions, feed_forwards, strict=True))

    def context(self, batch: Batch) -> Context:
        """What every attention of one forward pass is told."""
        if self.config.position is Position.relative:
            return relative_context(batch, self.config.hidden_size)
        context = Context(mask=batch.attention_mask, bias=self.bias, token_types=batch.token_type_ids)
        if self.relative is not None:
            context.relative, context.relative_rows = self.relative(batch.input_ids.shape[1])
        if self.config.position is Position.rotary:
            config = self.config
            places = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
            places = places if batch.position_ids is None else batch.position_ids
            context.rotation = rotation(places, config.head_width, config.rotary_theta)
            if config.rotary_global_theta is not None:
                context.global_rotation = rotation(places, config.head_width, config.rotary_global_theta)
        return context

    def flops(self, length: int) -> int:
        """Of one forward pass over one text."""
        order = self.execution_order()
        return sum(block.attention.flops(length) + other.feed_forward.flops(length) for block, other in order)


def one_layer(blocks: tuple[AttentionBlock, FeedForwardBlock], context: Context, hidden: Tensor) -> Tensor:
    """(B, T, D) -> (B, T, D)."""
    attention, feed_forward = blocks
    return feed_forward(attention(hidden, context))


def set_activation_checkpointing(model: nn.Module, wanted: bool) -> None:
    """For every stack of layers in the model; ValueError where it is wanted and there is none."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if wanted and not stacks:
        raise ValueError("activation_checkpointing=true needs layers to compute again: model.body has no stack of them")
    for stack in stacks:
        stack.activation_checkpointing = wanted


def make_body(config: EncoderConfig) -> nn.Module:
    """What stands between embeddings and heads; all bodies have the interface of Stack."""
    from models.decoder import EncoderDecoder  # is made of this module's Stack
    from models.recurrent import Recurrent, Static

    bodies = {Body.transformer: Stack, Body.encoder_decoder: EncoderDecoder, Body.lstm: Recurrent, Body.static: Static}
    return bodies[config.body](config)


class Encoder(nn.Module):
    """Embeddings and what stands on them."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = make_body(config)

    def forward(self, batch: Batch) -> Tensor:
        """Batch with (B, T) ids -> (B, T, D)."""
        hidden = self.embeddings(batch)
        for state in self.layers(hidden, batch):
            hidden = state
        return hidden

    def hidden_states(self, batch: Batch) -> list[Tensor]:
        """The embeddings and the output of every layer, each (B, T, D)."""
        return list(self.layers(self.embeddings(batch), batch))

    def flops(self, length: int) -> int:
        """Of one forward pass over one text of `length` tokens, by the shapes of all matrix products."""
        return self.embeddings.flops(length) + self.layers.flops(length)


@torch.no_grad()
def initialise(model: nn.Module, initializer_range: float, seed: int, init: Init = Init.flat, depth: int = 1) -> None:
    """Normal weights of standard deviation `initializer_range`, but for what `init` says, zero biases and unit norms, as BERT.

    `depth` is the number of layers of a stack.
    Every parameter draws from its own stream, keyed by seed and name: two variants of one seed start from the same values
    wherever they have the same tensor. Rows that stand for padding are zero.
    """
    kinds = (nn.LayerNorm, nn.RMSNorm)
    norms = {id(p) for module in model.modules() if isinstance(module, kinds) for p in module.parameters()}
    for name, parameter in model.named_parameters():
        if name.rpartition(".")[2].startswith("bias"):
            parameter.zero_()
        elif id(parameter) in norms:
            parameter.fill_(1.0)
        else:
            digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
            deviation = _deviation(name, parameter, initializer_range, init, depth)
            values = torch.normal(0.0, deviation, parameter.shape, generator=generator)
            parameter.copy_(values)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()


def _deviation(name: str, parameter: nn.Parameter, initializer_range: float, init: Init, depth: int) -> float:
    """Of the initial values of a matrix, by the place that its name says."""
    if init is Init.scaled_by_depth and name.endswith(INTO_RESIDUAL):
        return initializer_range / (2 * depth) ** 0.5
    if init is Init.small_embeddings and name.endswith(EMBEDDINGS):
        return (2 / (5 * parameter.shape[-1])) ** 0.5
    return initializer_range
