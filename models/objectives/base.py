"""The abstract objective and the batch that it is trained on. B sequences, T tokens, K predicted positions, V vocabulary."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.foreign import make_encoder
from harness.models.heads import MaskedHead, Pooler
from harness.models.losses import IGNORED
from harness.models.objectives.config import ObjectiveConfig, PairKind


@dataclass(frozen=True)
class Vocabulary:
    """Facts about a tokenizer that objectives need."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    word_start: Tensor  # (V,) bool, True for a token that begins a word; punctuation does
    sentinels: tuple[int, ...] = ()  # in the order in which they stand for spans, ids descending where they are trained here

    @property
    def special(self) -> tuple[int, ...]:
        """Tokens that are in no text."""
        return (self.pad, self.cls, self.sep, self.mask, *self.sentinels)


@dataclass
class PretrainBatch:
    """Inputs and targets of one optimizer step. The totals are those of the whole step, also in a micro-batch of it."""

    inputs: Batch  # as the model reads it; its `labels` (B,) are those of segment pairs: 0 in order, 1 not
    positions: Tensor  # (B, K) int64, which positions are predicted
    targets: Tensor  # (B, K) int64, the token of each; IGNORED in unused slots
    total_predictions: int
    total_sequences: int
    phase: int = 0  # which of several objectives is trained on it

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def predictions(self) -> int:
        """Tokens that are predicted in these sequences."""
        return int((self.targets != IGNORED).sum())

    def micro_batch(self, rows: slice) -> "PretrainBatch":
        """Some of the sequences. The totals stay, so that the losses of all micro-batches add up to the loss of the step."""
        return replace(self, inputs=self.inputs.part(rows), positions=self.positions[rows], targets=self.targets[rows])

    def to(self, device: torch.device | str) -> "PretrainBatch":
        """A copy of the batch on `device`."""
        return replace(
            self, inputs=self.inputs.to(device), positions=self.positions.to(device), targets=self.targets.to(device)
        )


class Evaluation(NamedTuple):
    """Sums over the predictions of a batch."""

    loss: float  # nats
    correct: int
    predictions: int


class Objective(nn.Module, ABC):
    """An encoder and the heads that are trained with it. Subclasses are final, or abstract with final ones."""

    segment_pairs: ClassVar[PairKind | None] = None  # how the two segments of a sequence are made; None: it has one

    def __init__(self, config: ObjectiveConfig, shape: EncoderConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._config, self.vocabulary = config, vocabulary
        self.encoder = make_encoder(shape)
        self.masked_head: MaskedHead | None = None  # where the objective predicts [MASK] tokens itself
        self.pooler: Pooler | None = None  # where the objective trains the vector of a text

    @property
    def phases(self) -> Sequence["Objective"]:
        """Objectives that are trained in turn: this one."""
        return (self,)

    @staticmethod
    def misfits(shape: EncoderConfig) -> dict[str, bool]:
        """`KEY=VALUE` of `model` -> whether it holds and the objective cannot train such a model; by default it trains all."""
        return {}

    @abstractmethod
    def make_batch(self, batch: Batch, seeds: list[int]) -> PretrainBatch:
        """(B, T) tokens on CPU without padding, and one seed per sequence -> inputs and targets.

        Parameters of the model have no influence: all variants of a seed are trained on the same targets.
        """

    @abstractmethod
    def forward(self, batch: PretrainBatch) -> Tensor:
        """() loss in nats; the losses of the micro-batches of a step add up to the loss of the step."""

    def evaluate_parts(self, batch: PretrainBatch) -> dict[str, Evaluation]:
        """Name of each auxiliary prediction -> its quality; samples as `forward` does."""
        return {}

    @abstractmethod
    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one sequence, from the shapes of all matrix products."""


def refuse_combinations(setting: str, refused: dict[str, bool]) -> None:
    """ValueError for the first `KEY=VALUE` of `model` that holds and that a setting of the pretraining does not go with."""
    for pair, holds in refused.items():
        if holds:
            raise ValueError(f"pretrain.{setting} cannot be combined with model.{pair}")
