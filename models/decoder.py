"""An encoder and a decoder that read the same text (arXiv:1706.03762; for classification arXiv:1910.13461, section 3.1).

Trained from text to text, the decoder reads another text than the encoder (arXiv:1910.10683, section 2.1).
B sequences, T tokens, N of the encoder's text and M of the decoder's, D hidden, K head size.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from torch import Tensor, nn

from harness.models.attention.full import full_attention
from harness.models.attention.products import Context, Heads, MultiHead
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.layers import AttentionBlock, Block, FeedForwardBlock
from harness.models.stack import Stack


class CrossAttention(MultiHead):
    """Every token of the decoder over all real tokens of the encoder."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        size, width = config.hidden_size, config.attention_width
        self.scale = config.product_scale
        self.query = nn.Linear(size, width, bias=config.attention_bias)
        self.key_value = nn.Linear(size, 2 * width, bias=config.attention_bias)
        self.output = nn.Linear(width, size, bias=config.attention_bias)

    def forward(self, hidden: Tensor, encoded: Tensor, mask: Tensor | None) -> Tensor:
        """(B, M, D) of the decoder, (B, N, D) of the encoder, and the encoder's mask -> (B, M, D)."""
        key, value = self.key_value(encoded).chunk(2, dim=-1)
        query, key, value = (self.split(x) for x in (self.query(hidden), key, value))  # each (B, H, tokens, K)
        attended = full_attention(Heads(query, key, value, mask, scale=self.scale, dropout=self.dropout))
        return self.output(attended.transpose(1, 2).flatten(2))

    def flops(self, length: int, encoded: int) -> int:
        """FLOPs of one forward pass of so many tokens over so many of the encoder: projections and products."""
        width = self.num_heads * self.head_size
        return 2 * (length + encoded) * 2 * width * self.output.out_features + 2 * 2 * length * encoded * width


class CrossAttentionBlock(Block):
    """Cross-attention of a layer."""

    attention: CrossAttention

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config, "attention", CrossAttention(config))

    def forward(self, hidden: Tensor, encoded: Tensor, mask: Tensor | None) -> Tensor:
        """(B, M, D) of the decoder, (B, N, D) of the encoder, and the encoder's mask -> (B, M, D)."""
        return self.added(hidden, self.attention(self.read(hidden), encoded, mask))


class Decoder(nn.Module):
    """A causal stack with cross-attention between the attention and the feed-forward of every layer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.stack = Stack(replace(config, body=Body.transformer, causal=True))
        self.crosses = nn.ModuleList(CrossAttentionBlock(config) for _ in range(config.depth))

    def forward(self, hidden: Tensor, batch: Batch, encoded: Tensor, mask: Tensor | None) -> Iterator[Tensor]:
        """(B, M, D) embeddings of its own text, (B, N, D) of the encoder, and the encoder's mask -> (B, M, D) of every layer.

        The last one is normed.
        """
        context, order, norm = self.stack.context(batch), self.execution_order(), self.stack.norm
        for layer, blocks in enumerate(order, 1):
            hidden = self.stack.through(partial(_one_layer, blocks, context, encoded, mask), hidden)
            yield norm(hidden) if norm is not None and layer == len(order) else hidden

    def execution_order(self) -> list[tuple[AttentionBlock, CrossAttentionBlock, FeedForwardBlock]]:
        """The modules that each of the layers runs."""
        order = zip(self.stack.execution_order(), self.crosses, strict=True)
        return [(attention, cast(CrossAttentionBlock, cross), feed_forward) for (attention, feed_forward), cross in order]

    def flops(self, length: int, encoded: int) -> int:
        """FLOPs of one forward pass over one text, and over the encoder's of so many tokens."""
        return self.stack.flops(length) + sum(cross.attention.flops(length, encoded) for _, cross, _ in self.execution_order())


def _one_layer(
    blocks: tuple[AttentionBlock, CrossAttentionBlock, FeedForwardBlock],
    context: Context,
    encoded: Tensor,
    mask: Tensor | None,
    hidden: Tensor,
) -> Tensor:
    """(B, M, D) -> (B, M, D)."""
    attention, cross, feed_forward = blocks
    return feed_forward(cross(attention(hidden, context), encoded, mask))


class EncoderDecoder(nn.Module):
    """Both stacks read the same embeddings; the decoder's last real token has read the whole text twice."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.encoder = Stack(config)
        self.decoder = Decoder(config)

    def forward(self, hidden: Tensor, batch: Batch) -> Iterator[Tensor]:
        """(B, T, D) -> the hidden states before the first layer, after every encoder layer, and after every decoder layer."""
        encoded = hidden
        for state in self.encoder(hidden, batch):
            encoded = state
            yield state
        yield from self.decoder(hidden, batch, encoded, batch.attention_mask)

    def translated(self, hidden: Tensor, batch: Batch, decoded: Tensor, decoder_batch: Batch) -> Tensor:
        """(B, N, D) for the encoder and (B, M, D) for the decoder, which reads another text -> (B, M, D) of its last layer."""
        *_, encoded = self.encoder(hidden, batch)
        *_, last = self.decoder(decoded, decoder_batch, encoded, batch.attention_mask)
        return last

    def execution_order(self) -> list[tuple[nn.Module, ...]]:
        """The modules that each of the layers runs, the encoder's first."""
        return [*self.encoder.execution_order(), *self.decoder.execution_order()]

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text."""
        return self.encoder.flops(length) + self.decoder.flops(length, length)
