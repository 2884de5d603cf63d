"""From the name of an objective to the objective."""

from models.config import EncoderConfig
from models.encoder import initialise
from models.objectives.causal import Bidirectional, Causal
from models.objectives.cbow import ContinuousBag
from models.objectives.config import ObjectiveConfig, ObjectiveName, PairKind
from models.objectives.detection import ReplacedTokenDetection
from models.objectives.distillation import Distillation, Teacher
from models.objectives.masked import MaskedTokens, MaskedTokensOfPairs
from models.objectives.permutation import Permutation
from models.objectives.question import Objective, Vocabulary

OBJECTIVES: dict[ObjectiveName, type[Objective]] = {
    ObjectiveName.mlm: MaskedTokens,
    ObjectiveName.mlm_nsp: MaskedTokensOfPairs,
    ObjectiveName.mlm_sop: MaskedTokensOfPairs,
    ObjectiveName.rtd: ReplacedTokenDetection,
    ObjectiveName.clm: Causal,
    ObjectiveName.plm: Permutation,
    ObjectiveName.distillation: Distillation,
    ObjectiveName.cbow: ContinuousBag,
    ObjectiveName.bidirectional_lm: Bidirectional,
}

PAIRS = {ObjectiveName.mlm_nsp: PairKind.next, ObjectiveName.mlm_sop: PairKind.order}
"""Objectives that ask about two segments, and how those are made."""


def build(
    config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary, seed: int, teacher: Teacher | None = None
) -> Objective:
    """The objective on CPU with initial values drawn from `seed`, those of a classifier where it has the same tensors.

    ValueError as `refuse_misfit` raises it, or for a teacher that does not fit.
    """
    refuse_misfit(config, shape)
    more = () if teacher is None else (teacher,)
    objective = OBJECTIVES[config.objective](config, shape, vocabulary, *more)
    initialise(objective, shape.initializer_range, seed, shape.init, shape.depth)
    return objective


def refuse_misfit(config: ObjectiveConfig, shape: EncoderConfig) -> None:
    """ValueError for an objective that this architecture cannot be trained by; the message names both keys."""
    OBJECTIVES[config.objective].refuse(config, shape)
