"""Builds an objective from its name: a new one takes a file, an ObjectiveName and a line in OBJECTIVES.

One of another package is a subclass of `Objective` with the entry point `objective.NAME`. Several may be trained in turn.
"""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from harness.errors import InputError
from harness.models.config import EncoderConfig, class_of
from harness.models.encoder import Encoder, initialise, seeded
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary, refuse_combinations
from harness.models.objectives.causal import BidirectionalLM, CausalLM
from harness.models.objectives.cbow import ContinuousBagOfWords
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.distillation import Distillation, Teacher
from harness.models.objectives.masked_lm import MaskedLM, NextSentence, SentenceOrder
from harness.models.objectives.permutation import PermutationLM
from harness.models.objectives.replaced_tokens import ReplacedTokenDetection
from harness.models.objectives.span_corruption import SpanCorruption


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


OBJECTIVES: dict[ObjectiveName, type[Objective]] = {
    ObjectiveName.mlm: MaskedLM,
    ObjectiveName.mlm_nsp: NextSentence,
    ObjectiveName.mlm_sop: SentenceOrder,
    ObjectiveName.rtd: ReplacedTokenDetection,
    ObjectiveName.clm: CausalLM,
    ObjectiveName.plm: PermutationLM,
    ObjectiveName.distillation: Distillation,
    ObjectiveName.cbow: ContinuousBagOfWords,
    ObjectiveName.bidirectional_lm: BidirectionalLM,
    ObjectiveName.span_corruption: SpanCorruption,
}


def kind_of(config: ObjectiveConfig) -> type[Objective]:
    """The class of the objective; InputError for one of another package that cannot be used."""
    if config.plugin is None:
        return OBJECTIVES[config.objective]
    kind = class_of("objective", config.plugin, "pretrain.plugin")
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        raise InputError(f"pretrain.plugin={config.plugin}: expected a class of harness.models.objectives.base.Objective")
    return kind


def build(
    config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary, seed: int, teacher: Teacher | None = None
) -> Objective | Phases:
    """The objective on CPU, randomly initialised from `seed`; tensors that a classifier has too start with the same values.

    Several phases start with the values of the first one. ValueError as `refuse_misfit` raises it, or for a teacher that does
    not fit.
    """
    refuse_misfit(config, shape)
    arguments = () if teacher is None else (teacher,)
    with seeded(seed):
        phases = [kind_of(phase)(phase, shape, vocabulary, *arguments) for phase in config.of_phases]
    whole = phases[0] if len(phases) == 1 else Phases(phases)
    for phase in reversed(phases):
        initialise(phase, shape.initializer_range, seed, shape.init, shape.init_depth)
    return whole


def refuse_misfit(config: ObjectiveConfig, shape: EncoderConfig) -> None:
    """ValueError, naming both keys, for an architecture that one of the objectives cannot train."""
    for phase in config.of_phases:
        refuse_combinations(f"objective={phase.objective.value}", kind_of(phase).misfits(shape))
