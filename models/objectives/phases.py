"""Several objectives, one after the other, on one encoder."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Objective, PretrainBatch


class Phases(nn.Module):
    """Objectives that train one encoder one after the other, such as clm and then mlm (arXiv:2507.00994, section 3).

    Scores over the vocabulary are one head in all of them where it has one shape; what else an objective has is its own. Each
    batch says its phase, whose objective decides what a token sees.
    """

    def __init__(self, phases: Sequence[Objective]) -> None:
        super().__init__()
        for number, later in enumerate(phases):
            for earlier in phases[:number]:
                _share(earlier, later)
        self.phases = cast(Sequence[Objective], nn.ModuleList(phases))

    @property
    def encoder(self) -> Encoder:
        """The encoder of all phases."""
        return self.phases[0].encoder

    def forward(self, batch: PretrainBatch) -> Tensor:
        """() loss in nats of the batch's phase."""
        return self.phases[batch.phase](batch)


def _share(earlier: Objective, later: Objective) -> None:
    """Puts encoder and scores over the vocabulary of the earlier objective in the place of those of the later one."""
    pairs: list[tuple[nn.Module, nn.Module]] = [(later.encoder, earlier.encoder)]
    new, old = (next((one for one in each.children() if isinstance(one, MaskedLMHead)), None) for each in (later, earlier))
    if new and old and new.dense.weight.shape == old.dense.weight.shape:  # that of a generator is narrower
        pairs += [(new.dense, old.dense), (new.norm, old.norm), (new.output, old.output)]
    both = [modules for pair in pairs for modules in zip(*(module.modules() for module in pair), strict=True)]
    modules = dict(both)
    weights = dict(tensors for pair in both for tensors in zip(*(one.parameters(recurse=False) for one in pair), strict=True))
    for parent in [*later.modules()]:
        for name, module in parent.named_children():
            setattr(parent, name, modules.get(module, module))
        for name, weight in parent.named_parameters(recurse=False):  # also an output matrix that is the token embedding
            setattr(parent, name, weights.get(weight, weight))
