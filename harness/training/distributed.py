"""One training in several processes, called ranks, one a device: torch's own DDP, and a few collective calls.

Every rank trains on its rows of a batch, and of a text reads these alone. Losses are weighted by the counts of the whole
batch, and gradients are summed over the ranks: batches, order, masks and losses do not depend on the number of ranks. With
one rank nothing is communicated.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from harness.config.choices import Device, DeviceSharding
from harness.config.schema import HardwareConfig

LONGEST_WAIT = timedelta(days=30)
"""Timeout while one rank evaluates or writes; if a rank ends, the launcher ends the others at once."""

Loss = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Ranks:
    """The processes of one training, and which of them this is."""

    rank: int = 0
    count: int = 1
    sharded: bool = False  # whether parameters are divided among them: `harness/training/sharding.py`

    @property
    def first(self) -> bool:
        """Whether this is the rank that evaluates, logs and writes."""
        return self.rank == 0

    def share(self, rows: int) -> slice:
        """The part of so many rows that this rank trains on; empty where there are fewer rows than ranks."""
        return slice(rows * self.rank // self.count, rows * (self.rank + 1) // self.count)

    def agreed(self, value: float) -> float:
        """The first rank's value, once that rank has called this, too."""
        if self.count == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)
        distributed.broadcast(shared, 0)
        return shared.item()

    def gathered(self, value: float | None) -> list[float] | None:
        """The value of every rank; None unless all have one."""
        found = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(found, value)
        values = [one for one in found if one is not None]
        return values if len(values) == self.count else None

    def counted(self, number: float) -> int:
        """The sum of a whole number over the ranks."""
        return round(self.summed([torch.tensor(number, dtype=torch.float64)])[0])

    def summed(self, losses: list[Tensor]) -> list[float]:
        """The () losses, each summed over the ranks."""
        if self.count == 1 or not losses:
            return [loss.item() for loss in losses]
        total = torch.stack(losses).double().cpu()
        distributed.all_reduce(total)
        return total.tolist()

    def parallel(self, model: nn.Module, loss: Loss) -> Loss:
        """The loss, whose backward pass averages the gradients of the model over the ranks."""
        if self.count == 1 or self.sharded:
            return loss
        whole = _ModelWithLoss(model, loss)  # parameters that no loss reaches keep no gradient, so they do not decay either
        return DistributedDataParallel(whole, find_unused_parameters=True, gradient_as_bucket_view=True)

    def backward(self, loss: Tensor) -> None:
        """Adds the gradients of the loss. They are averaged over the ranks, so the loss counts as often as there are ranks."""
        (loss if self.count == 1 else loss * self.count).backward()


ALONE = Ranks()


def load_fsdp() -> ModuleType:
    """The module of sharded training."""
    from harness.training import fsdp  # takes more than a second, and only sharded models need it

    return fsdp


def plain(tensor: Tensor) -> Tensor:
    """The whole of a tensor that is divided among the ranks, and any other unchanged; all ranks must call it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def not_empty(rows: slice) -> slice:
    """The rows, or the first one, whose loss is to weigh nothing, where there are none: every rank takes part in every step."""
    return rows if rows.stop > rows.start else slice(0, 1)


class _ModelWithLoss(nn.Module):
    """What is wrapped for communication: from a batch to its loss."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self._loss = model, (loss,)  # a tuple: the loss of a pretraining is the model itself

    def forward(self, batch: Any) -> Tensor:
        return self._loss[0](batch)


BACKENDS = {Device.cpu: "gloo", Device.cuda: "cpu:gloo,cuda:nccl"}
"""Communication backends, on a GPU also for tensors on its CPU."""


def join(hardware: HardwareConfig, store: Any = None) -> Ranks:
    """Joins the ranks of a run in the store, by default in that of the launcher, which sets RANK and WORLD_SIZE."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group(BACKENDS[hardware.device], store=store, rank=rank, world_size=count, timeout=LONGEST_WAIT)
    return Ranks(rank, count, hardware.sharding is DeviceSharding.full)


def leave() -> None:
    """Ends the threads of the communication that nothing holds any more: at the exit of the process they may abort it."""
    distributed.destroy_process_group()
