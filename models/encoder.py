"""Token ids in, one vector per token out. B sequences, T tokens, E embedding size, D hidden."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.models.batch import Batch, as_batch
from harness.models.config import Body, EncoderConfig, Init, Position, class_of
from harness.models.decoder import EncoderDecoder
from harness.models.norms import Dropout, make_norm
from harness.models.positions import sinusoids
from harness.models.recurrent import Recurrent, Static
from harness.models.stack import Stack

INTO_RESIDUAL = ("attention.output.weight", "feed_forward.output.weight")
"""Suffixes of the names of matrices whose product a block adds to its input."""

EMBEDDINGS = ("token_embedding.weight", "position_embedding.weight", "type_embedding.weight")
"""Suffixes of the names of embedding tables for pieces, positions and types."""


class Embeddings(nn.Module):
    """Sum of token, position and type vectors, normed; projected when they are smaller than the hidden size."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.offset, self.longest = config.position_offset, config.longest_text
        self.scale = config.token_scale
        self.sinusoidal = config.position is Position.sinusoidal
        self.token_embedding = nn.Embedding(config.vocab_size, width)  # a padding row is learnt where its piece is read, too
        self.padding_row = config.pad_token_id
        self.pads_alone = config.body is not Body.encoder_decoder  # a decoder starts with it
        learned = config.position is Position.learned
        self.position_embedding = nn.Embedding(config.max_position_embeddings, width) if learned else None
        queried = config.position is Position.relative and not config.causal  # of permutation training (arXiv:1906.08237)
        self.mask_embedding = nn.Parameter(torch.zeros(width)) if queried else None
        self.type_embedding = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = make_norm(config, width) if config.embedding_norm else None
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.projection = nn.Linear(width, config.hidden_size) if width != config.hidden_size else None

    def forward(self, batch: Batch) -> Tensor:
        """Batch with (B, T) ids -> (B, T, D); ValueError for a text longer than the position table."""
        embedded = self.token_embedding(batch.input_ids) * self.scale  # (B, T, E)
        if batch.queries is not None and self.mask_embedding is not None:
            embedded = torch.where(batch.queries[..., None], self.mask_embedding, embedded)
        positions = self._positions(batch)
        embedded = embedded if positions is None else embedded + positions
        if self.type_embedding is not None:
            alone = batch.token_type_ids is None or self.type_embedding.num_embeddings == 1  # RoBERTa's one type is for all
            embedded = embedded + self.type_embedding(torch.zeros_like(batch.input_ids) if alone else batch.token_type_ids)
        embedded = self.dropout(embedded if self.norm is None else self.norm(embedded))
        return embedded if self.projection is None else self.projection(embedded)

    def _positions(self, batch: Batch) -> Tensor | None:
        """(T, E) or (B, T, E)."""
        if self.position_embedding is not None:
            return looked_up(self.position_embedding, batch, self.offset)
        if not self.sinusoidal:
            return None
        width, device = self.token_embedding.embedding_dim, batch.input_ids.device
        if batch.position_ids is None:
            return sinusoids(batch.input_ids.shape[1], width, device)
        return sinusoids(self.longest, width, device)[batch.position_ids]

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text: the projection alone multiplies."""
        return 0 if self.projection is None else 2 * length * self.projection.weight.numel()


def looked_up(table: nn.Embedding, batch: Batch, offset: int = 0) -> Tensor:
    """(T, E) or (B, T, E) rows of a table of positions that begins at `offset`; ValueError for a text longer than it."""
    T, longest = batch.input_ids.shape[1], table.num_embeddings - offset
    if batch.position_ids is not None:
        return table(batch.position_ids + offset)
    if longest < T:
        raise ValueError(f"{T} tokens exceed model.max_position_embeddings={longest}")
    return table.weight[offset : offset + T]


Layers = Stack | EncoderDecoder | Recurrent | Static
BODIES: dict[Body, type[Layers]] = {
    Body.transformer: Stack,
    Body.encoder_decoder: EncoderDecoder,
    Body.lstm: Recurrent,
    Body.static: Static,
}
"""Classes of the layers between embeddings and heads, with the interface of Stack."""


class Encoder(nn.Module):
    """Embeddings and layers."""

    runs_on_meta = True  # which every operator must have shapes for
    is_foreign: ClassVar[bool] = False  # a class of another package, which gives its parameters their first values itself

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        make = BODIES[config.body] if config.layers is None else class_of("layers", config.layers)
        self.layers: Layers = make(config)

    def forward(self, inputs: Batch | Tensor) -> Tensor:
        """Batch, or (B, T) ids without padding -> (B, T, D)."""
        batch = as_batch(inputs)
        hidden = self.embeddings(batch)
        for state in self.layers(hidden, batch):
            hidden = state
        return hidden

    def hidden_states(self, inputs: Batch | Tensor) -> list[Tensor]:
        """The embeddings and the output of every layer, each (B, T, D)."""
        batch = as_batch(inputs)
        return list(self.layers(self.embeddings(batch), batch))

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text of `length` tokens, by the shapes of all matrix products."""
        return self.embeddings.flops(length) + self.layers.flops(length)


class _Uninitialised(TorchFunctionMode):
    """Skips the initialisation of weights, which would load torch's compiler for tensors without data."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        return None if getattr(function, "__module__", "") == "torch.nn.init" else function(*arguments, **(keywords or {}))


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Context in which modules are built on the meta device, without values."""
    with torch.device("meta"), _Uninitialised():
        yield


def set_activation_checkpointing(model: nn.Module, enabled: bool) -> None:
    """Switches activation checkpointing of every stack of layers; ValueError if enabled without a stack."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if enabled and not stacks:
        raise ValueError("activation_checkpointing=true needs layers to recompute: model.body has no stack of them")
    for stack in stacks:
        stack.activation_checkpointing = enabled


@torch.no_grad()
def initialise(model: nn.Module, initializer_range: float, seed: int, init: Init = Init.flat, depth: int = 1) -> None:
    """Draws normal weights of standard deviation `initializer_range`, scaled as `init` says; biases are 0, norms 1, as in BERT.

    `depth` is the number of layers of a stack.
    Every parameter draws from its own stream, keyed by seed and name: two variants of one seed start from the same values
    wherever they have the same tensor. Rows that stand for padding, and for nothing else, are zero. An encoder of another
    package has its own first values, which `seeded` makes those of a seed.
    """
    kinds = (nn.LayerNorm, nn.RMSNorm)
    norms = {id(p) for module in model.modules() if isinstance(module, kinds) for p in module.parameters()}
    foreign = {id(p) for one in model.modules() if getattr(one, "is_foreign", False) for p in one.parameters()}
    for name, parameter in model.named_parameters():
        if id(parameter) in foreign:
            continue
        if name.rpartition(".")[2].startswith("bias"):
            parameter.zero_()
        elif id(parameter) in norms:
            parameter.fill_(1.0)
        else:
            deviation = initializer_range
            if init is Init.scaled_by_depth and name.endswith(INTO_RESIDUAL):
                deviation /= (2 * depth) ** 0.5
            elif init is Init.small_embeddings and name.endswith(EMBEDDINGS):
                deviation = (2 / (5 * parameter.shape[-1])) ** 0.5
            parameter.copy_(torch.normal(0.0, deviation, parameter.shape, generator=generator_of(seed, name)))
    for module in model.modules():
        if isinstance(module, Embeddings) and module.pads_alone:
            module.token_embedding.weight[module.padding_row].zero_()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context in which random numbers on the CPU come from this seed; the global state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def generator_of(seed: int, name: str) -> torch.Generator:
    """The random stream of one tensor."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
