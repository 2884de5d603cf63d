"""Pretraining objectives as plain data; each field is read in one class of this package."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self

from harness.models.ranges import number, numbers, refuse_out_of_range


class ObjectiveName(Enum):
    """What is predicted."""

    none = "none"  # nothing: no pretraining
    own = "own"  # that of the variant's paper, `model.objective`
    mlm = "mlm"  # masked tokens (arXiv:1810.04805, section 3.1)
    mlm_nsp = "mlm_nsp"  # and whether two segments follow each other (arXiv:1810.04805)
    mlm_sop = "mlm_sop"  # and whether two segments are in order (arXiv:1909.11942, section 3.1)
    rtd = "rtd"  # which tokens a small generator replaced (arXiv:2003.10555)
    clm = "clm"  # the next token
    plm = "plm"  # tokens in a random order (arXiv:1906.08237)
    distillation = "distillation"  # masked tokens, and the teacher's predictions of them (arXiv:1910.01108)
    cbow = "cbow"  # a token from the mean of its neighbours (arXiv:1301.3781)
    bidirectional_lm = "bidirectional_lm"  # the next and the previous token (arXiv:1802.05365)
    span_corruption = "span_corruption"  # spans of tokens, from text to text (arXiv:1910.10683, section 3.1.4)


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
    order = "order"  # they are swapped (arXiv:1909.11942, section 3.1)


@dataclass
class ObjectiveConfig:
    """Shares are fractions of 1. The defaults are those of the papers."""

    objective: ObjectiveName = ObjectiveName.none  # what is predicted
    phases: list[ObjectiveName] = field(
        default_factory=list
    )  # several objectives one after the other, `objective` last; on the command line also pretrain=[clm,mlm]
    shares: list[float] = field(
        default_factory=list, metadata=numbers(above=0, at_most=1)
    )  # of the budget, one for each phase, such as [0.25,0.75]; empty: equal ones
    # Masks
    mask_rate: float = number(0.15, above=0, below=1)  # share of a sequence's tokens that are predicted
    masking: Masking = Masking.token  # what is masked as one
    static_masks: bool = False  # a sequence has the same mask in every epoch
    masked_share: float | None = number(
        None, at_least=0, at_most=1
    )  # of the predicted tokens: replaced by [MASK]; None: 0.8, and all of them for rtd
    random_share: float | None = number(
        None, at_least=0, at_most=1
    )  # of the predicted tokens: replaced by a random one; None: 0.1 or what is left, and none for rtd
    mean_span: float = number(3.8, above=0)  # words of a span on average, at most 10 (arXiv:1907.10529, section 3.1)
    # Span corruption (arXiv:1910.10683, sections 3.3.3 and 3.3.4)
    noise_density: float = number(0.15, above=0, below=1)  # share of a sequence's tokens that are in spans
    mean_noise_span_length: float = number(3.0, at_least=1)  # tokens of a span on average
    # Detection
    generator_fraction: float = number(
        0.25, above=0, below=1
    )  # generator's hidden size, heads and feed-forward against the encoder's
    detection_weight: float = number(50.0, above=0)  # of its loss, where that of the generator has 1
    # Permutation
    predicted_share: float = number(1 / 6, above=0, below=1)  # last tokens of the order, which are predicted
    # Distillation: weights of the losses, and the temperature of the teacher's probabilities
    teacher: str | None = None  # a run or its folder, or a published checkpoint; None: the weights that the student is made of
    temperature: float = number(2.0, above=0)  # by which the logits of both are divided
    soft_weight: float = number(5.0, at_least=0)  # of the distance to the teacher's probabilities
    masked_weight: float = number(2.0, at_least=0)  # of the masked tokens' own loss
    cosine_weight: float = number(1.0, at_least=0)  # of the angle between the hidden states of both; 0: their sizes may differ
    hidden_weight: float = number(0.0, at_least=0)  # of the squared error of the hidden states (arXiv:1909.10351)
    matched_layers: MatchedLayers = MatchedLayers.all  # whose hidden states these are
    relation_weight: float = number(0.0, at_least=0)  # of the last layer's relations between tokens (arXiv:2012.15828)
    # Continuous bag of words
    context: int = number(5, at_least=1)  # tokens to each side

    def __post_init__(self) -> None:
        refuse_out_of_range(self, "pretrain.")
        if self.mask_token_share + self.random_token_share > 1:
            shares = f"pretrain.masked_share={self.mask_token_share} and pretrain.random_share={self.random_token_share}"
            raise ValueError(f"{shares} exceed 1 together")

    @property
    def of_phases(self) -> list[Self]:
        """The config of each phase; of one objective this one."""
        return [replace(self, objective=name, phases=[], shares=[]) for name in self.phases] or [self]

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
