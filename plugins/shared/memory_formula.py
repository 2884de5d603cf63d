"""Memory of a training step without training: what autograd saves of a forward pass is counted on the meta device."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from harness.config.choices import Device, Dtype
from harness.config.schema import HardwareConfig
from harness.measure.flops import Shape
from harness.measure.records import Parts
from harness.models.batch import Batch
from harness.models.config import Body
from harness.models.encoder import set_activation_checkpointing
from harness.models.heads import Classifier, TextVectors
from harness.models.losses import in_batch_loss
from harness.models.stack import Stack, one_layer

FLOAT = 4
"""Bytes of a float32."""


class Saved(torch.autograd.graph.saved_tensors_hooks):
    """Counts what autograd saves inside its block, each storage once, without those of the tensors in `without`."""

    def __init__(self, without: Iterable[Tensor]) -> None:
        self._bytes = {tensor.untyped_storage()._cdata: 0 for tensor in without}  # the storage's address, on meta as well
        super().__init__(self._pack, lambda saved: saved)

    @property
    def bytes(self) -> int:
        """Bytes saved so far."""
        return sum(self._bytes.values())

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self._bytes.setdefault(storage._cdata, storage.nbytes())
        return tensor


class _AttentionOfCPU(torch.overrides.TorchFunctionMode):
    """A CPU has a fused kernel that keeps no scores; on the meta device torch would spell attention out."""

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function is not F.scaled_dot_product_attention:
            return function(*args, **(kwargs or {}))
        mask = kwargs["attn_mask"]
        if mask is not None and mask.requires_grad:  # a learned bias, whose gradient the kernel does not have
            return function(*args, **kwargs)
        mask = torch.zeros_like(mask, dtype=args[0].dtype) if mask is not None and mask.dtype is torch.bool else mask
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return fused(*args, attn_mask=mask, scale=kwargs["scale"])[0]


def parts(shape: Shape, hardware: HardwareConfig, checkpointing: bool) -> Parts:
    """By shapes. AdamW keeps two float32 moments of each trained parameter, and a float32 step count of each such tensor.
    A moving average is as large as a moment.

    Activations are None for bf16 and on CUDA, whose kernels save other tensors, and for a LSTM, whose kernel has a work space
    of its own. Parameters that a text does not use, such as the segment vectors of relative attention, count with gradient
    and moments too.
    """
    model = shape.adapted()
    weights = FLOAT * sum(parameter.numel() for parameter in model.parameters())
    sizes = [parameter.numel() for parameter in model.parameters() if parameter.requires_grad]
    gradients = FLOAT * sum(sizes)
    known = (
        hardware.device is Device.cpu and hardware.dtype is Dtype.fp32 and shape.config.body not in (Body.lstm, Body.foreign)
    )
    activations = _activations(model, shape, checkpointing) if known else None
    return Parts(weights, gradients, (2 + shape.averaged) * gradients + FLOAT * len(sizes), activations)


def _activations(model: Classifier, shape: Shape, checkpointing: bool) -> int | None:
    with torch.device("meta"), _AttentionOfCPU():
        ids = torch.zeros(shape.batch_size, shape.length, dtype=torch.int64)
        of_tokens, of_numbers = model.pooler is None, shape.num_outputs == 1 and shape.group == 1
        labels = torch.zeros(ids.shape[: 1 + of_tokens], dtype=torch.float32 if of_numbers else torch.int64)[:: shape.group]
        batch = Batch(input_ids=ids, tokens=shape.tokens, group=shape.group)
        set_activation_checkpointing(model, checkpointing)
        saved = Saved([*model.parameters(), ids, labels])
        model.train()
        with saved:
            if isinstance(model, TextVectors):  # pairs of texts
                in_batch_loss(model(batch), model(batch), torch.eye(shape.batch_size, dtype=torch.bool), 1.0)
            else:
                model.loss(model(batch), labels)
        again = recomputed(model, batch, [ids, labels]) if checkpointing else 0
    return None if again is None else saved.bytes + again


def recomputed(model: Classifier, batch: Batch, without: list[Tensor]) -> int | None:
    """Bytes that the largest layer saves while it is recomputed, without its input and what all layers share.

    None for a body whose layers cannot be run alone.
    """
    stack, largest = model.encoder.layers, 0
    if not isinstance(stack, Stack):
        return None
    for blocks in stack.execution_order():
        size = (*batch.input_ids.shape, stack.config.hidden_size)
        hidden = torch.zeros(size, device=batch.input_ids.device, requires_grad=True)
        context = stack.context(batch)
        saved = Saved([*model.parameters(), *without, hidden])
        with saved:
            one_layer(blocks, context, hidden)
        largest = max(largest, saved.bytes)
    return largest
