"""FLOPs: counted from the operators that run, and checked against a formula. One multiply-add is 2 FLOPs.

The counter sees real operator calls on the meta device, with attention as plain matrix products, because the fused CPU kernel
would count as 0. So the count is that of the algorithm, whatever kernel a device uses.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models.batch import Batch
from models.config import EncoderConfig
from models.decoder import CrossAttentionBlock
from models.encoder import set_activation_checkpointing
from models.heads import Classifier, SequenceClassifier, on_meta
from models.layers import AttentionBlock
from models.objectives.base import Objective, PretrainBatch

TOLERANCE = 0.02
"""Largest relative difference between count and formula that is not an error."""


BATCHED = ("bmm", "baddbmm")
"""Operators that multiply a matrix for each head; projections multiply one for all."""

Head = type[Classifier]


def counted(
    config: EncoderConfig, num_outputs: int, batch_size: int, length: int, backward: bool, head: Head = SequenceClassifier
) -> int:
    """FLOPs of one forward pass, or of forward and backward, over `batch_size` texts of `length` tokens.

    RuntimeError if count and formula differ by more than TOLERANCE, or if layers count as 0.
    """
    _, counter = _run(config, num_outputs, batch_size, length, backward, head)
    return counter.get_total_flops()


def _run(
    config: EncoderConfig, num_outputs: int, batch_size: int, length: int, backward: bool, head: Head
) -> tuple[Classifier, FlopCounterMode]:
    """The model after its passes, and what was counted; RuntimeError as `counted`."""
    model = on_meta(config, num_outputs, head).train(backward)
    batch = Batch(input_ids=torch.zeros(batch_size, length, dtype=torch.int64, device="meta"))
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.set_grad_enabled(backward):
        logits = model(batch)
        _refuse_unseen_layers(model, counter)
        if backward:
            logits.sum().backward()
    count, expected = counter.get_total_flops(), formula(config, num_outputs, batch_size, length, backward, head)
    _refuse_disagreement(count, expected, "this variant")
    return model, counter


@dataclass(frozen=True)
class OfParts:
    """FLOPs over one text: of the model, of its attention with projections, and of the products of queries, keys and values."""

    model: int
    attention: int
    attention_products: int


def of_parts(config: EncoderConfig, num_outputs: int, length: int, backward: bool) -> OfParts:
    """Counted by the modules that ran; RuntimeError as `counted`."""
    model, counter = _run(config, num_outputs, 1, length, backward, SequenceClassifier)
    names = [name for name, module in model.named_modules() if isinstance(module, AttentionBlock | CrossAttentionBlock)]
    counts, root = counter.get_flop_counts(), type(model).__name__
    within = [(str(operator), value) for name in names for operator, value in counts.get(f"{root}.{name}", {}).items()]
    products = sum(value for operator, value in within if operator.endswith(BATCHED))
    return OfParts(counter.get_total_flops(), sum(value for _, value in within), products)


def _refuse_disagreement(count: int, expected: int, name: str) -> None:
    """Also if both are 0: every model has a head, and so a matrix product."""
    if count == 0 or abs(count - expected) > TOLERANCE * expected:
        raise RuntimeError(f"counted {count} FLOPs, but the formula of {name} gives {expected}")


class Counts(NamedTuple):
    """FLOPs over one text."""

    forward: int
    train_step: int


def by_length(
    config: EncoderConfig, num_outputs: int, lengths: Sequence[int], head: Head = SequenceClassifier
) -> dict[int, Counts]:
    """Length -> FLOPs over one text; ValueError for a text too long for the model, RuntimeError as `counted`."""
    passes = (False, True)
    return {length: Counts(*(counted(config, num_outputs, 1, length, step, head) for step in passes)) for length in lengths}


def _refuse_unseen_layers(model: Classifier, counter: FlopCounterMode) -> None:
    """RuntimeError if layers have matrices but all counted FLOPs are outside of the layers.

    The comparison with the formula misses this if the formula forgets the same layers.
    """
    matrices = [weight for weight in model.encoder.layers.parameters() if weight.dim() >= 2]
    root, counts = type(model).__name__, counter.get_flop_counts()
    outside = sum(sum(counts.get(f"{root}.{name}", {}).values()) for name in ("encoder.embeddings", "pooler", "head"))
    if matrices and counter.get_total_flops() - outside == 0:
        raise RuntimeError(
            f"counted 0 FLOPs in layers that have {len(matrices)} matrices: the counter sees none of their products"
        )


@dataclass(frozen=True)
class StepFlops:
    """FLOPs of one forward and backward pass: what the model needs (MFU) and what the device does (HFU).

    They differ by the recomputation of activation checkpointing (arXiv:2204.02311, appendix B).
    """

    model: int
    hardware: int


def of_step(
    config: EncoderConfig, num_outputs: int, batch_size: int, length: int, checkpointing: bool, head: Head = SequenceClassifier
) -> StepFlops:
    """Both counts, over `batch_size` texts of `length` tokens; RuntimeError as `counted` raises it."""
    needed = counted(config, num_outputs, batch_size, length, True, head)
    if not checkpointing:
        return StepFlops(needed, needed)
    model = on_meta(config, num_outputs, head).train()
    set_activation_checkpointing(model, True)
    batch = Batch(input_ids=torch.zeros(batch_size, length, dtype=torch.int64, device="meta"))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(batch).sum().backward()
    return StepFlops(needed, counter.get_total_flops())


def formula(
    config: EncoderConfig,
    num_outputs: int,
    batch_size: int,
    length: int,
    backward: bool = False,
    head: Head = SequenceClassifier,
) -> int:
    """FLOPs by the shapes of all matrix products; a backward pass costs twice a forward pass."""
    return of_model(on_meta(config, num_outputs, head), batch_size, length, backward)


def of_model(model: Classifier, batch_size: int, length: int, backward: bool = False) -> int:
    """The same for an existing model, without running it."""
    blocks = [block for blocks in model.encoder.layers.execution_order() for block in blocks]
    parts = [part for block in blocks for part in block.modules() if hasattr(part, "flops_once")]
    once = sum(part.flops_once(length) for part in parts)  # needed once per batch of any size
    forward = batch_size * model.flops(length) - (batch_size - 1) * once
    constant = sum(part.flops_once(length) for part in parts if part.positions_are_constant)  # without gradient of its input
    return 3 * forward - constant if backward else forward


def of_training(model: Classifier) -> Callable[[int, int], int]:
    """FLOPs of forward and backward over (texts, tokens of the longest): padding is computed like everything else."""
    return functools.cache(lambda texts, length: of_model(model, texts, length, backward=True))


def of_objective(objective: Objective, batch: PretrainBatch, length: int) -> int:
    """FLOPs of forward and backward over a whole batch, with all heads, generator and teacher.

    RuntimeError when the forward pass of one sequence is more than 2 % off the objective's own formula; the message has both.
    """
    shapes, inputs = copy.deepcopy(objective).to("meta").train(), batch.to("meta")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward, torch.no_grad():
        shapes(inputs.micro_batch(slice(0, 1)))
    count, expected = forward.get_total_flops(), objective.flops(length)
    _refuse_disagreement(count, expected, type(objective).__name__)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as both:
        shapes(inputs).backward()
    return both.get_total_flops()
