"""What torch's FSDP2 does for a sharded training: it divides the model, and its checkpoints.

Each rank writes its part of a checkpoint, and any number of ranks, or one process, reads the whole. They are torch's
distributed checkpoints in safetensors: there is no pickle.
"""

import copy
import ctypes
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from harness.models.layers import AttentionBlock, FeedForwardBlock

M_MMAP_THRESHOLD, RETURNED_BYTES = -3, 1 << 20
"""Parameter of mallopt in malloc.h, and the size from which freed memory returns to the system at once."""

FILE_BYTES = 1 << 26
"""Approximate bytes of whole tensors in one checkpoint file: a rank holds a copy of its part of one file while it writes."""

WEIGHTS, OPTIMISER = "weights.", "optimiser."
"""First parts of the names in the files."""


def sharded_copy(model: nn.Module, device: torch.device, count: int) -> nn.Module:
    """A copy whose parameters are divided among so many ranks; each block is whole only while it computes."""
    if device.type == "cpu" and sys.platform == "linux":
        # The C library keeps what the blocks free, up to their size, and in pieces: 0.4 GB beside the 0.6 GB of a BERT-base.
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES)
    mesh, sharded = init_device_mesh(device.type, (count,)), copy.deepcopy(model)
    blocks = [module for module in sharded.modules() if isinstance(module, AttentionBlock | FeedForwardBlock)]
    for module in (*blocks, sharded):  # parts before the whole
        fully_shard(module, mesh=mesh)
    return sharded


def write(folder: Path, weights: dict[str, Tensor], moments: dict[str, Tensor]) -> None:
    """Writes the parts of all ranks; all must call it."""
    state = {WEIGHTS + name: tensor for name, tensor in weights.items()}
    state |= {OPTIMISER + name: tensor for name, tensor in moments.items()}
    save(state, storage_writer=HuggingFaceStorageWriter(str(folder), _files(state), save_distributed=True))


def _files(state: dict[str, Tensor]) -> dict[str, int]:
    """Name of a tensor -> number of the file that a rank writes its part to."""
    numbers: dict[str, int] = {}
    held = FILE_BYTES
    for name, tensor in state.items():
        size = tensor.numel() * tensor.element_size()
        begins = held + size > FILE_BYTES
        numbers[name] = max(numbers.values(), default=0) + begins
        held = size if begins else held + size
    return numbers


def shapes(folder: Path) -> dict[str, torch.Size]:
    """Name of each of the weights -> its whole shape."""
    stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    weights = {name.removeprefix(WEIGHTS): part for name, part in stored.items() if name.startswith(WEIGHTS)}
    return {name: part.size for name, part in weights.items() if isinstance(part, TensorStorageMetadata)}


def read(
    folder: Path, weights: dict[str, Tensor], optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and moments, divided among the ranks as the parameters are now; all ranks must call it."""
    stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    state = {WEIGHTS + name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    moments = (name.removeprefix(OPTIMISER) for name in stored if name.startswith(OPTIMISER))
    likes = dict(_moments(moments, optimiser))
    state |= {OPTIMISER + name: torch.zeros(()) if like is None else torch.zeros_like(like) for name, like in likes.items()}
    load(state, storage_reader=HuggingFaceStorageReader(str(folder)))
    return {name: state[WEIGHTS + name] for name in weights}, {name: state[OPTIMISER + name] for name in likes}


def divided(
    weights: dict[str, Tensor], likes: dict[str, Tensor], moments: dict[str, Tensor], optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Whole weights and moments, divided among the ranks as those of the model are."""
    of_weights = {name: _like(tensor, likes[name]) for name, tensor in weights.items()}
    return of_weights, {name: _like(moments[name], like) for name, like in _moments(moments, optimiser)}


def _like(tensor: Tensor, like: Tensor | None) -> Tensor:
    return distribute_tensor(tensor, like.device_mesh, like.placements) if isinstance(like, DTensor) else tensor


def _moments(names: Iterable[str], optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor | None]]:
    """Name of a moment, and the parameter that it has the shape of; None for a count of steps."""
    parameters = [parameter.detach() for group in optimiser.param_groups for parameter in group["params"]]
    for name in names:
        number, _, moment = name.partition(".")
        yield name, None if moment == "step" else parameters[int(number)]
