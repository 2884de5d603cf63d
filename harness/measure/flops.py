"""FLOPs: counted from the operators that run, and checked against a formula. One multiply-add is 2 FLOPs.

The counter sees real operator calls on the meta device, with attention as plain matrix products, because the fused CPU kernel
would count as 0. So the count is that of the algorithm, whatever kernel a device uses. An operator that torch's counter does
not know counts by a formula that the module of the class registers (`torch.utils.flop_counter.register_flop_formula`).
"""

import contextlib
import copy
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from harness.errors import InputError
from harness.models.adapt import adapt
from harness.models.config import AdaptationConfig, EncoderConfig, Trains
from harness.models.foreign import PROBED
from harness.models.heads import Classifier, SequenceClassifier, build_classifier, on_meta
from harness.models.objectives.base import Objective, PretrainBatch

TOLERANCE = 0.02
"""Largest relative difference between count and formula that is not an error."""


PRODUCTS = re.compile(
    r"(^|_)(fft|linalg(?!_vector_norm)|\w*mm|\w*mv|v?dot|\w*matmul|conv\w*|attention|linear|rnn|lstm|gru|[cp]dist)(_|$)"
)
"""Names of torch's operators that multiply matrices or transform; all others do the same work for every element."""

COUNTED_TEXTS = 32
"""Texts of a batch whose training step is counted: what is done once for a batch is a small part, as while training."""


class _Operators(TorchDispatchMode):
    """Which operators that may multiply have run without a formula: those by name, and all that are not torch's own."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.unstated: dict[str, None] = {}

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        known = getattr(operator, "overloadpacket", operator)
        namespace = getattr(operator, "namespace", "")
        multiplies = PRODUCTS.search(known.__name__) if namespace == "aten" else namespace not in ("prim", "prims", "profiler")
        if multiplies and known not in flop_registry:
            self.unstated[f"{namespace}.{known.__name__}".strip(".")] = None
        return operator(*args, **(kwargs or {}))


class UnknownFlopsError(InputError):
    """An operator that may multiply has no formula."""


@contextlib.contextmanager
def counting() -> Iterator[FlopCounterMode]:
    """Counts what runs within; UnknownFlopsError at its end if an operator that may multiply has no formula."""
    with sdpa_kernel(SDPBackend.MATH), _Operators() as operators, FlopCounterMode(display=False) as counter:
        yield counter
    if operators.unstated:
        raise UnknownFlopsError(
            f"the FLOPs of {', '.join(operators.unstated)} are unknown: expected a formula, registered by "
            "torch.utils.flop_counter.register_flop_formula in the module of the class that calls it (docs/method.md, FLOPs)"
        )


@dataclass(frozen=True)
class Shape:
    """A model and the batch that goes through it."""

    config: EncoderConfig
    num_outputs: int
    batch_size: int
    length: int
    head: type[Classifier] = SequenceClassifier
    adaptation: AdaptationConfig = field(default_factory=AdaptationConfig)
    averaged: bool = False  # the optimiser keeps a moving average of each trained parameter
    group: int = 1  # texts of an item, which has one label

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return self.batch_size * self.length

    def model(self) -> Classifier:
        """The model without values, all of whose parameters are trained; with values where it does not run without them."""
        model = on_meta(self.config, self.num_outputs, self.head)
        if model.encoder.runs_on_meta:
            return model
        return build_classifier(self.config, self.num_outputs, 0, self.head)

    def adapted(self) -> Classifier:
        """The model as `model`, with what the adaptation adds and freezes."""
        model = self.model()
        adapt(model, self.adaptation)
        return model


def counted(shape: Shape, backward: bool) -> int:
    """FLOPs of one forward pass, or of forward and backward, over a batch.

    A backward pass that no trained parameter needs is not computed and does not count. RuntimeError if count and formula
    differ by more than TOLERANCE where all parameters are trained, or if layers count as 0; InputError as `counting`.
    """
    if backward and (shape.adaptation.trains is not Trains.all or shape.adaptation.freeze_layers is not None):
        return of_step(shape.adapted().train(), shape.batch_size, shape.length)
    _, counter = run(shape, backward)
    return counter.get_total_flops()


def counted_or_none(shape: Shape, backward: bool) -> int | None:
    """As `counted`; for another package's encoder, None and a printed line if an operator has no formula."""
    try:
        return counted(shape, backward)
    except UnknownFlopsError as error:
        if shape.config.encoder is None:
            raise
        print(f"left out: {error}", flush=True)
        return None


def _ids(model: Classifier, batch_size: int, length: int) -> Tensor:
    return torch.zeros(batch_size, length, dtype=torch.int64, device=next(model.parameters()).device)


def of_step(model: Classifier, batch_size: int, length: int) -> int:
    """Counted FLOPs of forward and backward of a model."""
    with counting() as counter:
        model(_ids(model, batch_size, length)).sum().backward()
    return counter.get_total_flops()


