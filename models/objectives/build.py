"""From the name of an objective to the objective: a new one is its file, its ObjectiveName and its line in OBJECTIVES."""

from harness.models.config import EncoderConfig
from harness.models.encoder import initialise
from harness.models.objectives.base import Objective, Vocabulary, refuse_combinations
from harness.models.objectives.bidirectional import BidirectionalLM
from harness.models.objectives.causal import CausalLM
from harness.models.objectives.cbow import ContinuousBagOfWords
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.distillation import Distillation, Teacher
from harness.models.objectives.masked_lm import MaskedLM
from harness.models.objectives.permutation import PermutationLM
from harness.models.objectives.phases import Phases
from harness.models.objectives.replaced_tokens import ReplacedTokenDetection
from harness.models.objectives.segment_pairs import NextSentence, SentenceOrder
from harness.models.objectives.span_corruption import SpanCorruption

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


def build(
    config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary, seed: int, teacher: Teacher | None = None
) -> Objective | Phases:
    """The objective on CPU, randomly initialised from `seed`; tensors that a classifier has too start with the same values.

    Several phases start with the values of the first one. ValueError as `refuse_misfit` raises it, or for a teacher that does
    not fit.
    """
    refuse_misfit(config, shape)
    arguments = () if teacher is None else (teacher,)
    phases = [OBJECTIVES[phase.objective](phase, shape, vocabulary, *arguments) for phase in config.of_phases]
    whole = phases[0] if len(phases) == 1 else Phases(phases)
    for phase in reversed(phases):
        initialise(phase, shape.initializer_range, seed, shape.init, shape.init_depth)
    return whole


def refuse_misfit(config: ObjectiveConfig, shape: EncoderConfig) -> None:
    """ValueError, naming both keys, for an architecture that one of the objectives cannot train."""
    for phase in config.of_phases:
        refuse_combinations(f"objective={phase.objective.value}", OBJECTIVES[phase.objective].misfits(shape))
