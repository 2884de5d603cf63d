"""Texts compared by the cosine of their vectors: pairs with a number, and questions with their paragraphs.

The first texts are the sequences of a split, the second ones are in its `numbers`. S sequences, P paragraphs, T tokens.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from tokenizers import Tokenizer

from harness.config.conditions import ranks_a_corpus
from harness.config.schema import TaskConfig
from harness.errors import InputError
from harness.models.heads import TextVectors
from harness.tasks.base import Examples, Predictions, Split, cut_share, joined
from harness.tasks.classification import Regression, texts_of
from harness.tasks.rows import Table
from harness.tasks.scores import RANKS


class Similarity(Regression):
    """A number per pair, which the cosine of its texts should follow (arXiv:1708.00055)."""

    columns, expected = (2,), "two columns of texts"

    def head(self) -> type[TextVectors]:
        """A vector for each text, without a trained head."""
        return TextVectors

    def compared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(S,) cosines of the texts of each pair."""
        return (first * second).sum(axis=1)

    def encode(self, task: TaskConfig, tokenizer: Tokenizer, examples: Examples) -> Split:
        """Both texts of each pair, tokenised separately."""
        firsts, seconds = zip(*examples.texts, strict=True)
        return two_sides(task, tokenizer, examples, firsts, seconds)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """From (S,) cosines. Columns: item, label, cosine."""
        columns = {"item": split.items, "label": split.labels, "cosine": logits}
        return Predictions(split.labels, logits, np.zeros_like(logits), None, columns)


class Retrieval(Similarity):
    """The paragraph of a question among all distinct ones of the split; a question that several rows ask has several."""

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """Questions and paragraphs; the label is the number of the paragraph, in the order in which they first come.

        For a corpus: queries, and grades of documents by their numbers.
        """
        if table.corpus:
            queries, grades = ([*table.columns[name]] for name in (*task.fields, task.label))
            return Examples([[query] for query in queries], grades, table.items, table.where, table.corpus)
        texts = texts_of(task, table)
        numbers: dict[str, int] = {}
        return Examples(texts, [numbers.setdefault(text, len(numbers)) for _, text in texts], table.items, table.where)

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for other than two columns, or the one of a corpus and its queries."""
        super().refuse_impossible(replace(task, fields=task.fields * 2) if ranks_a_corpus(task) else task)

    def compared(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(S, P) cosines of each question and each paragraph."""
        return first @ second.T

    def encode(self, task: TaskConfig, tokenizer: Tokenizer, examples: Examples) -> Split:
        """Every question, and every paragraph once. `texts["relevant"]`: numbers of the paragraphs of each question."""
        if examples.corpus:
            return _ranking(task, tokenizer, examples)
        of_question: dict[str, set[int]] = {}
        for (question, _), label in zip(examples.texts, examples.labels, strict=True):
            of_question.setdefault(question, set()).add(label)
        questions, paragraphs = zip(*examples.texts, strict=True)
        split = two_sides(task, tokenizer, examples, questions, dict.fromkeys(paragraphs))
        split.texts["relevant"] = [sorted(of_question[question]) for question in questions]
        return split

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """From (S, P) cosines; the majority baseline ranks the paragraphs with the most questions first.

        Columns: item, numbers of its paragraphs, their grades if any, and the most similar ones with their cosines.
        """
        itself = split.numbers.get("itself", np.full(len(split), -1))  # the document that a query is, and so does not find
        order = [np.argsort(-row, kind="stable")[: RANKS + 1] for row in logits]
        order = [best[best != own][:RANKS] for best, own in zip(order, itself, strict=True)]
        columns = {"item": split.items, "relevant": split.texts["relevant"], "ranked": [best.tolist() for best in order]}
        columns["cosines"] = [row[best].tolist() for row, best in zip(logits, order, strict=True)]
        frequent = np.argsort(-np.bincount(split.labels), kind="stable")[:RANKS].tolist()
        labels = columns["relevant"]
        if "grades" in split.texts:
            columns["grades"] = split.texts["grades"]
            labels = [dict(zip(*both, strict=True)) for both in zip(labels, columns["grades"], strict=True)]
        return Predictions(labels, columns["ranked"], [frequent] * len(split), None, columns)


def _ranking(task: TaskConfig, tokenizer: Tokenizer, examples: Examples) -> Split:
    """Every query, and every document once, with the grades of the relevant ones.

    `numbers["itself"]`: number of the document with the id of the query, or -1.
    """
    numbers = {name: number for number, name in enumerate(examples.corpus)}
    firsts = [next(iter(grades), 0) for grades in examples.labels]
    queries, documents = (text for (text,) in examples.texts), examples.corpus.values()
    split = two_sides(task, tokenizer, replace(examples, labels=firsts), queries, documents)
    split.numbers["itself"] = np.array([numbers.get(str(item), -1) for item in examples.items])
    split.texts["relevant"] = [[*grades] for grades in examples.labels]
    split.texts["grades"] = [[*grades.values()] for grades in examples.labels]
    return split


def two_sides(
    task: TaskConfig, tokenizer: Tokenizer, examples: Examples, firsts: Iterable[str], seconds: Iterable[str]
) -> Split:
    """The first texts as sequences, the second ones in `numbers`, each truncated to task.max_length."""
    tokenizer.enable_truncation(task.max_length)
    sides = [tokenizer.encode_batch([*texts]) for texts in (firsts, seconds)]
    second = dict(zip(("second_ids", "second_types", "second_starts"), joined(sides[1]), strict=True))
    cut = cut_share([*sides[0], *sides[1]])
    return Split(*joined(sides[0]), np.asarray(examples.labels), examples.items, second, cut=cut)


def refuse_shared_paragraphs(splits: dict[str, Examples]) -> None:
    """InputError for a paragraph that is trained on and ranked: it would be known, not found."""
    trained = {texts[-1] for texts in splits["train"].texts} if "train" in splits else set()
    for name, examples in splits.items():
        shared = [texts[-1] for texts in examples.texts if texts[-1] in trained]
        if name != "train" and shared:
            raise InputError(
                f"{examples.where}: {len({*shared}):,} of its paragraphs are also in train, such as {shared[0]!r:.60}: "
                "cut the splits between paragraphs, or remove those rows"
            )
