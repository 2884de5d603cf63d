"""Training with parameters, gradients and moments divided among the ranks: torch's FSDP2 (arXiv:2304.11277).

What is trained is a sharded copy of the model. Before the model itself is evaluated or saved, the first rank collects the
trained weights in it: it must fit on one device for inference. The other ranks keep no whole weights.

What is evaluated and saved are the moving averages where the optimizer keeps them.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import nn

from harness.hardware.device import Machine
from harness.training.distributed import Ranks, load_fsdp, plain
from harness.training.loop import Callback, Position
from harness.training.optimiser import Clipped

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Weights(Generic[M]):
    """The model, what is trained in its place, and where."""

    whole: M
    trained: M  # the model itself, or its sharded copy
    machine: Machine
    ranks: Ranks

    @torch.no_grad()
    def collect(self, optimiser: Clipped) -> None:
        """Brings the model what was trained, on the device of the first rank; all ranks must call it."""
        if self.trained is self.whole:
            optimiser.swap_averages()
            return
        averages = optimiser.averages
        trained = [averages.get(sharded, sharded) for sharded in self.trained.parameters()]
        if not self.ranks.first:
            for sharded in trained:
                plain(sharded)
            return
        self.whole.to(self.machine.device)
        for mine, sharded in zip(self.whole.parameters(), trained, strict=True):
            mine.copy_(plain(sharded))

    def collected(self, callback: Callback, optimiser: Clipped) -> Callback:
        """The callback, which reads the model, with the trained weights in it meanwhile."""

        def run(position: Position) -> None:
            self.collect(optimiser)
            callback.run(position)
            if self.trained is self.whole:
                optimiser.swap_averages()  # back to the weights that are trained
            else:
                self.free()

        return Callback(callback.is_due, run)

    def free(self) -> None:
        """Leaves the device to the sharded copy."""
        self.whole.to("cpu" if self.ranks.first else "meta")


def weights_of(model: M, machine: Machine, ranks: Ranks) -> Weights[M]:
    """What is trained in place of the model: a sharded copy where ranks shard their weights, and else the model."""
    if not ranks.sharded:
        return Weights(model, model, machine, ranks)
    weights = Weights(model, load_fsdp().sharded_copy(model, machine.device, ranks.count), machine, ranks)
    weights.free()
    return weights
