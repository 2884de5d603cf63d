"""One label per text or pair of texts: a class, or a number."""

from abc import abstractmethod

import numpy as np
from tokenizers import Tokenizer
from torch import from_numpy
from torch.nn.functional import cross_entropy, mse_loss

from harness.config.schema import TaskConfig
from harness.errors import InputError
from harness.tasks.base import Examples, Kind, Predictions, Split, joined, logit_columns
from harness.tasks.rows import HIDDEN, Table


class _OneLabel(Kind):
    """The common part of classification and regression."""

    dtype: type

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError unless there are one or two text columns."""
        if len(task.fields) not in (1, 2):
            raise InputError(f"task.fields={task.fields} of task {task.name!r} must name one or two text columns")

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The checked rows; InputError for a row without text or with an invalid label."""
        texts = [list(texts) for texts in zip(*(table.columns[column] for column in task.fields), strict=True)]
        refuse_missing_texts(texts, table.where)
        labels = table.columns[task.label]
        for row, label in enumerate(labels):
            self._refuse_label(task, label, f"{table.where}, row {row}")
        return Examples(texts, list(labels), table.items, table.where)

    @abstractmethod
    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S, C) -> (S,) predictions; needs no labels."""

    @abstractmethod
    def _refuse_label(self, task: TaskConfig, label: object, where: str) -> None: ...

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence per row, truncated to task.max_length."""
        tokenizer.enable_truncation(task.max_length)
        inputs = [texts[0] if len(texts) == 1 else tuple(texts) for texts in examples.texts]
        parts = joined(tokenizer.encode_batch(inputs))
        return Split(*parts, np.asarray(examples.labels, dtype=self.dtype), examples.items)


class Classification(_OneLabel):
    """One class per text or pair."""

    dtype = np.int64

    def num_outputs(self, task: TaskConfig) -> int:
        """One output per class."""
        return len(task.labels)

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for fewer than two classes, and for F1 with more than two."""
        super().refuse_impossible(task)
        if not task.labels:
            return  # `load_table` names the labels of the rows in its error
        if len(task.labels) < 2:
            raise InputError(
                f"task.labels={task.labels} of task {task.name!r} must name two classes or more; "
                "for numeric labels set task.kind=regression"
            )
        if "f1" in task.scores and len(task.labels) != 2:
            raise InputError(f"task.scores: 'f1' needs two labels, task {task.name!r} has {len(task.labels)}; use 'f1_macro'")

    def _refuse_label(self, task: TaskConfig, label: object, where: str) -> None:
        refuse_class(task, label, where)

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """The most frequent class."""
        return int(np.bincount(train.labels).argmax())

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S,) class numbers."""
        return logits.argmax(axis=1)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns: item, label, prediction, one logit per class."""
        predicted = self.predicted(logits)
        loss = cross_entropy(from_numpy(logits), from_numpy(split.labels)).item()
        return Predictions(split.labels, predicted, np.full_like(predicted, majority), loss, _columns(split, predicted, logits))


class Regression(_OneLabel):
    """One number per text or pair."""

    dtype = np.float32

    def num_outputs(self, task: TaskConfig) -> int:
        """A single output."""
        return 1

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for a task that names classes."""
        super().refuse_impossible(task)
        if task.labels:
            raise InputError(f"task.labels={task.labels} of task {task.name!r} must be empty: task.kind is regression")

    def _refuse_label(self, task: TaskConfig, label: object, where: str) -> None:
        if isinstance(label, bool) or not isinstance(label, (int, float)) or label != label:
            raise InputError(f"{where}: expected a number in column {task.label!r}, task.label, got {label!r}")

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """0; any number would do, because a correlation with a constant is undefined."""
        return 0

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S,) predicted numbers."""
        return logits[:, 0]

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns: item, label, prediction, and the only logit, which is the prediction."""
        predicted = self.predicted(logits)
        loss = mse_loss(from_numpy(logits)[:, 0], from_numpy(split.labels)).item()
        return Predictions(split.labels, predicted, np.full_like(predicted, majority), loss, _columns(split, predicted, logits))


def refuse_class(task: TaskConfig, label: object, where: str) -> None:
    """InputError for a label that is neither a class number nor HIDDEN, which only test splits have."""
    if isinstance(label, bool) or not isinstance(label, int) or not (0 <= label < len(task.labels) or label == HIDDEN):
        raise InputError(f"{where}: label {label!r} is not among 0 to {len(task.labels) - 1}, task.labels")


def refuse_missing_texts(texts: list[list[str]], where: str) -> None:
    """InputError for a split without rows, for a row without text, and where all texts are empty."""
    if not texts:
        raise InputError(f"{where}: there are no rows")
    for row, values in enumerate(texts):
        if not all(isinstance(text, str) for text in values):
            raise InputError(f"{where}, row {row}: expected text in every column of task.fields, got {values}")
    if not any(text.strip() for values in texts for text in values):
        raise InputError(f"{where}: the texts of all {len(texts)} rows are empty; set task.fields to columns with text")


def _columns(split: Split, predicted: np.ndarray, logits: np.ndarray) -> dict[str, object]:
    return {"item": split.items, "label": split.labels, "prediction": predicted} | logit_columns(logits)
