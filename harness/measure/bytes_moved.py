"""Bytes that operators move, and FLOPs per byte: what tells a model that waits for memory from one that waits for arithmetic.

What is counted: every operator that runs reads each of its input tensors once and writes each of its outputs once, at the
width of its dtype. Views move nothing; a tensor that is expanded counts without its copies; a look-up reads as much of its
table as it takes out. There is no cache in this model: what stays in one between two operators counts as moved, so the bytes
are an upper bound and the intensity a lower one. A fused operator, as attention on CPU, moves its inputs and outputs alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from harness.hardware.device import Machine
from models.batch import Batch
from models.heads import Classifier

ATEN = torch.ops.aten
VIEWS = {ATEN._unsafe_view.default}
"""Operators that hand on the same memory, though their schema does not say so."""

LOOK_UPS = {ATEN.embedding.default, ATEN.index.Tensor, ATEN.gather.default, ATEN.index_select.default}
"""Operators that read only those rows or cells of their first input that they put out."""

OVERWRITES = {ATEN.copy_.default, ATEN.fill_.Scalar, ATEN.fill_.Tensor, ATEN.zero_.default}
"""Operators that write their first input without reading it."""

UNWRITTEN = {ATEN.empty.memory_format, ATEN.empty_like.default, ATEN.empty_strided.default, ATEN.new_empty.default}
"""Operators that only find memory."""


class MovedBytes(TorchDispatchMode):
    """Adds up, while it is entered, what the operators below it read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """The operator's own answer."""
        given = kwargs or {}
        out = func(*args, **given)
        if not func.is_view and func not in VIEWS | UNWRITTEN:
            self.total += moved(func, (*args, *given.values()), out)
        return out


def moved(func: Any, inputs: tuple, out: Any) -> int:
    """Bytes that one operator reads and writes."""
    written = sum(map(held_bytes, _tensors(out)))
    if func in LOOK_UPS:
        return written + sum(map(held_bytes, _tensors(inputs[1:]))) + written
    return written + sum(map(held_bytes, _tensors(inputs[1:] if func in OVERWRITES else inputs)))


def held_bytes(tensor: Tensor) -> int:
    """Bytes of the distinct elements: along an expanded dimension there is one."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= 1 if stride == 0 and size > 1 else size
    return elements * tensor.element_size()


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor))


def bytes_of(call: Callable[[], object]) -> int:
    """Bytes that the operators of one call move, without gradients."""
    with torch.no_grad(), MovedBytes() as counter:
        call()
    return counter.total


def bytes_forward(model: Classifier, batch: Batch, machine: Machine) -> int:
    """Bytes that the operators of one forward pass move, in the arithmetic and with the kernels of the run."""
    model.eval()
    with machine.autocast(), machine.uncompiled():
        return bytes_of(lambda: model(batch))
