"""A class, any number of classes, or a number for a text or a pair of texts. S texts, C classes."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tokenizers import Tokenizer
from torch import Tensor, from_numpy
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.errors import InputError, present
from harness.models.batch import Batch
from harness.models.heads import ChoiceClassifier, Classifier
from harness.tasks import scores
from harness.tasks.base import Examples, Kind, Predictions, Split, cut_share, joined, logit_columns
from harness.tasks.rows import Table, lists_endings


class _OneLabel(Kind):
    """The common part of classification and regression."""

    dtype: type
    mean_loss: Callable[[Tensor, Tensor], Tensor]

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The rows; InputError where all texts are empty."""
        return Examples(texts_of(task, table), list(table.columns[task.label]), table.items, table.where)

    @abstractmethod
    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S, C) -> (S,) predictions; needs no labels."""

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns: item, label, prediction, and the logits, one per class; for a regression, the logit is the prediction."""
        predicted, loss = self.predicted(logits), self.mean_loss(from_numpy(logits), from_numpy(split.labels)).item()
        columns = {"item": split.items, "label": split.labels, "prediction": predicted} | logit_columns(logits)
        return Predictions(split.labels, predicted, np.full_like(predicted, majority), loss, columns)

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence per row, truncated to task.max_length."""
        tokenizer.enable_truncation(task.max_length)
        inputs = [texts[0] if len(texts) == 1 else tuple(texts) for texts in examples.texts]
        found, labels = tokenizer.encode_batch(inputs), np.asarray(examples.labels, dtype=self.dtype)
        return Split(*joined(found), labels, examples.items, cut=cut_share(found))


class Classification(_OneLabel):
    """One class per text or pair."""

    has_classes = True
    dtype = np.int64
    mean_loss = staticmethod(cross_entropy)

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

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """The most frequent class; where the headline is F1, class 1, as any other one scores 0."""
        return 1 if task.headline == "f1" else int(np.bincount(train.labels).argmax())

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S,) class numbers."""
        return logits.argmax(axis=1)


class Regression(_OneLabel):
    """One number per text or pair. Any constant would do as a baseline: the correlation with it is undefined."""

    outputs = 1
    dtype = np.float32

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S,) predicted numbers."""
        return logits[:, 0]

    @staticmethod
    def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
        """() squared error."""
        return mse_loss(logits[:, 0], labels)


class MultiLabel(Classification):
    """Any number of classes per text or pair, each decided by itself: the label is a list of class numbers."""

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for more than two text columns, and for a single label, whose scores would count its absence, too."""
        Kind.refuse_impossible(self, task)
        if len(task.labels) == 1:
            raise InputError(
                f"task.labels={task.labels} of task {task.name!r} is a single label, task.kind=multilabel needs two or more: "
                "name the other rows, too, and set task.kind=classification"
            )

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence per row; labels are (S, C) float32, 1 for the classes of a row."""
        split = super().encode(task, tokenizer, replace(examples, labels=[0] * len(examples.labels)))
        split.labels = _matrix(task, examples.labels).astype(np.float32)
        return split

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """The most frequent classes, as many as score best in the headline when every text gets them: a sum of powers of 2."""
        labels = _matrix(task, train.labels)
        order, best = np.argsort(-labels.sum(axis=0), kind="stable"), (-1.0, 0)
        for count in range(len(order) + 1):
            constant = sum(1 << int(number) for number in order[:count])
            score = scores.compute(TaskKind.multilabel, task.headline, labels, _constant(constant, labels)) or 0.0
            best = max(best, (score, constant), key=lambda pair: pair[0])
        return best[1]

    def loss_of(self, model: Classifier, logits: Tensor, batch: Batch) -> Tensor:
        """Binary cross-entropy in nats, mean over texts and classes."""
        return binary_cross_entropy_with_logits(logits.float(), present(batch.labels), pos_weight=model.class_weights)

    def soft_loss(self, logits: Tensor, answers: Tensor, batch: Batch, temperature: float) -> Tensor:
        """() divergence in nats of each class, mean over texts and classes."""
        ours, theirs = logits.float() / temperature, answers.float() / temperature
        losses = [binary_cross_entropy_with_logits(one, theirs.sigmoid()) for one in (ours, theirs)]
        return temperature**2 * (losses[0] - losses[1])

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """(S, C) 1 where the probability of the class is above a half."""
        return (logits > 0).astype(int)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns: item, names of the right and of the predicted classes, and the logits of all classes."""
        predicted, labels, names = self.predicted(logits), split.labels.astype(int), np.array(task.labels, dtype=object)
        loss = binary_cross_entropy_with_logits(from_numpy(logits), from_numpy(split.labels)).item()
        lists = [[names[row > 0].tolist() for row in both] for both in (labels, predicted)]
        columns = {"item": split.items, "labels": lists[0], "predictions": lists[1], "logits": logits.tolist()}
        return Predictions(labels, predicted, _constant(majority, labels), loss, columns)


class MultipleChoice(Classification):
    """Which of several endings a text has (arXiv:1808.05326): each is scored behind the text, by a softmax over the endings.

    `task.fields` names the text and then each ending, or one column that lists them; `task.labels` names the endings.
    """

    outputs = 1

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for fewer than two endings, and for another number of them than of labels."""
        counts = (2, 1 + (len(task.labels) or len(task.fields[1:])))
        if len(task.fields) < 2 or len(task.fields) not in counts:
            raise InputError(
                f"task.fields={task.fields} of task {task.name!r} must name the text and then a column for each of the "
                f"{len(task.labels)} labels, or the one column that lists the endings"
            )
        super().refuse_impossible(replace(task, fields=task.fields[:2]))

    def head(self) -> type[ChoiceClassifier]:
        """One output a text, compared over the endings."""
        return ChoiceClassifier

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence per ending, those of a row one after the other; InputError for a row with another number of endings."""
        count, rows = len(task.labels), examples.texts
        for item, (_, *endings) in zip(examples.items, rows, strict=True):
            if len(endings) != count:
                raise InputError(f"{examples.where}, item {item}: {len(endings)} endings, but task.labels has {count} names")
        tokenizer.enable_truncation(task.max_length)
        found = tokenizer.encode_batch([(first, ending) for first, *endings in rows for ending in endings])
        numbers = {"group": np.array([count]), "owners": np.repeat(np.arange(len(rows)), count)}
        labels = np.asarray(examples.labels, dtype=self.dtype)
        return Split(*joined(found), labels, examples.items, numbers, cut=cut_share(found))


def _matrix(task: TaskConfig, labels: list[list[int]]) -> np.ndarray:
    """(S, C) 1 for the classes of a row."""
    return np.array([np.bincount(numbers, minlength=len(task.labels)) for numbers in labels])


def _constant(majority: int, labels: np.ndarray) -> np.ndarray:
    """(S, C) the same classes for every text."""
    return np.broadcast_to([majority >> number & 1 for number in range(labels.shape[1])], labels.shape)


def texts_of(task: TaskConfig, table: Table) -> list[list[str]]:
    """The texts of each row, one per column in task.fields or per listed ending; InputError where all are empty."""
    texts = [list(row) for row in zip(*(table.columns[column] for column in task.fields), strict=True)]
    texts = [[first, *endings] for first, endings in texts] if lists_endings(task, task.fields[-1]) else texts
    refuse_empty_texts(texts, table.where)
    return texts


def refuse_empty_texts(texts: list[list[str]], where: str) -> None:
    """InputError where all texts are empty."""
    if not any(text.strip() for values in texts for text in values):
        raise InputError(f"{where}: the texts of all {len(texts)} rows are empty; set task.fields to columns with text")
