"""FLOPs: counted from the operators that run, held against the architecture's own formula. One multiply-add is 2 FLOPs.

The counter watches real operator calls on the meta device, with attention as plain products: the fused CPU kernel would be
counted as nothing. So the count is what the algorithm does, whatever kernel a device picks for it.
"""

import copy

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness.measure.size import on_meta
from models.batch import Batch
from models.config import EncoderConfig
from models.heads import Classifier, SequenceClassifier
from models.objectives.question import Objective, Question

TOLERANCE = 0.02
"""Count and formula may differ by so much before one of them must be wrong."""


Head = type[Classifier]


def counted(
    config: EncoderConfig, num_outputs: int, batch_size: int, length: int, backward: bool, head: Head = SequenceClassifier
) -> int:
    """FLOPs of one forward pass, or of forward and backward, over `batch_size` texts of `length` tokens.

    RuntimeError when count and formula are more than 2 % apart; the message has both.
    """
    model = on_meta(config, num_outputs, head).train(backward)
    batch = Batch(input_ids=torch.zeros(batch_size, length, dtype=torch.int64, device="meta"))
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.set_grad_enabled(backward):
        logits = model(batch)
        if backward:
            logits.sum().backward()
    count, expected = counter.get_total_flops(), formula(config, num_outputs, batch_size, length, backward, head)
    if abs(count - expected) > TOLERANCE * expected:
        raise RuntimeError(f"counted {count} FLOPs, but the formula of this variant gives {expected}")
    return count


def formula(
    config: EncoderConfig,
    num_outputs: int,
    batch_size: int,
    length: int,
    backward: bool = False,
    head: Head = SequenceClassifier,
) -> int:
    """What the shapes of all matrix products give; a backward pass costs twice a forward one."""
    model = on_meta(config, num_outputs, head)
    blocks = [block for blocks in model.encoder.layers.execution_order() for block in blocks]
    parts = [part for block in blocks for part in block.modules() if hasattr(part, "flops_once")]
    once = sum(part.flops_once(length) for part in parts)  # what a batch of any size needs a single time
    forward = batch_size * model.flops(length) - (batch_size - 1) * once
    constant = sum(part.flops_once(length) for part in parts if part.positions_are_constant)  # needs no gradient of its input
    return 3 * forward - constant if backward else forward


def of_objective(objective: Objective, question: Question, length: int) -> int:
    """FLOPs of forward and backward over a whole question, heads, generator and teacher with it.

    RuntimeError when the forward pass of one sequence is more than 2 % off the objective's own formula; the message has both.
    """
    shapes, asked = copy.deepcopy(objective).to("meta").train(), question.to("meta")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward, torch.no_grad():
        shapes(asked.cut(slice(0, 1)))
    count, expected = forward.get_total_flops(), objective.flops(length)
    if abs(count - expected) > TOLERANCE * expected:
        raise RuntimeError(f"counted {count} FLOPs, but the formula of {type(objective).__name__} gives {expected}")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as both:
        shapes(asked).backward()
    return both.get_total_flops()
