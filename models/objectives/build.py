"""From the name of an objective to the objective: a new one is its file, its ObjectiveName and its line in OBJECTIVES."""

from models.config import EncoderConfig
from models.encoder import initialise
from models.objectives.base import Objective, Vocabulary, refuse_combinations
from models.objectives.bidirectional import BidirectionalLM
from models.objectives.causal import CausalLM
from models.objectives.cbow import ContinuousBagOfWords
from models.objectives.config import ObjectiveConfig, ObjectiveName
from models.objectives.distillation import Distillation, Teacher
from models.objectives.masked_lm import MaskedLM
from models.objectives.permutation import PermutationLM
from models.objectives.phases import Phases
from models.objectives.replaced_tokens import ReplacedTokenDetection
from models.objectives.segment_pairs import NextSentence, SentenceOrder
from models.objectives.span_corruption import SpanCorruption

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
