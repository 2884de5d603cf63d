"""One answer a text or pair of texts: a class, or a number on a scale."""

from abc import abstractmethod

import numpy as np
from tokenizers import Tokenizer
from torch import from_numpy
from torch.nn.functional import cross_entropy, mse_loss

from harness.config.schema import TaskConfig
from harness.errors import InputError
from harness.tasks.base import Answers, Examples, Kind, Split, joined, logit_columns
from harness.tasks.rows import HIDDEN, Table


class _OneAnswer(Kind):
    """What classification and regression have in common."""

    dtype: type

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError unless there are one or two text columns."""
        if len(task.fields) not in (1, 2):
            raise InputError(f"task.fields={task.fields} of task {task.name!r} must name one or two text columns")

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The rows; InputError for one without text or with a label that the task has not."""
        texts = [list(texts) for texts in zip(*(table.columns[column] for column in task.fields), strict=True)]
        refuse_missing_texts(texts, table.where)
        labels = table.columns[task.label]
        for row, label in enumerate(labels):
            self._refuse_label(task, label, f"{table.where}, row {row}")
        return Examples(texts, list(labels), table.items, table.where)

    @abstractmethod
    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S, C) -> (S,) the answers, whether or not labels are there to score them."""

    @abstractmethod
    def _refuse_label(self, task: TaskConfig, label: object, where: str) -> None: ...

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence a row, cut to the task's length."""
        tokenizer.enable_truncation(task.max_length)
        inputs = [texts[0] if len(texts) == 1 else tuple(texts) for texts in examples.texts]
        parts = joined(tokenizer.encode_batch(inputs))
        return Split(*parts, np.asarray(examples.labels, dtype=self.dtype), examples.items)


class Classification(_OneAnswer):
    """One of some classes."""

    dtype = np.int64

    def num_outputs(self, task: TaskConfig) -> int:
        """One a class."""
        return len(task.labels)

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for less than two classes, or another number than two where F1 is asked for."""
        super().refuse_impossible(task)
        if not task.labels:
            return  # the rows say which there are: `load_table` tells them
        if len(task.labels) < 2:
            raise InputError(
                f"task.labels={task.labels} of task {task.name!r} must name two classes or more; "
                "a task with numbers for labels says task.kind=regression"
            )
        if "f1" in task.scores and len(task.labels) != 2:
            raise InputError(f"task.scores: 'f1' needs two labels, task {task.name!r} has {len(task.labels)}")

    def _refuse_label(self, task: TaskConfig, label: object, where: str) -> None:
        refuse_class(task, label, where)

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """The most frequent class."""
        return int(np.bincount(train.labels).argmax())

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S,) numbers of classes."""
        return logits.argmax(axis=1)

    def answers(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Answers:
        """One row an item: label, prediction, a logit for each class."""
        predicted = self.predicted(logits)
        loss = cross_entropy(from_numpy(logits), from_numpy(split.labels)).item()
        return Answers(split.labels, predicted, np.full_like(predicted, majority), loss, _columns(split, predicted, logits))


class Regression(_OneAnswer):
    """A number on a scale."""

    dtype = np.float32

    def num_outputs(self, task: TaskConfig) -> int:
        """A single one."""
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
        """Any number will do: a correlation with a constant is undefined."""
        return 0

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S,) numbers on the scale."""
        return logits[:, 0]

    def answers(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Answers:
        """One row an item: label, prediction, and the prediction again as the only logit."""
        predicted = self.predicted(logits)
        loss = mse_loss(from_numpy(logits)[:, 0], from_numpy(split.labels)).item()
        return Answers(split.labels, predicted, np.full_like(predicted, majority), loss, _columns(split, predicted, logits))


def refuse_class(task: TaskConfig, label: object, where: str) -> None:
    """InputError for what is neither the number of a class nor HIDDEN, which a table has in its test split alone."""
    if isinstance(label, bool) or not isinstance(label, int) or not (0 <= label < len(task.labels) or label == HIDDEN):
        raise InputError(f"{where}: label {label!r} is not among 0 to {len(task.labels) - 1}, task.labels")


def refuse_missing_texts(texts: list[list[str]], where: str) -> None:
    """InputError for a split without rows and for a row without text."""
    if not texts:
        raise InputError(f"{where}: there are no rows")
    for row, given in enumerate(texts):
        if not all(isinstance(text, str) for text in given):
            raise InputError(f"{where}, row {row}: expected text in every column of task.fields, got {given}")


def _columns(split: Split, predicted: np.ndarray, logits: np.ndarray) -> dict[str, object]:
    return {"item": split.items, "label": split.labels, "prediction": predicted} | logit_columns(logits)
