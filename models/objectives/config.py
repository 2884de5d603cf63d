"""Pretraining objectives as plain data; each field is read in one class of this package."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from harness.models.ranges import (
    Refused,
    When,
    added,
    count,
    not_negative,
    option,
    place,
    positive,
    proper_share,
    refuse_out_of_range,
    share,
)


class ObjectiveName(Enum):
    """What is predicted."""

    none = "none"  # no pretraining
    own = "own"  # objective of the model's paper, `model.objective`
    mlm = "mlm"  # masked language modelling (arXiv:1810.04805, section 3.1)
    mlm_nsp = "mlm_nsp"  # mlm with next sentence prediction (arXiv:1810.04805)
    mlm_sop = "mlm_sop"  # mlm with sentence order prediction (arXiv:1909.11942, section 3.1)
    rtd = "rtd"  # replaced token detection (arXiv:2003.10555)
    clm = "clm"  # causal language modelling
    plm = "plm"  # permutation language modelling (arXiv:1906.08237)
    distillation = "distillation"  # mlm with a teacher's predictions (arXiv:1910.01108)
    cbow = "cbow"  # continuous bag of words (arXiv:1301.3781)
    bidirectional_lm = "bidirectional_lm"  # next and previous token (arXiv:1802.05365)
    span_corruption = "span_corruption"  # corrupted spans, text to text (arXiv:1910.10683, section 3.1.4)


class Masking(Enum):
    """What is masked: tokens, whole words, or spans of words (arXiv:1907.10529)."""

    token = "token"
    word = "word"
    span = "span"


class MatchedLayers(Enum):
    """Whose hidden states a student imitates: of the last layer, or of every layer and the embeddings."""

    last = "last"
    all = "all"


class PairKind(Enum):
    """How half of the pairs of consecutive segments are changed."""

    next = "next"  # the second comes from another document (arXiv:1810.04805, section 3.1)
    order = "order"  # the segments are swapped (arXiv:1909.11942, section 3.1)


MASKED_OBJECTIVES = (ObjectiveName.mlm, ObjectiveName.mlm_nsp, ObjectiveName.mlm_sop, ObjectiveName.rtd)
"""Objectives that replace tokens; a distillation does where it learns predictions."""


def pretrains_by(*names: ObjectiveName) -> When:
    """The condition that the objective, or that of a phase, is one of these."""
    why = names[0].value if len(names) == 1 else "an objective that reads it"
    return When(lambda _, own: {*names} & own.objectives, f"pretrains by {why}", f"pretrain={names[0].value}")


PHASED = When(lambda _, own: own.phases, "has phases", "pretrain=[clm,mlm]")
MASKED = When(lambda _, own: own.predicts_masked(), "predicts masked tokens", "pretrain=mlm")
PREDICTING = When(
    lambda _, own: own.predicts_masked() or ObjectiveName.cbow in own.objectives, "predicts masked tokens", "pretrain=mlm"
)
SPANNED = When(lambda _, own: own.masking is Masking.span, "masks spans of words", "pretrain.masking=span")
SAMPLED = When(
    lambda _, own: own.objectives - {ObjectiveName.clm, ObjectiveName.bidirectional_lm},
    "samples what is predicted",
    "pretrain=mlm",
)
DISTILLING = pretrains_by(ObjectiveName.distillation)
SOFT = When(lambda _, own: own.soft_weight, "learns a teacher's probabilities", "pretrain.soft_weight=5")
HIDDEN = When(lambda _, own: own.hidden_weight, "learns a teacher's hidden states", "pretrain.hidden_weight=1")
PROBED = When(
    lambda _, own: own.objective is ObjectiveName.rtd or not own.predicts_masked({own.objective}),
    "needs a probe for masked tokens",
    "pretrain=clm",
    Refused.swept,
)


@dataclass
class ObjectiveConfig:
    """Shares are fractions of 1. The defaults are those of the papers."""

    objective: ObjectiveName = ObjectiveName.none  # Pretraining objective.
    plugin: str | None = added(
        None
    )  # Name of an objective from another package; `objective` names the built-in it resembles. Example: my_objective.
    phases: list[ObjectiveName] = added(
        []
    )  # Objectives of successive phases, `objective` last; pretrain=[clm,mlm] is the same. Example: [clm,mlm].
    shares: list[float] = share(
        [], PHASED, earlier=...
    )  # Shares of the budget, one per phase; empty divides it equally. Example: [0.25,0.75].
    # Masks
    mask_rate: float = proper_share(0.15, PREDICTING)  # Share of the tokens of a sequence that are predicted.
    masking: Masking = option(Masking.token, PREDICTING)  # Unit that is masked: tokens, whole words or spans.
    static_masks: bool = option(False, SAMPLED)  # Keep the mask of a sequence in every epoch.
    masked_share: float | None = not_negative(
        None, MASKED, at_most=1
    )  # Share of the predicted tokens replaced by [MASK]. Null: 0.8; rtd: 1. Example: 1.
    random_share: float | None = not_negative(
        None, MASKED, at_most=1
    )  # Share of the predicted tokens replaced by a random token. Null: 0.1 at most; rtd: 0. Example: 0.
    mean_span: float = positive(3.8, SPANNED)  # Mean words per masked span, at most 10 (arXiv:1907.10529, section 3.1).
    # Span corruption (arXiv:1910.10683, sections 3.3.3 and 3.3.4)
    noise_density: float = proper_share(
        0.15, pretrains_by(ObjectiveName.span_corruption), earlier=...
    )  # Share of the tokens of a sequence inside corrupted spans.
    mean_noise_span_length: float = count(
        3.0, pretrains_by(ObjectiveName.span_corruption), earlier=...
    )  # Mean tokens per corrupted span.
    # Detection
    generator_fraction: float = proper_share(
        0.25, pretrains_by(ObjectiveName.rtd)
    )  # Size of the generator relative to the encoder: hidden size, heads and feed-forward.
    detection_weight: float = positive(
        50.0, pretrains_by(ObjectiveName.rtd)
    )  # Weight of the detection loss; the generator's loss has weight 1.
    # Permutation
    predicted_share: float = proper_share(
        1 / 6, pretrains_by(ObjectiveName.plm)
    )  # Share of the permuted tokens that are predicted, from the end.
    # Distillation: weights of the losses, and the temperature of the teacher's probabilities
    teacher: str | None = place(
        None, DISTILLING
    )  # Teacher: a run, folder or hub name. Null: the weights the student is derived from. Example: bert-base-uncased.
    temperature: float = positive(2.0, (DISTILLING, SOFT))  # Temperature of the logits of teacher and student.
    soft_weight: float = not_negative(5.0, DISTILLING)  # Weight of the distance to the teacher's predictions.
    masked_weight: float = not_negative(2.0, DISTILLING)  # Weight of the masked-LM loss.
    cosine_weight: float = not_negative(
        1.0, DISTILLING
    )  # Weight of the cosine loss of hidden states; 0 allows different hidden sizes.
    hidden_weight: float = not_negative(
        0.0, DISTILLING, earlier=...
    )  # Weight of the squared error of hidden states (arXiv:1909.10351).
    matched_layers: MatchedLayers = added(MatchedLayers.all, (DISTILLING, HIDDEN))  # Layers whose hidden states are matched.
    relation_weight: float = not_negative(
        0.0, DISTILLING, earlier=...
    )  # Weight of the last layer's token relations (arXiv:2012.15828).
    # Continuous bag of words
    context: int = count(5, pretrains_by(ObjectiveName.cbow))  # Context tokens on each side (cbow).

    def __post_init__(self) -> None:
        refuse_out_of_range(self, "pretrain.")
        if self.mask_token_share + self.random_token_share > 1:
            shares = f"pretrain.masked_share={self.mask_token_share} and pretrain.random_share={self.random_token_share}"
            raise ValueError(f"{shares} exceed 1 together")

    @property
    def objectives(self) -> set[ObjectiveName]:
        """Objectives of all phases."""
        return {self.objective, *self.phases}

    def predicts_masked(self, objectives: set[ObjectiveName] | None = None) -> bool:
        """Whether one of these, or of its own, replaces tokens that it predicts."""
        objectives = objectives or self.objectives
        is_taught = ObjectiveName.distillation in objectives and (self.soft_weight or self.masked_weight)
        return bool({*MASKED_OBJECTIVES} & objectives or is_taught)

    @property
    def of_phases(self) -> list[Self]:
        """The config of each phase; a single objective's is itself. A plug-in takes the place of `objective`."""
        plugins = {self.objective: self.plugin}
        return [replace(self, objective=name, phases=[], shares=[], plugin=plugins.get(name)) for name in self.phases] or [self]

    @property
    def title(self) -> str:
        """`mlm`, of phases `clm-mlm`."""
        return "-".join(phase.objective.value for phase in self.of_phases)

    @property
    def mask_token_share(self) -> float:
        """Share of the predicted tokens that are replaced by [MASK]; by default all of them for a generator."""
        if self.masked_share is not None:
            return self.masked_share
        return 1.0 if self.objective is ObjectiveName.rtd else 0.8

    @property
    def random_token_share(self) -> float:
        """Share of the predicted tokens that are replaced by a random one."""
        if self.random_share is not None:
            return self.random_share
        return 0.0 if self.objective is ObjectiveName.rtd else min(0.1, 1 - self.mask_token_share)
