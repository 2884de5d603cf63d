"""Pairs of sentences of which one is right: a language model is right where it finds that one likelier; nothing is trained.

BLiMP's form (arXiv:1912.00582): `task.fields` names the right and the wrong sentence. EWoK's form (arXiv:2405.09605): it names
two contexts and two targets; each target is right after its own context, and the tokens of the target alone are scored.
`task.label` names the column of the paradigm. S items, T tokens.
"""

from collections import defaultdict
from itertools import count
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from harness.config.schema import TaskConfig
from harness.errors import InputError, checked
from harness.tasks.base import Examples, Kind, Predictions, Split, joined, logit_columns
from harness.tasks.classification import texts_of
from harness.tasks.rows import Table
from harness.tasks.synthetic.paradigms import PARADIGMS


class MinimalPairs(Kind):
    """The label of a pair is the place of its right sentence, 0 and 1 in turn: a majority baseline is right in half of them."""

    columns, expected = (2, 4), "the right and the wrong sentence, or two contexts and two targets"
    outputs = 0  # the head is that of a language model

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """(context, sentence) of the right and of the wrong sentence, and the paradigm as the label."""
        rows = texts_of(task, table)
        checked(rows, lambda row, texts: _refuse_equal(task, texts, table.place(row)))
        paradigms, items = table.columns[task.label], table.items
        if len(task.fields) == 2:
            texts = [["", good, "", bad] for good, bad in rows]
        else:
            texts = [pair for a, b, x, y in rows for pair in ([a, x, b, x], [b, y, a, y])]
            paradigms = [paradigm for paradigm in paradigms for _ in range(2)]
            items = [f"{item}.{part}" for item in items for part in (1, 2)]
        return Examples(texts, list(paradigms), items, table.where)

    def encode(self, task: TaskConfig, tokenizer: Tokenizer, examples: Examples) -> Split:
        """The right sentences, and in `numbers` the wrong ones, with the word of each token, -1 where it is not scored.

        InputError for a sentence of more than task.max_length tokens, which cannot be cut.
        """
        seen: dict[str, count[int]] = defaultdict(count)
        numbers_of = np.array([next(seen[paradigm]) for paradigm in examples.labels])
        texts: dict[str, list[Any]] = {"paradigm": examples.labels}
        parts, numbers = {}, {}
        for side, first in (("good", 0), ("bad", 2)):
            contexts = [row[first].strip() for row in examples.texts]
            texts[side] = [f"{context} {row[first + 1]}".strip() for context, row in zip(contexts, examples.texts, strict=True)]
            encodings = tokenizer.encode_batch(texts[side])
            longest = max(range(len(encodings)), key=lambda row: len(encodings[row].ids))
            if (length := len(encodings[longest].ids)) > task.max_length:
                where = f"{examples.where}, item {examples.items[longest]}"
                raise InputError(
                    f"{where}: a sentence has {length} tokens, more than task.max_length={task.max_length}: raise it"
                )
            parts[side] = joined(encodings)
            words = [  # -1 for special tokens and for those of the context
                -1 if word is None or start < len(context) else word
                for encoding, context in zip(encodings, contexts, strict=True)
                for word, (start, _) in zip(encoding.word_ids, encoding.offsets, strict=True)
            ]
            numbers[f"{side}_words"] = np.array(words, dtype=np.int64)
        numbers |= {"bad_ids": parts["bad"][0], "bad_starts": parts["bad"][2]}
        return Split(*parts["good"], numbers_of % 2, examples.items, numbers, texts)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """From (S, 2, 2) nats, by way of scoring, of the right and of the wrong sentence.

        Columns: item, paradigm, what is known of it, both sentences, label, prediction, nats of the first and second sentence,
        and whether the second way of scoring is right. A tie is the first sentence.
        """
        label = split.labels
        nats = logits.astype(np.float32)
        ordered = np.where(label[:, None, None] == 0, nats, nats[:, :, ::-1])  # (S, 2, 2) of the first and the second one
        predicted = ordered.argmax(axis=2)
        right = predicted == label[:, None]
        paradigms = split.texts["paradigm"]
        of_pairs = [PARADIGMS.get(paradigm) if task.pairs else None for paradigm in paradigms]
        columns = {
            "item": split.items,
            "paradigm": paradigms,
            "phenomenon": [known and known.phenomenon for known in of_pairs],
            "distance": [known and known.distance for known in of_pairs],
            "side": [known and known.side for known in of_pairs],
            "sentence_good": split.texts["good"],
            "sentence_bad": split.texts["bad"],
            "label": label,
            "prediction": predicted[:, 0],
            **logit_columns(ordered[:, 0]),
            "right_by_piece": right[:, 1],
        }
        return Predictions(paradigms, right, np.repeat(label[:, None] == majority, 2, axis=1), None, columns)


def _refuse_equal(task: TaskConfig, texts: list[str], where: str) -> None:
    if texts[0].strip() == texts[1].strip():
        first, second = task.fields[:2]
        raise InputError(f"{where}: {first!r} and {second!r} (task.fields) are equal, so neither is right; remove the pair")
