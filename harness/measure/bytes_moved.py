"""Bytes that operators move, and how many these are; FLOPs per byte show whether a model is memory-bound or compute-bound.

Every operator reads each of its input tensors once and writes each of its outputs once, at the width of its dtype. Views move
nothing; an expanded tensor counts once; an embedding lookup reads only the rows that it returns. Caches are not modelled, so
the bytes are an upper bound and the intensity is a lower bound. A fused operator, such as attention on CPU, moves only its
inputs and outputs.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from harness.hardware.device import Machine
from harness.models.batch import Batch
from harness.models.heads import Classifier

ATEN = torch.ops.aten
VIEWS = {ATEN._unsafe_view.default}
"""Operators that return the same memory, though their schema does not declare it."""

LOOK_UPS = {ATEN.embedding.default, ATEN.index.Tensor, ATEN.gather.default, ATEN.index_select.default}
"""Operators that read only those rows or elements of their first input that they return."""

OVERWRITES = {ATEN.copy_.default, ATEN.fill_.Scalar, ATEN.fill_.Tensor, ATEN.zero_.default}
"""Operators that write their first input without reading it."""

UNWRITTEN = {ATEN.empty.memory_format, ATEN.empty_like.default, ATEN.empty_strided.default, ATEN.new_empty.default}
"""Operators that only allocate memory."""


class MovedBytes(TorchDispatchMode):
    """Adds up what operators read and write inside its block, and counts those that read or write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.total = self.operators = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the operator and counts its bytes."""
        named = kwargs or {}
        out = func(*args, **named)
        if not func.is_view and func not in VIEWS | UNWRITTEN:
            self.total += moved(func, (*args, *named.values()), out)
            self.operators += 1
        return out


def moved(func: Any, inputs: tuple[Any, ...], out: Any) -> int:
    """Bytes that one operator reads and writes."""
    written = sum(map(held_bytes, _tensors(out)))
    if func in LOOK_UPS:
        return written + sum(map(held_bytes, _tensors(inputs[1:]))) + written
    return written + sum(map(held_bytes, _tensors(inputs[1:] if func in OVERWRITES else inputs)))


def held_bytes(tensor: Tensor) -> int:
    """Bytes of the distinct elements: an expanded dimension counts as one."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= 1 if stride == 0 and size > 1 else size
    return elements * tensor.element_size()


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor))


def moved_forward(model: Classifier, batch: Batch, machine: Machine) -> MovedBytes:
    """What the operators of one forward pass move, in the dtype and with the kernels of the run."""
    model.eval()
    by_operator = torch.compiler.set_stance("force_eager") if machine.compiles else nullcontext()
    with machine.autocast(), by_operator, torch.no_grad(), MovedBytes() as counter:
        model(batch)
    return counter
