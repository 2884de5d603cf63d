"""DeBERTa's enhanced mask decoder (arXiv:2006.03654, section 3.2): absolute positions enter before masked tokens are predicted.

B sequences, T tokens, D hidden.
"""

from functools import partial
from typing import cast

from torch import Tensor, nn

from harness.models.attention.products import Context
from harness.models.batch import Batch
from harness.models.choices import Position
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, looked_up
from harness.models.layers import AttentionBlock, FeedForwardBlock
from harness.models.stack import Stack

PASSES = 2
"""How often the last layer runs in the decoder, as in the paper."""


class MaskDecoder(nn.Module):
    """Runs the encoder's last layer again: queries know their absolute position, keys and values are what that layer reads.

    The layer's weights are the encoder's own; the table of positions alone is added.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.position_embedding = nn.Embedding(config.longest_text, config.hidden_size)

    def forward(self, encoder: Encoder, keys: Tensor, batch: Batch) -> Tensor:
        """(B, T, D) that the last layer reads -> (B, T, D); ValueError for a text longer than the table."""
        stack = cast(Stack, encoder.layers)
        context, blocks = stack.context(batch), stack.execution_order()[-1]
        query = keys + looked_up(self.position_embedding, batch)
        for _ in range(PASSES):
            query = stack.through(partial(_one_pass, blocks, context, keys), query)
        return query if stack.norm is None else stack.norm(query)

    def flops(self, encoder: Encoder, length: int) -> int:
        """FLOPs of one text."""
        attention, feed_forward = cast(Stack, encoder.layers).execution_order()[-1]
        return PASSES * (attention.attention.flops(length) + feed_forward.feed_forward.flops(length))


def _one_pass(blocks: tuple[AttentionBlock, FeedForwardBlock], context: Context, keys: Tensor, query: Tensor) -> Tensor:
    """(B, T, D) -> (B, T, D)."""
    attention, feed_forward = blocks
    return feed_forward(attention(keys, context, query))


def make_mask_decoder(config: EncoderConfig) -> MaskDecoder | None:
    """None where the config has none."""
    return MaskDecoder(config) if config.position is Position.disentangled and config.mask_decoder else None
