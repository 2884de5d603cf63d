"""Several objectives, one after the other, on one encoder."""

from collections.abc import Sequence

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
        self.phases = nn.ModuleList(phases)

    @property
    def encoder(self) -> Encoder:
        """The encoder of all phases."""
        return self.phases[0].encoder

    def forward(self, batch: PretrainBatch) -> Tensor:
        """() loss in nats of the batch's phase."""
        return self.phases[batch.phase](batch)


def _share(earlier: Objective, later: Objective) -> None:
    """Puts encoder and scores over the vocabulary of the earlier objective in the place of those of the later one."""
    pairs = [(later.encoder, earlier.encoder)]
    heads = [next((one for one in each.children() if isinstance(one, MaskedLMHead)), None) for each in (later, earlier)]
    if None not in heads and len({head.dense.weight.shape for head in heads}) == 1:  # that of a generator is narrower
        pairs += zip(*((head.dense, head.norm, head.output) for head in heads), strict=True)
    both = [modules for pair in pairs for modules in zip(*(module.modules() for module in pair), strict=True)]
    modules = dict(both)
    weights = dict(tensors for pair in both for tensors in zip(*(one.parameters(recurse=False) for one in pair), strict=True))
    for parent in [*later.modules()]:
        for name, module in parent.named_children():
            setattr(parent, name, modules.get(module, module))
        for name, weight in parent.named_parameters(recurse=False):  # also an output matrix that is the token embedding
            setattr(parent, name, weights.get(weight, weight))
