"""Texts compared by the cosine of their vectors: pairs with a number, and questions with their paragraphs.

The first texts are the sequences of a split, the second ones are in its `numbers`. S sequences, P paragraphs, T tokens.
"""

from collections.abc import Iterable

import numpy as np
from tokenizers import Tokenizer

from harness.config.schema import TaskConfig
from harness.errors import InputError
from harness.models.heads import TextVectors
from harness.tasks.base import Examples, Predictions, Split, joined
from harness.tasks.classification import Regression, texts_of
from harness.tasks.rows import Table
from harness.tasks.scores import RANKS


class Similarity(Regression):
    """A number per pair, which the cosine of its texts should follow (arXiv:1708.00055)."""

    columns, expected = (2,), "two columns of texts"

    def head(self) -> type[TextVectors]:
        """None: a vector for each text."""
        return TextVectors

    def compared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(S,) cosines of the texts of each pair."""
        return (first * second).sum(axis=1)

    def encode(self, task: TaskConfig, tokenizer: Tokenizer, examples: Examples) -> Split:
        """Each text by itself."""
        firsts, seconds = zip(*examples.texts, strict=True)
        return two_sides(task, tokenizer, examples, firsts, seconds)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """From (S,) cosines. Columns: item, label, cosine."""
        columns = {"item": split.items, "label": split.labels, "cosine": logits}
        return Predictions(split.labels, logits, np.zeros_like(logits), None, columns)


class Retrieval(Similarity):
    """The paragraph of a question among all distinct ones of the split; a question that several rows ask has several."""

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """Questions and paragraphs; the label is the number of the paragraph, in the order in which they first come."""
        texts = texts_of(task, table)
        numbers: dict[str, int] = {}
        return Examples(texts, [numbers.setdefault(text, len(numbers)) for _, text in texts], table.items, table.where)

    def compared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(S, P) cosines of each question and each paragraph."""
        return first @ second.T

    def encode(self, task: TaskConfig, tokenizer: Tokenizer, examples: Examples) -> Split:
        """Every question, and every paragraph once. `texts["relevant"]`: numbers of the paragraphs of each question."""
        of_question: dict[str, set[int]] = {}
        for (question, _), label in zip(examples.texts, examples.labels, strict=True):
            of_question.setdefault(question, set()).add(label)
        questions, paragraphs = zip(*examples.texts, strict=True)
        split = two_sides(task, tokenizer, examples, questions, dict.fromkeys(paragraphs))
        split.texts["relevant"] = [sorted(of_question[question]) for question in questions]
        return split

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """From (S, P) cosines; the constant answer are the paragraphs with the most questions.

        Columns: item, numbers of its paragraphs, and those of the most similar ones with their cosines.
        """
        order = np.argsort(-logits, axis=1, kind="stable")[:, :RANKS]
        columns = {"item": split.items, "relevant": split.texts["relevant"], "ranked": order.tolist()}
        columns["cosines"] = np.take_along_axis(logits, order, axis=1).tolist()
        frequent = np.argsort(-np.bincount(split.labels), kind="stable")[:RANKS].tolist()
        return Predictions(columns["relevant"], columns["ranked"], [frequent] * len(split), None, columns)


def two_sides(
    task: TaskConfig, tokenizer: Tokenizer, examples: Examples, firsts: Iterable[str], seconds: Iterable[str]
) -> Split:
    """The first texts as sequences, the second ones in `numbers`, each truncated to task.max_length."""
    tokenizer.enable_truncation(task.max_length)
    second = dict(zip(("second_ids", "second_types", "second_starts"), joined(tokenizer.encode_batch([*seconds])), strict=True))
    return Split(*joined(tokenizer.encode_batch([*firsts])), np.asarray(examples.labels), examples.items, second)


def refuse_shared_paragraphs(splits: dict[str, Examples]) -> None:
    """InputError for a paragraph that is trained on and ranked: it would be known, not found."""
    trained = {text for _, text in splits["train"].texts} if "train" in splits else set()
    for name, examples in splits.items():
        shared = [text for _, text in examples.texts if text in trained]
        if name != "train" and shared:
            raise InputError(
                f"{examples.where}: {len({*shared}):,} of its paragraphs are in train, too, such as {shared[0]!r:.60}: "
                "cut the splits between paragraphs, or remove those rows"
            )