def run(shape: Shape, backward: bool) -> tuple[Classifier, FlopCounterMode]:
    """The model after its passes, and what was counted; RuntimeError as `counted`."""
    model = shape.model().train(backward)
    with counting() as counter, torch.set_grad_enabled(backward):
        logits = model(_ids(model, shape.batch_size, shape.length))
        _refuse_unseen_layers(model, counter)
        if backward:
            logits.sum().backward()
    if not (backward and model.encoder.is_foreign):  # whose backward pass has no formula
        _refuse_disagreement(counter.get_total_flops(), formula(shape, backward), "this variant", model.head is not None)
    return model, counter


def _refuse_disagreement(count: int, expected: int, name: str, has_head: bool = True) -> None:
    """Also if both are 0 of a model with a head, which is a matrix product."""
    if (has_head and count == 0) or abs(count - expected) > TOLERANCE * expected:
        raise RuntimeError(f"counted {count} FLOPs, but the formula of {name} gives {expected}")


@dataclass(frozen=True)
class ModelFlops:
    """FLOPs of one text forward, and of a training step over one batch; None where they are unknown."""

    forward: int | None
    train_step: int | None


def by_length(shape: Shape, lengths: Sequence[int]) -> dict[int, ModelFlops]:
    """Length -> FLOPs over one text; ValueError for a text too long for the model, RuntimeError as `counted`."""
    shapes = {length: replace(shape, batch_size=1, length=length) for length in lengths}
    return {length: ModelFlops(counted_or_none(one, False), counted_or_none(one, True)) for length, one in shapes.items()}


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


def formula(shape: Shape, backward: bool = False) -> int:
    """FLOPs by the shapes of all matrix products; a backward pass costs twice a forward pass."""
    return of_model(shape.model(), shape.batch_size, shape.length, backward)


def of_model(model: Classifier, batch_size: int, length: int, backward: bool = False) -> int:
    """FLOPs of an existing model, without running it."""
    blocks = [block for blocks in model.encoder.layers.execution_order() for block in blocks]
    modules: list[Any] = [part for block in blocks for part in block.modules()]
    parts = [part for part in modules if hasattr(part, "flops_once")]
    once = sum(part.flops_once(length) for part in parts)  # needed once per batch of any size
    forward = batch_size * model.flops(length) - (batch_size - 1) * once
    constant = sum(part.flops_once(length) for part in parts if part.positions_are_constant)  # without gradient of its input
    transforms = [part for part in modules if hasattr(part, "transform_flops")]
    constant += batch_size * sum(part.transform_flops(length) for part in transforms)  # one input, so one gradient
    return 3 * forward - constant if backward else forward


def of_training(model: Classifier, teacher: Classifier | None = None) -> Callable[[int, int], float]:
    """FLOPs of forward and backward over (texts, tokens of the longest): padding is computed like everything else.

    By the formula; counted for another package's encoder. Where a part of the parameters is trained, times the share of it
    that is counted at powers of two, and straight between them. Those of a teacher's forward pass are added.

    An operator without a formula is an InputError; for another package's encoder all counts are nan then.
    """
    try:
        with counting(), torch.no_grad():
            shapes = Shape(model.encoder.config, 1, 1, 1, type(model)).model().eval()
            shapes(_ids(shapes, 1, PROBED))
    except UnknownFlopsError:
        if not model.encoder.is_foreign:
            raise
        return lambda texts, length: math.nan
    taught = [] if teacher is None else [teacher]
    is_whole, is_foreign = all(parameter.requires_grad for parameter in model.parameters()), model.encoder.is_foreign
    device = "meta" if model.encoder.runs_on_meta else "cpu"
    without_data = {id(one): nn.Parameter(one.detach().to(device), one.requires_grad) for one in model.parameters()}
    partly = model if is_whole and not is_foreign else copy.deepcopy(model, without_data).to(device).train()

    @functools.cache
    def share(length: int) -> float:
        return of_step(partly, COUNTED_TEXTS, length) / of_model(model, COUNTED_TEXTS, length, backward=True)

    of_text = functools.cache(lambda length: of_step(partly, 1, length))

    def count(texts: int, length: int) -> int:
        ours = texts * of_text(length) if is_foreign else of_model(model, texts, length, backward=True)
        if not (is_whole or is_foreign):
            low = 2 ** max(2, length.bit_length() - 1)
            low, high = (min(one, model.encoder.config.longest_text) for one in (low, 2 * low))
            further = (length - low) / max(1, high - low)
            ours = round(ours * ((1 - further) * share(low) + further * share(high)))
        return ours + sum(of_model(other, texts, length, backward=False) for other in taught)

    return functools.cache(count)


def of_objective(objective: Objective, batch: PretrainBatch, length: int) -> int:
    """FLOPs of forward and backward over a whole batch, with all heads, generator and teacher.

    RuntimeError when the forward pass of one sequence is more than 2 % off the objective's own formula; the message has both.
    """
    shapes, inputs = copy.deepcopy(objective).to("meta").train(), batch.to("meta")
    with counting() as forward, torch.no_grad():
        shapes(inputs.micro_batch(slice(0, 1)))
    count, expected = forward.get_total_flops(), objective.flops(length)
    _refuse_disagreement(count, expected, type(objective).__name__)
    with counting() as both:
        shapes(inputs).backward()
    return both.get_total_flops()
