"""What every kind of task answers: what its labels are, how its texts become ids, and what its logits say.

A split has items, the rows of the data set, and sequences, which are what the model reads; only of kind `spans` are there more
sequences than items. N tokens of all sequences, S sequences, C outputs.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow
from tokenizers import Encoding, Tokenizer

from harness.config.schema import TaskConfig
from harness.tasks.rows import Table
from models.batch import Batch
from models.heads import Classifier, SequenceClassifier, TokenClassifier


@dataclass
class Examples:
    """The checked rows of a split. `texts` has one or two strings a row, or the words of a row."""

    texts: list[list[str]]
    labels: list
    items: list[int] | list[str]
    where: str  # how an error begins


@dataclass
class Split:
    """Tokenised sequences, one after the other in flat arrays; sequence i is `starts[i]` to `starts[i + 1]`."""

    ids: np.ndarray  # (N,) int32
    types: np.ndarray  # (N,) uint8
    starts: np.ndarray  # (S + 1,) int64
    labels: np.ndarray  # (S,) int64 or float32, (N,) int64 of tokens, or (S, 2) int64 places in the sequence
    items: Sequence[int] | Sequence[str]  # the rows' own ids
    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # what the kind keeps beside
    texts: dict[str, list] = field(default_factory=dict)  # the same, one entry an item
    labels_of_tokens: bool = False  # the labels are (N,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence."""
        return np.diff(self.starts)

    def ids_of_items(self) -> list[np.ndarray]:
        """(tokens,) of each item, its sequences one after the other."""
        owners = self.numbers.get("owners", np.arange(len(self)))
        firsts = self.starts[np.flatnonzero(np.diff(owners, prepend=-1))]
        return np.split(self.ids, firsts[1:])


@dataclass
class Answers:
    """What the model said of a split: as the scores take it, and as a table."""

    truth: Any
    predicted: Any
    constant: Any  # what the rule answers that does not look at the text
    loss: float
    columns: dict[str, Any]  # column -> values


class Kind(ABC):
    """One kind of task. InputErrors begin with the split and name the row and the key."""

    every_token: bool = False  # the head answers for every token
    labels_of_tokens: bool = False  # every token has a label

    @abstractmethod
    def num_outputs(self, task: TaskConfig) -> int:
        """Outputs of the head."""

    @abstractmethod
    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for fields or labels that no task of this kind has."""

    @abstractmethod
    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The rows, checked."""

    @abstractmethod
    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """The rows as ids."""

    @abstractmethod
    def majority(self, task: TaskConfig, train: Examples) -> int:
        """What the constant answer is, by the training split."""

    @abstractmethod
    def answers(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Answers:
        """(S, C) logits, or (N, C) where the head answers for every token, read as answers."""

    def head(self) -> "type[Classifier]":
        """What stands on the encoder."""
        return TokenClassifier if self.every_token else SequenceClassifier

    def loss(self, model: "Classifier", batch: "Batch") -> Any:
        """() loss of a batch, a mean over `asked`."""
        return model.loss(model(batch), batch.labels)

    def asked(self, batch: "Batch") -> int:
        """How many labels the mean is over."""
        return len(batch.input_ids)


def logit_columns(logits: np.ndarray, seen: np.ndarray | None = None) -> dict[str, Any]:
    """(R, C) as C columns, null where a row was not seen."""
    mask = None if seen is None else ~seen
    return {f"logit_{index}": pyarrow.array(logits[:, index], mask=mask) for index in range(logits.shape[1])}


def joined(encodings: Sequence["Encoding"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, types and starts of a Split."""
    lengths = [len(encoding.ids) for encoding in encodings]
    return (
        np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings]),
        np.concatenate([np.asarray(encoding.type_ids, dtype=np.uint8) for encoding in encodings]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )
