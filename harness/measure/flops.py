"""FLOPs: counted from the operators that run, held against a formula. One multiply-add is 2 FLOPs.

The counter watches real operator calls on the meta device, with attention as plain products: the fused CPU kernel would be
counted as nothing. So the count is what the algorithm does, whatever kernel a device picks for it.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness.measure.size import on_meta
from models.attention import MINIMUM_BLOCK
from models.batch import Batch
from models.config import EncoderConfig

TOLERANCE = 0.02
"""Count and formula may differ by so much before one of them must be wrong."""


def counted(config: EncoderConfig, num_outputs: int, batch_size: int, length: int, backward: bool) -> int:
    """FLOPs of one forward pass, or of forward and backward, over `batch_size` texts of `length` tokens.

    RuntimeError when count and formula are more than 2 % apart; the message has both.
    """
    model = on_meta(config, num_outputs).train(backward)
    batch = Batch(input_ids=torch.zeros(batch_size, length, dtype=torch.int64, device="meta"))
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.set_grad_enabled(backward):
        logits = model(batch)
        if backward:
            logits.sum().backward()
    count, expected = counter.get_total_flops(), formula(config, num_outputs, batch_size, length) * (3 if backward else 1)
    if abs(count - expected) > TOLERANCE * expected:
        raise RuntimeError(f"counted {count} FLOPs, but the formula of this variant gives {expected}")
    return count


def formula(config: EncoderConfig, num_outputs: int, batch_size: int, length: int) -> int:
    """Forward FLOPs by the shapes of all matrix products; a backward pass costs twice as much again."""
    T, D, E = length, config.hidden_size, config.embedding_width
    projection = 2 * T * E * D if D != E else 0
    linear = 2 * T * D * (4 * D)
    feed_forward = 2 * T * D * config.feed_forward_width * (3 if config.gated_feed_forward else 2)
    attention = 2 * 2 * attention_pairs(config.attention_window, T) * D
    layer = linear + feed_forward + attention
    head = 2 * D * D + 2 * D * num_outputs
    return batch_size * (projection + config.num_hidden_layers * layer + head)


def attention_pairs(window: int | None, length: int) -> int:
    """Query-key pairs that are computed: all, or those of the blocks of windowed attention."""
    if window is None:
        return length * length
    block = max(window, MINIMUM_BLOCK)
    if length <= block + window:
        return length * length
    return -(-length // block) * block * (block + window)
