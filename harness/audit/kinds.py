"""What a claim may be measured by: one dataclass a kind, whose fields are the keys of a reading in conf/claims/.

`of` and `against` are choices and keys as on the command line: `model=albert scale=base model.hidden_size=1024`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING

from models.ranges import Range, number, numbers

LARGEST = 1e100
"""Claimed number."""

LENGTHS = numbers(at_least=1, limit=1e6)
"""Tokens of texts."""


class Relation(Enum):
    """How the measured value relates to the claimed one."""

    equal = "equal"  # within the tolerance
    at_most = "at_most"
    at_least = "at_least"
    better = "better"  # than `against`, by more than the margin: a higher score, a lower loss, more speed
    no_difference = "no_difference"  # from `against`, beyond the margin


class Part(Enum):
    """A part of a model whose time or FLOPs are measured."""

    model = "model"
    attention = "attention"  # projections and products of all layers
    attention_products = "attention_products"  # of queries with keys, and with values
    visible_pairs = "visible_pairs"  # pairs of tokens that one layer lets see each other; no FLOPs, but what they grow with


@dataclass
class Reading:
    """One way to read a claim; keys that are null are those of the claim."""

    measure: str = MISSING
    beside: bool = False  # explains the claim, and does not decide it; a claim has one reading that decides
    claimed: Any = field(default=None, metadata={"range": Range(limit=LARGEST)})  # a number, or one for each measured point
    relation: Relation | None = None
    tolerance: float | None = number(None, at_least=0)  # share of the claimed value
    margin: float | None = number(None, at_least=0)  # differences below it do not matter, in the unit of the metric


@dataclass
class Parameters(Reading):
    """Parameters on the meta device, each tensor once; with `against` the relative change."""

    of: str = MISSING
    against: str | None = None
    parts: list[str] = field(default_factory=lambda: ["total"])  # they are added
    bytes_each: int | None = number(None, at_least=1)  # null counts parameters, 4 the bytes of float32 weights


@dataclass
class Flops(Reading):
    """FLOPs of one text by length, counted from the operators that run; with `against` the relative change."""

    of: str = MISSING
    against: str | None = None
    part: Part = Part.model
    training: bool = False  # forward and backward
    rate: bool = False  # the relative change of speed, if time were as the FLOPs
    lengths: list[int] = field(default_factory=lambda: [128], metadata=LENGTHS)


@dataclass
class TrainingMemory(Reading):
    """Bytes of weights, gradients, AdamW's moments and activations of one training step in float32, by formula."""

    of: str = MISSING
    lengths: list[int] = field(default_factory=lambda: [128], metadata=LENGTHS)
    batch_sizes: list[int] = field(default_factory=lambda: [1], metadata=numbers(at_least=1, limit=1e6))


@dataclass
class OutputBytes(Reading):
    """Bytes of the encoder's output in float32, for texts of so many tokens."""

    of: str = MISSING
    lengths: list[int] = field(default=MISSING, metadata=LENGTHS)


@dataclass
class Config(Reading):
    """A key of the model, or what follows from its keys, such as `longest_text`."""

    of: str = MISSING
    key: str = MISSING


@dataclass
class ActivationDifference(Reading):
    """Largest absolute difference of two non-linearities between `low` and `high`."""

    of: str = MISSING
    against: str = MISSING
    low: float = -4.0
    high: float = 4.0


@dataclass
class OutputDifference(Reading):
    """Largest absolute difference of the outputs of two models with the same weights, by length."""

    of: str = MISSING
    against: str = MISSING
    lengths: list[int] = field(default_factory=lambda: [16], metadata=LENGTHS)


@dataclass
class Ids(Reading):
    """Ids of a text with [CLS] and [SEP] by a vocabulary file, and their number; without a file the fewest there can be."""

    text: str = MISSING
    vocab_file: bool = False  # the file is that of the command line: vocab_file=FILE
    count: bool = False  # the number of ids in place of the ids


@dataclass
class PretrainingDays(Reading):
    """Days that a pretraining would take, by counted FLOPs and FLOP/s of one device: an extrapolation."""

    of: str = MISSING
    tokens: float = number(MISSING, above=0, limit=1e30)  # of all epochs together
    devices: int = number(1, at_least=1)
    shares: dict[int, float] = field(default_factory=lambda: {128: 1.0})  # length of sequences: share of the tokens
    flops_per_s: list[float] = field(
        default_factory=list, metadata=numbers(above=0, limit=1e30)
    )  # that one device sustains; empty: the peak measured here


@dataclass
class Speed(Reading):
    """Relative change of time, timed with `--measure`: interleaved rounds in this process, by length."""

    of: str = MISSING
    against: str = MISSING
    part: Part = Part.model
    training: bool = False  # forward and backward
    rate: bool = False  # the relative change of speed, not of time
    lengths: list[int] = field(default_factory=lambda: [128], metadata=LENGTHS)
    batch_size: int = number(1, at_least=1, limit=1e6)


@dataclass
class Score(Reading):
    """Difference of two arms in a metric, over finished runs of the tracking store, paired by seed."""

    of: str = MISSING
    against: Any = MISSING  # an arm, or a list of them
    metric: str = "eval/score"
    tasks: list[str] = field(default_factory=list)  # empty: all
    needs: str = ""  # what the runs of both arms must have, such as `pretrain=mlm`
    study: str = ""  # scale, data and budget of the study that would settle it; runs of others count, too


def arms_of(against: str | list[str]) -> list[str]:
    """All arms that a score is compared with."""
    return against if isinstance(against, list) else [against]


@dataclass
class NotTestable(Reading):
    """What cannot be measured here."""

    reason: str = MISSING


KINDS: dict[str, type[Reading]] = {
    "parameters": Parameters,
    "flops": Flops,
    "training_memory": TrainingMemory,
    "output_bytes": OutputBytes,
    "config": Config,
    "activation_difference": ActivationDifference,
    "output_difference": OutputDifference,
    "ids": Ids,
    "pretraining_days": PretrainingDays,
    "speed": Speed,
    "score": Score,
    "not_testable": NotTestable,
}
"""Name in `measure` -> the kind."""
