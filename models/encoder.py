"""Token ids in, one vector per token out. B sequences, T tokens, E embedding size, D hidden."""

import hashlib

import torch
from torch import Tensor, nn

from models.batch import Batch
from models.config import EncoderConfig
from models.dropout import Dropout
from models.layers import Layer


class Embeddings(nn.Module):
    """Sum of token, position and type vectors, normed; projected when they are smaller than the hidden size."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.token_embedding = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, width)
        self.type_embedding = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.projection = nn.Linear(width, config.hidden_size) if width != config.hidden_size else None

    def forward(self, batch: Batch) -> Tensor:
        """Batch with (B, T) ids -> (B, T, D); ValueError for a text longer than the position table."""
        T = batch.input_ids.shape[1]
        if self.position_embedding.num_embeddings < T:
            raise ValueError(f"{T} tokens are more than model.max_position_embeddings={self.position_embedding.num_embeddings}")
        places = self.position_embedding
        positions = places.weight[:T] if batch.position_ids is None else places(batch.position_ids)  # (T, E) or (B, T, E)
        embedded = self.token_embedding(batch.input_ids) + positions  # (B, T, E)
        if self.type_embedding is not None:
            types = torch.zeros_like(batch.input_ids) if batch.token_type_ids is None else batch.token_type_ids
            embedded = embedded + self.type_embedding(types)
        embedded = self.dropout(self.norm(embedded))
        return embedded if self.projection is None else self.projection(embedded)


class Encoder(nn.Module):
    """A stack of layers over embeddings; sharing is an execution order over fewer layers (arXiv:1909.11942)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.groups))

    def forward(self, batch: Batch) -> Tensor:
        """Batch with (B, T) ids -> (B, T, D)."""
        hidden = self.embeddings(batch)
        for layer in self.execution_order():
            hidden = layer(hidden, batch.attention_mask)
        return hidden

    def execution_order(self) -> list[Layer]:
        """The layer module that each of the `num_hidden_layers` steps runs."""
        depth, groups = self.config.num_hidden_layers, self.config.groups
        return [self.layers[step * groups // depth] for step in range(depth)]


@torch.no_grad()
def initialise(model: nn.Module, initializer_range: float, seed: int) -> None:
    """Normal weights of standard deviation `initializer_range`, zero biases, unit norms, as BERT.

    Every parameter draws from its own stream, keyed by seed and name: two variants of one seed start from the same values
    wherever they have the same tensor. Rows that stand for padding are zero.
    """
    norms = {id(p) for module in model.modules() if isinstance(module, nn.LayerNorm) for p in module.parameters()}
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif id(parameter) in norms:
            parameter.fill_(1.0)
        else:
            digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
            values = torch.normal(0.0, initializer_range, parameter.shape, generator=generator)
            parameter.copy_(values)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()
