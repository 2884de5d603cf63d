"""The interface of a kind of task: its labels, the encoding of its texts as ids, and predictions from its logits.

The items of a split are the rows of the data set, its sequences are the model's inputs; only tasks of kind `spans` have more
sequences than items. N tokens of all sequences, S sequences, C outputs.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow
import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn import functional as F

from harness.config.schema import TaskConfig
from harness.errors import InputError, present
from harness.models.batch import Batch
from harness.models.heads import Classifier, SequenceClassifier, TokenClassifier
from harness.models.losses import IGNORED
from harness.models.objectives.distillation import soft_loss
from harness.tasks.rows import Table


@dataclass
class Examples:
    """The checked rows of a split. `texts` has one or two strings per row, or the words of the row."""

    texts: list[list[str]]
    labels: list[Any]
    items: list[int] | list[str]  # ids of the rows
    where: str  # prefix of error messages: task and split
    corpus: dict[str, str] = field(default_factory=dict)  # of `Table`


@dataclass
class Split:
    """Tokenised sequences, one after the other in flat arrays; sequence i is `starts[i]` to `starts[i + 1]`."""

    ids: np.ndarray  # (N,) int32
    types: np.ndarray  # (N,) uint8
    starts: np.ndarray  # (S + 1,) int64
    labels: np.ndarray  # (S,) int64 or float32, (N,) int64 of tokens, or (S, 2) int64 positions in the sequence
    items: Sequence[int] | Sequence[str]  # ids of the rows
    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # additional arrays of this kind of task
    texts: dict[str, list[Any]] = field(default_factory=dict)  # additional values of this kind, one per item
    labels_of_tokens: bool = False  # the labels are (N,)
    answers: np.ndarray | None = None  # (S, C) or (N, C) float32 logits of a teacher
    cut: float = 0.0  # share of the texts that were truncated; known only where they were just encoded

    def __len__(self) -> int:
        return (len(self.starts) - 1) // self.group

    @cached_property
    def group(self) -> int:
        """Sequences of an item that has one label for all of them, one after the other: the choices of a multiple choice."""
        return int(self.numbers.get("group", [1])[0])

    @cached_property
    def lengths(self) -> np.ndarray:
        """(S,) tokens of each sequence; where several have one label, (S / group,) of the longest of them."""
        return np.diff(self.starts).reshape(-1, self.group).max(axis=1)

    @cached_property
    def second(self) -> "Split | None":
        """The second texts of pairs, each once, which the labels number; None where there are none."""
        if "second_ids" not in self.numbers:
            return None
        ids, types, starts = (self.numbers[f"second_{name}"] for name in ("ids", "types", "starts"))
        return Split(ids, types, starts, np.arange(len(starts) - 1), [])

    def ids_of_items(self) -> list[np.ndarray]:
        """(tokens,) ids of each item, its sequences concatenated."""
        owners = self.numbers.get("owners", np.arange(len(self)))
        firsts = self.starts[np.flatnonzero(np.diff(owners, prepend=-1))]
        return np.split(self.ids, firsts[1:])


@dataclass
class Predictions:
    """Predictions of a split: labels and predictions as the scores take them, and a table for predictions.parquet."""

    labels: Any
    predicted: Any
    baseline: Any  # predictions of the majority baseline
    loss: float | None  # None: it has none
    columns: dict[str, Any]  # column -> values


class Kind(ABC):
    """One kind of task. InputErrors name the split, the row and the key."""

    columns: tuple[int, ...] = (1, 2)  # how many `task.fields` may name
    expected: str = "one or two columns of texts"
    has_classes: bool = False  # `task.labels` names them
    outputs: int | None = None  # of the head; None: one per class
    every_token: bool = False  # the head has outputs for every token
    labels_of_tokens: bool = False  # every token has a label

    def num_outputs(self, task: TaskConfig) -> int:
        """Number of outputs of the head."""
        return len(task.labels) if self.outputs is None else self.outputs

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for fields, labels or lengths that do not fit this kind of task."""
        if len(task.fields) not in self.columns:
            raise InputError(f"task.fields={task.fields} of task {task.name!r} must name {self.expected}")
        if task.labels and not self.has_classes:
            raise InputError(f"task.labels={task.labels} of task {task.name!r} must be empty: task.kind is {task.kind.value}")

    @abstractmethod
    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The checked rows of a split."""

    @abstractmethod
    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """The tokenised rows."""

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """Parameter of the majority baseline, from the training split; 0 where there is nothing to choose."""
        return 0

    @abstractmethod
    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Predictions from (S, C) logits, or from (N, C) where the head has outputs for every token."""

    def head(self) -> "type[Classifier]":
        """The head on the encoder."""
        return TokenClassifier if self.every_token else SequenceClassifier

    def loss(self, model: "Classifier", batch: "Batch") -> Tensor:
        """() loss of a batch, the mean over `num_targets` labels."""
        return self.loss_of(model, model(batch), batch)

    def loss_of(self, model: "Classifier", logits: Tensor, batch: "Batch") -> Tensor:
        """Predictions from the logits of the model."""
        return model.loss(logits, present(batch.labels))

    def soft_loss(self, logits: Tensor, answers: Tensor, batch: "Batch", temperature: float) -> Tensor:
        """() divergence in nats from a teacher's answers, the mean over `num_targets` labels; squared error for a regression.

        `answers` are its logits, of the shape of `logits`; both are divided by the temperature (arXiv:1503.02531).
        """
        if logits.shape[-1] == 1:
            return F.mse_loss(logits.float(), answers.float())
        counted = present(batch.labels) != IGNORED if self.labels_of_tokens else torch.ones(len(logits), device=logits.device)
        return soft_loss(logits.float(), answers.float(), counted, temperature) / counted.sum().clamp(min=1)

    def num_targets(self, batch: "Batch") -> int:
        """Number of labels that count in the loss of a batch."""
        return batch.items


def logit_columns(logits: np.ndarray, has_logits: np.ndarray | None = None) -> dict[str, Any]:
    """(R, C) as C columns; null in rows for which the (R,) `has_logits` is False."""
    mask = None if has_logits is None else ~has_logits
    return {f"logit_{index}": pyarrow.array(logits[:, index], mask=mask) for index in range(logits.shape[1])}


def cut_share(encodings: Sequence["Encoding"]) -> float:
    """Share of these sequences that were truncated."""
    return float(np.mean([bool(encoding.overflowing) for encoding in encodings]))


def joined(encodings: Sequence["Encoding"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, types and starts of these sequences, as a Split has them."""
    return (
        np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings]),
        np.concatenate([np.asarray(encoding.type_ids, dtype=np.uint8) for encoding in encodings]),
        np.concatenate([[0], np.cumsum([len(encoding.ids) for encoding in encodings])]).astype(np.int64),
    )
